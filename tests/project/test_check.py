"""``check``: what is green, what it prints, what it remembers, and the solution afterwards."""

from __future__ import annotations

import pytest

from kata import progress
from kata.commands import check
from kata.commands.solution import comparable
from kata.paths import CORES, ROOT, suites
from kata.showing import show_rest
from kata.stubs import stub
from kata.terminal import open_console
from kata.verdict import End, reason_of
from lessons import CHAIN, FINALE
from tests.project import submissions
from tests.project.stage import everything_in, play, report, solve, turn_green, verdict
from tests.project.submissions import NAMES_THE_LAST
from tests.suite.answers import run_suite

LESSON = "path_of_module"
GREEN = verdict(LESSON, report("passed"), report("failed", is_stretch=True))
STARRED = verdict(LESSON, report("passed"), report("passed", is_stretch=True))
RED = verdict(LESSON, report("passed"), report("failed"))
TODO = verdict(LESSON, report("todo"))
CUT_SHORT = verdict(LESSON, report("passed"), how=End.TIME, skip=1)


def test_a_red_stretch_is_not_shown_until_the_core_is_green():
    stretch = report("failed", is_stretch=True)
    unfinished = verdict(LESSON, report("passed"), report("todo"), stretch)
    assert (unfinished.state, unfinished.first_failure) == ("started", None)
    assert verdict(LESSON, stretch, report("failed")).failures == (report("failed"),)
    assert (GREEN.state, GREEN.first_failure) == ("done", stretch)
    assert verdict(LESSON, stretch).first_failure == stretch  # if only the stretch was asked for


@pytest.mark.parametrize(
    ("verdicts", "words", "code"),
    [
        ([RED], [], 1),
        ([CUT_SHORT], [], 1),
        ([STARRED, TODO], [], 1),
        ([STARRED, GREEN], [], 0),
        ([GREEN], ["--stretch"], 1),
        ([STARRED], ["--stretch"], 0),
        ([verdict("finale", report("passed"))], ["--stretch"], 0),
    ],
)
def test_only_what_is_all_green_has_the_exit_code_of_success(verdicts, words, code, monkeypatch):
    monkeypatch.setattr(check, "verdicts", lambda *asked: iter(verdicts))
    assert play("check", *words).code == code


def test_a_pristine_lesson_is_todo_without_a_run(learner, monkeypatch):
    monkeypatch.setattr(check, "Judge", None)
    played = play("check", LESSON, "inversion")
    assert (played.code, played.screen.count("not started: open lessons/")) == (1, 2)


def test_a_memory_that_cannot_be_written_costs_no_hint(learner):
    learner.memory.write_text("a file in place of the folder")
    progress.remember(STARRED, "hash")
    assert play("hint", LESSON).code == 0


def test_what_is_red_is_judged_explained_and_remembered(learner, warm):
    (learner.lessons / f"{LESSON}.py").write_text(NAMES_THE_LAST)
    before = everything_in(learner.lessons)
    played = play("check", LESSON)
    assert played.code == 1
    assert "the last of three names was taken" in played.screen
    assert len(played.screen.splitlines()) <= 25
    result = progress.recall(LESSON)
    assert (result.state, result.is_current, result.green) == ("red", True, "")
    assert not progress.is_yours(LESSON)
    assert everything_in(learner.lessons) == before


def test_a_pass_is_remembered_beyond_a_later_failure_and_a_run_that_was_stopped(learner):
    for each in (STARRED, RED):
        progress.remember(each, "hash")
    for how in (End.STOPPED, End.BROKEN):
        progress.remember(verdict(LESSON, report("todo"), how=how), "another")
    result = progress.recall(LESSON)
    assert (result.state, result.judged, result.green) == ("red", "hash", "hash")
    (learner.memory / "results" / f"{LESSON}.json").write_text('{"core": 1}')
    assert progress.recall(LESSON) is None


def test_the_solution_turns_yours_into_the_reference_once_you_have_passed(learner):
    assert play("solution", LESSON).code == 1
    turn_green(LESSON)
    assert play("solution", LESSON).screen.startswith("yours is the reference")
    (learner.lessons / f"{LESSON}.py").write_text("mine = 1\n")
    lines = play("solution", LESSON).screen.splitlines()
    assert lines[:2] == [f"--- lessons/{LESSON}.py", f"+++ solutions/{LESSON}.py"]
    added = [line[1:] for line in lines[3:] if line.startswith("+")]
    assert added == comparable((CORES / f"{LESSON}.py").read_text())


def test_the_solution_shows_the_stretch_and_says_where_the_given_code_is(learner):
    screen = play("solution", "backend", "--show-me", "--stretch").screen
    assert screen.startswith("── solutions/stretch/backend/")
    screen = play("solution", "backend", "--show-me").screen
    assert "given/backend.py" in screen
    assert "# --- " not in screen  # headings are the reference's alone


# --- the finale and the chain: they run with what is lent, and are done when all is yours


