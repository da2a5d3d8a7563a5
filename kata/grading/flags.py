"""Read submissions for what an instructor should look at.

A flag isn't a verdict: it names a line, or a file. Code that hides what it takes isn't noticed.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from kata.grading.submissions import Submission
from kata.paths import CORES
from kata.steps_left import unwritten
from kata.stubs import is_stub, stub

MOST = 20
# A sentence may speak of solutions; code in a string, or a path, has a word right after it.
IN_A_STRING = re.compile(r"^solutions$|import solutions|\bsolutions[./]\w")


def flags_of(submissions: list[Submission]) -> list[list[str]]:
    """Return what catches the eye in each submission's source, and who handed in the same file."""
    equal = equal_files(submissions)
    return [
        [*lines_of(submission), *equal[number]][:MOST]
        for number, submission in enumerate(submissions)
    ]


def equal_files(submissions: list[Submission]) -> dict[int, list[str]]:
    """For each submission, by its position, the files that somebody else has handed in as well."""
    holders: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, submission in enumerate(submissions):
        for lesson, data in submission.files.items():
            if not is_stub(lesson, data):
                tree = parsed(data)  # in which comments and layout don't count
                meaning = ast.dump(tree) if tree.body else data.decode(errors="replace")
                holders[lesson, meaning].append(number)
    found: dict[int, list[str]] = defaultdict(list)
    for (lesson, _), numbers in holders.items():
        for number in numbers if len(numbers) > 1 else ():
            others = ", ".join(submissions[other].name for other in numbers if other != number)
            found[number].append(f"lessons/{lesson}.py: the same as that of {others}")
    return found


def parsed(data: bytes) -> ast.Module:
    """The file's syntax tree, an empty one where Python can't read it."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def lines_of(submission: Submission) -> Iterator[str]:
    """The lines that take the reference, or what torch calls a piece of the lesson."""
    for lesson, data in sorted(submission.files.items()):
        pieces = pieces_of(lesson)
        for node, found in taken_from_torch(parsed(data)):
            place = f"lessons/{lesson}.py:{getattr(node, 'lineno', 0)}"
            if takes_the_reference(node):
                yield f"{place}: the reference"
            if named := sorted(pieces & found):
                yield f"{place}: torch's own piece: `{named[0]}`"


@cache
def pieces_of(lesson: str) -> set[str]:
    """The names of what a lesson asks for, but for those that its reference takes from torch."""
    steps = unwritten(ast.parse(stub(lesson)).body)
    names = {part for step in steps for part in step.name.split(".") if part[:2] != "__"}
    core = parsed((CORES / f"{lesson}.py").read_bytes())
    return names.difference(*(found for _, found in taken_from_torch(core)))


def taken_from_torch(tree: ast.Module) -> Iterator[tuple[ast.AST, set[str]]]:
    """Every node of a syntax tree, and the names that it takes from torch."""
    torchs = {"torch", *names_from_torch(tree)}
    return ((node, names_of_torchs(node, torchs)) for node in ast.walk(tree))


def names_from_torch(tree: ast.Module) -> Iterator[str]:
    """The names under which a file has imported something of torch's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = "" if isinstance(node, ast.Import) else f"{node.module}."
            for alias in node.names:
                if f"{module}{alias.name}.".startswith("torch."):
                    yield alias.asname or alias.name.split(".")[0]


def takes_the_reference(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(alias.name.split(".")[0] == "solutions" for alias in names)
        case ast.ImportFrom(module=str(module)):
            return module.split(".")[0] == "solutions"
        case ast.Constant(value=str(text)):
            return bool(IN_A_STRING.search(text))
    return False


def names_of_torchs(node: ast.AST, torchs: set[str]) -> set[str]:
    """The names that a piece of source takes from torch: imported, or as an attribute."""
    match node:
        case ast.ImportFrom(module=str(module), names=names) if module.startswith("torch"):
            return {alias.name for alias in names}
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
            return {name}
        case ast.Attribute(attr=name):
            return {name} if ast.unparse(node).partition(".")[0] in torchs else set()
    return set()
