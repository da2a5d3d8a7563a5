"""The steps of a lesson: by their numbers in its suite, and by the functions left to write."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from kata.paths import ROOT
from kata.stubs import MARK, bound_names, stub

# A heading in a suite: `# --- step 2: torch's functions ---`, or one without a number.
HEADING = re.compile(r"^# --- (?:step (?P<number>\d+): )?(?P<title>.*?)[ -]*$", re.IGNORECASE)


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


def steps_of_functions(lesson: str) -> dict[str, tuple[int, ...]]:
    """The functions that a stub leaves to write, and the steps in which each is written.

    A function that puts all of the steps together has none of its own.
    """
    text = stub(lesson).decode()
    lines, found = text.splitlines(), {}
    for name, function in functions_of(ast.parse(text).body):
        if task_of(function):
            header = "\n".join(lines[function.lineno - 1 : function.body[0].lineno - 1])
            mark = MARK.search(header)
            steps = mark["steps"] if mark else None
            found[name] = tuple(map(int, steps.split(", "))) if steps else ()
    return found


def functions_of(body: list[ast.stmt]) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a module and of the classes in it, by their qualified names."""
    found = definitions(body)
    return ((name, each) for name, each in found if isinstance(each, ast.FunctionDef))


def definitions(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Each name that a body defines or assigns; those of classes' members are qualified."""
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            yield f"{owner}{each.name}", each
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            yield from ((f"{owner}{name}", each) for name in bound_names(each))
        if isinstance(each, ast.ClassDef):
            yield from definitions(each.body, f"{owner}{each.name}.")


def task_of(function: ast.FunctionDef) -> str:
    """The message with which a function's last statement raises; empty if it doesn't."""
    match function.body[-1]:
        case ast.Raise(exc=ast.Call(args=[ast.Constant(value=str(task))])):
            return task
    return ""
