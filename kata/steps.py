"""The steps of a lesson that are left to write, and the tests that wait for each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kata.verdict import Verdict
from kata.workspace import pristine, yours


class Step(NamedTuple):
    """A function of a lesson that still raises what the stub raised.

    Attributes:
        name: its name, with that of its class.
        path: its file below ``lessons/``.
        line: where it begins.
        task: the message of its ``NotImplementedError``.
    """

    name: str
    path: Path
    line: int
    task: str


def steps_left(lesson: str) -> list[Step]:
    """The steps that aren't written, in the order of the file."""
    found = []
    for path, source in yours(lesson).items():
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        found += [Step(name, path, line, task) for name, line, task in unwritten(tree.body)]
    return [step for step in found if step.task.startswith(f"{lesson}: ")]


def unwritten(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, int, str]]:
    """The functions that end in the stub's ``raise``: name, line and message."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from unwritten(statement.body, f"{owner}{statement.name}.")
        elif isinstance(statement, ast.FunctionDef):
            match statement.body[-1]:
                case ast.Raise(exc=ast.Call(args=[ast.Constant(value=str(task))])):
                    yield f"{owner}{statement.name}", statement.lineno, task


def next_step(verdict: Verdict) -> str:
    """What to write next and how many tests of the core wait for it; empty if nothing is left."""
    if yours(verdict.lesson) == pristine(verdict.lesson):
        return ""
    waiting = [report.text for report in verdict.of("todo") if not report.is_stretch]
    for step in steps_left(verdict.lesson):
        if tests := waiting.count(step.task):
            where = f"{step.name}, lessons/{step.path.as_posix()}, line {step.line}"
            return f"next: {where}; {tests} test{'s wait' if tests > 1 else ' waits'} for it"
    return ""