def test_the_chain_runs_with_what_is_lent_and_is_done_when_all_is_yours(learner, warm):
    solve("graph", "code")
    some = play("check", "chain")
    assert some.code == 1
    assert some.screen.startswith("started   chain           core 3 of 3")
    assert "2 of 7 pieces are yours; done when all are" in some.screen
    assert "lent by the reference: capture," in some.screen
    solve(*CHAIN.needs, "proxy")
    every = play("check", "chain")
    assert (every.code, every.screen.split()[:2]) == (0, ["done", "chain"]), every.screen


def test_eight_written_lessons_are_one_engine_and_a_piece_that_stays_torch_s_is_named(
    learner, warm
):
    solve(*FINALE.needs[:-1])
    some = play("check", "finale")
    assert (some.code, some.screen.split()[:2]) == (1, ["started", "finale"]), some.screen
    assert "7 of 8 pieces are yours; done when all are" in some.screen
    solve("tracer")
    judged = play("check", "finale")
    assert (judged.code, judged.screen.split()[:2]) == (0, ["done", "finale"]), judged.screen
    assert judged.screen.splitlines()[0] in (ROOT / "docs/finale.md").read_text(encoding="utf-8")
    file = progress.file_of("graph")
    file.write_text(file.read_text() + "\n\nfrom torch.fx.graph import Graph as Graph\n")
    judged = play("check", "finale")
    assert judged.code == 1
    assert "a piece is yours [Graph]" in judged.screen


# --- the reason for a failure, and what is said of the failures after the first

COMPARED = """\
expected:     1
got:          2
likely cause: the first line of the cause
              and its second. Another sentence
try:          something else"""
RAISED = """\
TypeError: unhashable type: 'list'
likely cause: a cause in a note that goes
  on
try: a hint
  lessons/a.py:3, in f
      return {[]}"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (COMPARED, "the first line of the cause and its second."),
        (RAISED, "a cause in a note that goes on"),
        ("KeyError: 1\n  lessons/a.py:3, in f", "KeyError: 1"),
        ("expected:     1\ngot:          2", "a sentence"),
        ("", "a sentence"),
    ],
)
def test_a_reason_is_the_cause_or_the_error_or_the_test(text: str, reason: str):
    assert reason_of(report("failed", text)) == reason


ANOTHER = "3 more tests are red; another cause:\n- a cause in a note that goes on\n\n"


@pytest.mark.parametrize(
    ("others", "shown"),
    [
        ([], "\n"),
        ([COMPARED, "KeyError: 1"], "2 more tests are red\n\n"),
        ([COMPARED, "KeyError: 1", RAISED], ANOTHER),
    ],
)
def test_the_others_are_counted_and_one_cause_is_told_if_it_is_another(others, shown, learner):
    console = open_console()
    with console.capture() as out:
        show_rest(console, verdict("tracer", *(report("failed", t) for t in [COMPARED, *others])))
    assert out.get() == shown


# --- whose pieces run: a lesson is the learner's once its current code has been green


CORE = "tests/test_path_of_module.py"


def change(lesson: str, line: str) -> None:
    with progress.file_of(lesson).open("a") as file:
        file.write(line)


class CtrlC:
    def pytest_runtest_logfinish(self) -> None:
        raise KeyboardInterrupt


def test_pytest_remembers_what_whole_files_say_and_nothing_of_a_part(learner):
    progress.file_of("path_of_module").write_text(submissions.STARRED)
    run_suite(CORE, plugins=[CtrlC()])
    for part in (("--step=1", CORE), ("-k", "root", CORE), (f"{CORE}::test_x",)):
        run_suite(*part)
    assert progress.recall("path_of_module") is None
    run_suite(CORE)
    assert progress.is_yours("path_of_module")
    assert progress.recall("path_of_module").state == "done"
    for files in (suites("path_of_module"), [CORE]):  # without the stretch, the star stays
        run_suite(*files)
        assert progress.recall("path_of_module").state == "starred"


def test_pytest_and_check_lend_what_is_written_and_was_never_green(learner, warm):
    solve("code", "interpreter")
    shown = run_suite("tests/test_interpreter.py", "--step=1").terminal
    assert "code" in shown.partition("lent by")[2]
    assert "lent by the reference: code" in play("check", "interpreter", "--step", "1").screen


def test_a_comment_leaves_a_lesson_green_and_of_other_code_the_screen_says_so(learner, warm):
    turn_green("code")
    solve("interpreter")
    change("code", "\n\n# a comment\n")
    assert "lent by the reference: code" not in play("check", "interpreter", "--step", "1").screen
    change("code", "mine = 1\n")
    screen = play("check", "interpreter", "--step", "1").screen
    assert "lent by the reference: code" in screen
    assert "changed since it was green: code; `kata check` judges it" in screen


def test_a_lesson_that_python_cannot_read_is_lent_to_others():
    sources = {"graph": b"mine = 1\n", "code": b"def broken(:\n", "proxy": stub("proxy")}
    assert progress.written(sources) == ("graph",)
