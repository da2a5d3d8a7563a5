"""The steps of a lesson: by their numbers in its suite, and by the functions left to write."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kata.paths import ROOT
from kata.stubs import stub
from kata.verdict import Verdict
from kata.workspace import is_pristine, yours

# A heading in a suite: `# --- step 2: torch's functions ---`, or one without a number.
HEADING = re.compile(r"^# --- (?:step (?P<number>\d+): )?(?P<title>.*?)[ -]*$", re.IGNORECASE)
# The steps in which a function is written: `def names(self) -> list[str]:  # step 2`.
WRITTEN_IN = re.compile(r"# steps? (\d+(?:, \d+)*)$", re.MULTILINE)


class Section(NamedTuple):
    """The part of a core's suite that judges one step: its title, and the lines in the file."""

    title: str
    lines: range


def steps_of(lesson: str) -> dict[int, Section]:
    """The steps of a core's suite by their numbers: each goes from its heading to the next one."""
    lines = (ROOT / f"tests/test_{lesson}.py").read_text(encoding="utf-8").splitlines()
    headings = [(at, found) for at, line in enumerate(lines, 1) if (found := HEADING.match(line))]
    ends = [*(at for at, _ in headings), len(lines) + 1][1:]
    return {
        int(found["number"]): Section(found["title"], range(at, end))
        for (at, found), end in zip(headings, ends, strict=True)
        if found["number"]
    }


class Step(NamedTuple):
    """A function of a lesson that still raises what the stub raised.

    Attributes:
        name: Its name, with that of its class.
        line: Where it begins.
        task: The message of its ``NotImplementedError``.
    """

    name: str
    line: int
    task: str


def steps_left(lesson: str) -> list[Step]:
    """The steps that aren't written, in the order of the file."""
    try:
        steps = unwritten(ast.parse(yours(lesson)).body)
        return [step for step in steps if step.task.startswith(f"{lesson}: ")]
    except (SyntaxError, ValueError):
        return []


def unwritten(body: list[ast.stmt]) -> Iterator[Step]:
    """The functions that end in the stub's ``raise``."""
    for name, function in functions_of(body):
        if task := task_of(function):
            yield Step(name, function.lineno, task)


def functions_of(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a module or class and of the classes in it, by their qualified names."""
    for each in body:
        if isinstance(each, ast.ClassDef):
            yield from functions_of(each.body, f"{owner}{each.name}.")
        elif isinstance(each, ast.FunctionDef):
            yield f"{owner}{each.name}", each


def task_of(function: ast.FunctionDef) -> str:
    """The message with which a function's last statement raises; empty if it doesn't."""
    match function.body[-1]:
        case ast.Raise(exc=ast.Call(args=[ast.Constant(value=str(task))])):
            return task
    return ""


def steps_of_functions(lesson: str) -> dict[str, tuple[int, ...]]:
    """The functions that a stub leaves to write, and the steps in which each is written.

    A function that puts all of the steps together has none of its own.
    """
    text = stub(lesson).decode()
    lines, functions = text.splitlines(), dict(functions_of(ast.parse(text).body))
    left = {name: function for name, function in functions.items() if task_of(function)}
    headers = {
        name: "\n".join(lines[function.lineno - 1 : function.body[0].lineno - 1])
        for name, function in left.items()
    }
    found = {name: WRITTEN_IN.search(header) for name, header in headers.items()}
    return {
        name: tuple(map(int, steps[1].split(", "))) if steps else ()
        for name, steps in found.items()
    }


def next_step(verdict: Verdict) -> str:
    """The first step that tests of the core wait for, and how many; empty if nothing is left."""
    lesson = verdict.lesson
    waiting = Counter(report.text for report in verdict.of("todo") if not report.is_stretch)
    steps = {} if is_pristine(lesson) else {step.task: step for step in steps_left(lesson)}
    for task, tests in waiting.items():  # in the order of the tests: the easiest first
        if step := steps.get(task):
            wait = f"{tests} test{'s wait' if tests > 1 else ' waits'} for it"
            word = "then" if verdict.failures else "next"  # what is shown as red comes first
            return f"{word}: {step.name}, lessons/{lesson}.py:{step.line}; {wait}"
    return ""
