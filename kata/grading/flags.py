"""Read submissions for what an instructor should look at.

A flag is no verdict: it names a line, or a file. What can be hidden from such a reading is said in
``docs/grading.md``.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from kata.grading.submissions import Submission, lesson_of, pristine

MOST = 20
# Names that have no place in a lesson, and what they are for.
REFERENCE = {"solutions"}
JUDGE = {"pytest", "_pytest", "pluggy", "tests", "kata", "conftest"}
PROCESS = {"_exit", "kill", "fork", "subprocess", "Popen", "system", "socket", "ctypes", "gc"}
KINDS = {"the reference": REFERENCE, "the judge": JUDGE, "processes": PROCESS}
# What torch calls the piece that a lesson is about, as far as nobody needs it to write the lesson.
TORCHS_OWN = {
    "path_of_module": {"path_of_module"},
    "create_arg": {"create_arg"},
    "placeholders": {"create_args_for_root"},
    "tracer": {"Tracer", "symbolic_trace"},
    "exec_order": {"_ExecOrderTracer"},
    "split_module": {"split_module"},
    "unflatten": {"unflatten", "UnflattenedModule", "InterpreterModule"},
}


class Flag(NamedTuple):
    """One line of a submission that a person should look at."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"lessons/{self.file}, line {self.line}: {self.reason}"


def flags_of(submissions: list[Submission]) -> list[list[str]]:
    """What catches the eye in each submission's source, and who handed in the same file."""
    equal = equal_files(submissions)
    return [
        [*map(str, lines_of(each)), *equal[number]][:MOST]
        for number, each in enumerate(submissions)
    ]


def lines_of(submission: Submission) -> Iterator[Flag]:
    """The lines to look at, once per line and reason."""
    files = sorted(submission.files.items())
    yield from dict.fromkeys(flag for path, data in files for flag in flags_in(path, data))


def equal_files(submissions: list[Submission]) -> dict[int, list[str]]:
    """For each submission, by its position, the files that somebody else has handed in as well."""
    holders: dict[tuple[PurePosixPath, str], list[int]] = defaultdict(list)
    for number, submission in enumerate(submissions):
        for path, data in submission.files.items():
            if data != pristine().get(path):
                holders[path, meaning(data)].append(number)
    found: dict[int, list[str]] = defaultdict(list)
    for (path, _), numbers in holders.items():
        for number in numbers if len(numbers) > 1 else ():
            others = ", ".join(submissions[other].name for other in numbers if other != number)
            found[number].append(f"lessons/{path}: the same as that of {others}")
    return found


def meaning(data: bytes) -> str:
    """What two files have in common that differ in comments and layout alone."""
    tree = parsed(data)
    return ast.dump(tree) if tree else data.decode(errors="replace")


def parsed(data: bytes) -> ast.Module | None:
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def flags_in(path: PurePosixPath, data: bytes) -> Iterator[Flag]:
    tree = parsed(data)
    if tree is None:
        return
    docstrings = {id(node) for node in docstrings_in(tree)}
    torchs = TORCHS_OWN.get(lesson_of(path) or "", set())
    aliases = names_from_torch(tree)
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        line, words = getattr(node, "lineno", 0), set(words_of(node))
        for kind, names in KINDS.items():
            if named := sorted(words & names):
                yield Flag(str(path), line, f"{kind}: `{named[0]}`")
        if named := sorted(torchs & set(torchs_words(node, aliases))):
            yield Flag(str(path), line, f"torch's own piece: `{named[0]}`")


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


def names_from_torch(tree: ast.Module) -> set[str]:
    """The names that stand for something of torch's, under whatever name it was imported."""
    names = {"torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.asname for a in node.names if a.asname and a.name.split(".")[0] == "torch"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def torchs_words(node: ast.AST, aliases: set[str]) -> Iterator[str]:
    """The names of torch's that a piece of source takes: imported, or as an attribute."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Attribute):
        first: ast.expr = node
        while isinstance(first, ast.Attribute):
            first = first.value
        if isinstance(first, ast.Name) and first.id in aliases:
            yield node.attr
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
        yield from (str(each.value) for each in node.args[1:2] if isinstance(each, ast.Constant))


def docstrings_in(tree: ast.Module) -> Iterator[ast.AST]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr):
            yield node.body[0].value
