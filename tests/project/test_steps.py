"""Steps: headings in a suite, judged alone by ``--step``, in an order that a learner can follow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from kata import progress, workspace
from kata.commands.watch import Watch
from kata.lesson_names import NAMES
from kata.paths import CORES, ROOT
from kata.steps import next_step, steps_left, steps_of, unwritten
from kata.stubs import stub
from kata.terminal import open_console
from tests.project.stage import play, report, solve, verdict
from tests.suite.answers import judge_folder

TEST = re.compile(r"^def test_\w+", re.MULTILINE)


@pytest.mark.parametrize("lesson", NAMES)
def test_the_steps_of_a_lesson_are_numbered_from_one_and_each_has_tests(lesson: str):
    steps = steps_of(lesson)
    assert steps
    assert sorted(steps) == list(range(1, len(steps) + 1))
    lines = (ROOT / f"tests/test_{lesson}.py").read_text().splitlines()
    for section in steps.values():
        assert TEST.search("\n".join(lines[section.lines.start : section.lines.stop - 1]))


@pytest.mark.parametrize("lesson", NAMES)
def test_the_page_names_every_step_and_chooses_no_tests_by_their_words(lesson: str):
    page = (ROOT / f"docs/lessons/{lesson}.md").read_text()
    shown = {int(number) for number in re.findall(r"--step (\d+)", page)}
    assert shown <= steps_of(lesson).keys()
    if f"$ kata check {lesson} --step" in page:
        listed = re.findall(rf"^\$ kata check {lesson} --step (\d+) +# (.*)$", page, re.MULTILINE)
        titles = [(str(number), each.title) for number, each in steps_of(lesson).items()]
        assert listed == titles
    assert '-k "' not in page


def test_a_step_is_judged_by_its_own_tests_and_the_result_is_not_kept(learner, warm):
    core = (CORES / "graph.py").read_text()
    broken = core.replace("            self._insert = before", "            pass")
    workspace.write(workspace.file_of("graph"), broken.encode())
    names, creating = (play("check", "graph", "--step", step) for step in "14")
    assert (names.code, names.screen.split()) == (0, "green graph step 1: 5 of 5 (names)".split())
    assert creating.code == 1
    assert "the insertion point wasn't restored after its block" in creating.screen
    assert progress.recall("graph") is None


def test_a_step_that_is_not_there_lists_those_that_are(learner):
    played = play("check", "graph", "--step", "9")
    assert played.code == 1
    assert "graph has no step 9; its steps are\n  1: names\n" in played.screen
    assert "--step needs one lesson" in play("check", "--step", "1").screen
    assert "--step needs one lesson" in play("watch", "--step", "1").screen


def test_a_watch_of_one_step_asks_for_it_and_shows_no_milestone(learner):
    solve("graph")
    judge, console = mock.Mock(), open_console()
    watch = Watch(judge, console, mock.Mock(), "graph", 2)
    watch.begin("graph")
    (request,) = judge.start.call_args.args
    assert (request.lesson, request.step) == ("graph", 2)
    with console.capture() as shown:
        watch.conclude(replace(verdict("graph", report("passed")), step=2))
    assert shown.get().startswith("green     graph           step 2: 1 of 1 (arguments and users)")
    assert "kata run" not in shown.get()


def test_the_next_step_is_that_of_the_first_test_that_waits(learner):
    lesson = "custom_tracers"
    first, second, *_ = steps_left(lesson)
    waiting = [report("todo", step.task) for step in (second, second, second, first)]
    run = verdict(lesson, *waiting, skip=1)
    assert next_step(run) == ""  # no lesson was begun
    file = learner.lessons / f"{lesson}.py"
    file.write_text(file.read_text() + "# mine\n")
    place = f"{second.name}, lessons/{lesson}.py:{second.line}; 3 tests wait for it"
    assert next_step(run) == f"next: {place}"
    assert next_step(verdict(lesson, *waiting, report("failed"))) == f"then: {place}"
    # The core isn't green yet, so a failure of the stretch isn't shown.
    hidden = report("failed", is_stretch=True)
    assert next_step(verdict(lesson, *waiting, hidden)) == f"next: {place}"


# --- a learner who writes the steps in the page's order turns each green before the next

ROW = re.compile(r"^(?:(\d+)\. |\| (\d+) \||\|.*--step (\d+))")


def steps_on_page(lesson: str) -> dict[str, int]:
    """The step in which each function is written, as the exercise on the page says."""
    page = (ROOT / f"docs/lessons/{lesson}.md").read_text()
    exercise = page.partition("\n## The exercise\n")[2].partition("\n## ")[0]
    said: dict[str, int] = {}
    for line in exercise.splitlines():
        if found := ROW.match(line):
            names = re.findall(r"`([\w.]+)`", line)
            said |= {
                name: int(next(filter(None, found.groups()))) for name in names if name not in said
            }
    functions = [step.name for step in unwritten(ast.parse(stub(lesson)).body)]
    short = {each: each.rpartition(".")[2] for each in functions}
    steps = {each: said.get(each) or said.get(short[each]) for each in functions}
    return {each: step for each, step in steps.items() if step}


def functions_of(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for each in body:
        if isinstance(each, ast.ClassDef):
            yield from functions_of(each.body, f"{owner}{each.name}.")
        elif isinstance(each, ast.FunctionDef):
            yield f"{owner}{each.name}", each


def core_without(lesson: str, names: set[str]) -> str:
    """The core, in which these functions raise what the stub's do."""
    tree = ast.parse((CORES / f"{lesson}.py").read_text())
    for name, function in functions_of(tree.body):
        if name in names:
            function.body = ast.parse(f'raise NotImplementedError("{lesson}: {name}")').body
    return ast.unparse(tree)


WITH_STEPS = {
    lesson: steps for lesson in NAMES if len(set((steps := steps_on_page(lesson)).values())) > 1
}


def test_most_pages_say_in_which_step_a_function_is_written():
    assert len(WITH_STEPS) >= 12, sorted(WITH_STEPS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lesson", "number"),
    [
        (lesson, number)
        for lesson in WITH_STEPS
        for number in sorted(set(WITH_STEPS[lesson].values()) & steps_of(lesson).keys())
    ],
)
def test_a_step_is_green_before_the_next_one_is_written(lesson: str, number: int, lessons: Path):
    later = {name for name, step in WITH_STEPS[lesson].items() if step > number}
    (lessons / f"{lesson}.py").write_text(core_without(lesson, later))
    judged = judge_folder(lessons, f"tests/test_{lesson}.py", f"--step={number}", "-m", "not slow")
    section = steps_of(lesson)[number]
    assert not judged.texts(), section.title
    waiting = [each.nodeid for each in judged.reports if getattr(each, "todo", False)]
    assert not waiting, f"step {number} ({section.title}) needs a later one"
