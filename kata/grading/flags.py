"""Read a submission's source for what a lesson never needs, and say so to the instructor.

A flag is no verdict: it names a line that a person should look at. What can be hidden from such a
reading is said in ``docs/grading.md``.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from kata.grading.submissions import Submission, lesson_of

MOST = 20
# Names that have no place in a lesson, and what they are for.
REFERENCE = {"solutions"}
JUDGE = {"pytest", "_pytest", "pluggy", "tests", "kata", "unittest", "expect", "conftest"}
INTERPRETER = {
    "gc",
    "ctypes",
    "cffi",
    "_getframe",
    "currentframe",
    "tb_frame",
    "f_back",
    "f_globals",
    "settrace",
    "setprofile",
    "addaudithook",
    "__subclasses__",
    "atexit",
}
PROCESS = {"_exit", "kill", "fork", "subprocess", "Popen", "system", "socket", "signal"}
# The exercise of this lesson is to find the line that is running.
ALLOWED = {"custom_tracers": {"_getframe", "currentframe", "f_back", "f_globals"}}
KINDS = {
    "the reference": REFERENCE,
    "the judge": JUDGE,
    "the interpreter": INTERPRETER,
    "processes": PROCESS,
}


class Flag(NamedTuple):
    """One line of a submission that a person should look at."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"lessons/{self.file}, line {self.line}: {self.reason}"


def flags_of(submission: Submission) -> list[Flag]:
    """What catches the eye in a submission's source, once a line and reason."""
    found = {
        flag: None
        for path, data in sorted(submission.files.items())
        for flag in flags_in(path, data)
    }
    return list(found)[:MOST]


def flags_in(path: PurePosixPath, data: bytes) -> Iterator[Flag]:
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    docstrings = {id(node) for node in docstrings_in(tree)}
    allowed = ALLOWED.get(lesson_of(path) or "", set())
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        words = set(words_of(node)) - allowed
        for kind, names in KINDS.items():
            if named := sorted(words & names):
                yield Flag(str(path), getattr(node, "lineno", 0), f"{kind}: `{named[0]}`")


def words_of(node: ast.AST) -> Iterator[str]:
    """The names that a piece of source uses: imported, read, or spelt in a string."""
    if isinstance(node, ast.Import):
        yield from (part for alias in node.names for part in alias.name.split("."))
    elif isinstance(node, ast.ImportFrom):
        yield from (node.module or "").split(".")
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        words = re.split(r"[\s./\\]+", node.value)
        # A sentence may speak of tests; a path or a module's name has no blanks.
        yield from words if " " not in node.value else REFERENCE.intersection(words)


def docstrings_in(tree: ast.Module) -> Iterator[ast.AST]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr):
            yield node.body[0].value
