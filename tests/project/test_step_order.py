"""A learner who writes the steps in the page's order turns each of them green before the next."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kata.lesson_names import NAMES
from kata.paths import CORES, ROOT
from kata.steps import steps_of, unwritten
from kata.stubs import stub
from tests.suite.answers import judge_folder
from tools.stubs import write

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
def test_a_step_is_green_before_the_next_one_is_written(lesson: str, number: int, tmp_path: Path):
    write(tmp_path)
    later = {name for name, step in WITH_STEPS[lesson].items() if step > number}
    (tmp_path / f"{lesson}.py").write_text(core_without(lesson, later))
    verdict = judge_folder(
        tmp_path, f"tests/test_{lesson}.py", f"--step={number}", "-m", "not slow"
    )
    section = steps_of(lesson)[number]
    assert not verdict.texts(), section.title
    waiting = [report.nodeid for report in verdict.reports if getattr(report, "todo", False)]
    assert not waiting, f"step {number} ({section.title}) needs a later one"
