"""The command line: its commands, its words, and what a misspelt one is answered."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from kata.command_line import COMMANDS
from kata.paths import ROOT
from kata.progress import Result, Standing, next_of
from kata.verdict import Count
from lessons import CHAIN, COURSE, FINALE, LESSONS, TOGETHER, Lesson
from tests.project.stage import play, python

PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
QUICK = """
import contextlib, io, sys
from tests.project.stage import a_learner, play
with a_learner("tracer"):
    for words in ([], ["hint", "tracer"], ["reset", "tracer"], ["check", "tracer"]):
        play(*words)
print(*(name for name in ("torch", "pytest", "hypothesis") if name in sys.modules))
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_module_and_stands_on_a_page(name: str):
    module = importlib.import_module(f"kata.commands.{name}")
    assert name == "doctor" or callable(module.add_arguments)
    assert callable(module.main)
    assert any(f"kata {name}" in page.read_text() for page in PAGES)


def test_a_module_of_commands_is_a_command():
    files = {file.stem for file in (ROOT / "kata" / "commands").glob("[a-z]*.py")}
    assert files == {*COMMANDS, "overview"}


def test_the_page_of_the_commands_knows_no_others():
    text = (ROOT / "docs" / "commands.md").read_text()
    named = {line.split()[2] for line in text.splitlines() if line.startswith("$ kata ")}
    assert named <= set(COMMANDS)


def test_commands_that_judge_nothing_import_neither_torch_nor_pytest():
    done = python("-c", QUICK)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["chekc"], "did you mean check"),
        (["hint", "trace"], "did you mean tracer"),
        (["check", "tracer", "costum_tracers"], "did you mean custom_tracers"),
        (["reset", "nothing_like_it"], "known: proxy, "),
        (["grade", ".", "--lesson", "trace"], "did you mean tracer"),
    ],
)
def test_an_unknown_word_is_answered_by_near_ones(words, answer, learner):
    played = play(*words)
    assert played.code == 2
    assert answer in " ".join(played.screen.split())


class Current(Result):
    is_current = True


def rows(states: dict[str, str]) -> list[Standing]:
    """Return where somebody is with lessons in these states, and stubs for all others."""
    results = {
        name: Current(name, state, Count(), Count(), judged="") for name, state in states.items()
    }
    return [
        Standing(each, not written(each).issubset(results), results.get(each.name))
        for each in COURSE
    ]


def written(lesson: Lesson) -> set[str]:
    """The lessons whose files a row stands for."""
    return set(lesson.needs if lesson.name in TOGETHER else [lesson.name])


NAMES = [lesson.name for lesson in LESSONS]
FIRST, SECOND, THIRD, *_, LAST = NAMES


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({}, FIRST),
        ({FIRST: "done"}, SECOND),
        ({SECOND: "starred"}, THIRD),
        ({THIRD: "done", FIRST: "red"}, FIRST),
        ({LAST: "done"}, FIRST),
        (dict.fromkeys(FINALE.needs, "done"), FINALE.name),
        (dict.fromkeys([FINALE.name, *NAMES], "done"), CHAIN.name),
    ],
)
def test_the_next_lesson_is_the_one_begun_or_follows_the_last_one_done(states, expected):
    assert next_of(rows(states)).lesson.name == expected


# --- run: a script on the participant's lessons; what isn't written is lent


def test_a_script_runs_on_the_lessons_and_the_reference_lends_the_rest(tmp_path: Path):
    script = tmp_path / "mine.py"
    script.write_text("from lessons.path_of_module import PathOfModule\nprint(PathOfModule)\n")
    done = python("-m", "kata", "run", str(script), "a", "b")
    assert "PathOfModule" in done.stdout, done.stderr
    assert "lent by the reference: path_of_module" in done.stderr


def test_what_is_written_is_the_participants_own(learner, tmp_path: Path):
    (learner.lessons / "path_of_module.py").write_text("PathOfModule = 'mine'\n")
    script = tmp_path / "mine.py"
    script.write_text(
        "import sys\nfrom lessons.path_of_module import PathOfModule as P\nprint(P, sys.argv[1:])\n"
    )
    played = play("run", str(script), "a", "b")
    assert (played.code, played.screen) == (0, "mine ['a', 'b']\n")


def test_a_script_that_is_not_there_is_an_error_in_one_line(learner):
    played = play("run", "nowhere.py")
    assert (played.code, played.screen) == (1, "error: there is no file nowhere.py\n")
