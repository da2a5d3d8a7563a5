"""Cut the stubs in ``lessons/`` from the reference in ``solutions/``.

A stub keeps what the learner needs to know (signatures, docstrings, dataclasses, constants, what
is marked ``# given``) and drops what the learner is to find out (bodies, private helpers, what is
marked ``# reference only``). It is cut from the solution's own text, so formatting and comments
stay as they were written. A solution that is a package with but one public module, its
``__init__``, is one file for the learner.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from lessons import LESSONS

LINE_LENGTH = 100
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
ROOT = Path(__file__).resolve().parent.parent
CORES = ROOT / "solutions"
SOLUTIONS = CORES / "stretch"
STUBS = ROOT / "lessons"
GIVEN = re.compile(r"#\s*given\b")
OMITTED = re.compile(r"#\s*reference only\b")


# Cutting takes a while, and the same text gives the same stub.
@cache
def stub_of(source: str, lesson: str) -> str:
    """Cut the stub of one module from the solution's source.

    Args:
        source: text of a module in ``solutions/``.
        lesson: the lesson's name; every ``NotImplementedError`` of the stub begins with it.

    Returns:
        The text of the module in ``lessons/``.
    """
    solution = Solution(source, lesson)
    kept = [part for statement in solution.tree.body for part in solution.cut(statement)]
    return drop_unused("\n".join(kept) + "\n")


class Solution:
    """The source of one solution module, and how each of its statements is cut."""

    def __init__(self, source: str, lesson: str) -> None:
        self.lines = source.splitlines()
        self.tree = ast.parse(source)
        self.lesson = lesson

    def cut(self, statement: ast.stmt, owner: str = "") -> Iterator[str]:
        """Yield what the stub keeps of a statement: its text, a shorter text, or nothing."""
        if self.is_marked(statement, OMITTED) or (owner and self.is_private_field(statement)):
            return
        if self.is_marked(statement, GIVEN) or not isinstance(statement, DEFINITIONS):
            yield self.spacing(statement) + self.text(statement)
        elif is_public(statement.name):
            qualified_name = f"{owner}{statement.name}"
            yield self.spacing(statement) + self.header(statement)
            if isinstance(statement, ast.ClassDef):
                yield from self.class_body(statement, qualified_name)
            else:
                yield from self.exercise(statement, qualified_name)

    def class_body(self, definition: ast.ClassDef, qualified_name: str) -> Iterator[str]:
        kept = [part for child in definition.body for part in self.cut(child, f"{qualified_name}.")]
        yield from kept or [indented("...", definition.body[0].col_offset)]

    def exercise(self, definition: Definition, qualified_name: str) -> Iterator[str]:
        """Yield the docstring and the line that says what is still to be written."""
        first = definition.body[0]
        docstring = ast.get_docstring(definition)
        if docstring is not None:
            yield self.text(first)
        task = first_sentence(docstring) if docstring else f"write {qualified_name}"
        yield indented(raise_todo(f"{self.lesson}: {task}", first.col_offset), first.col_offset)

    def is_marked(self, statement: ast.stmt, mark: re.Pattern[str]) -> bool:
        """Whether the statement (of a definition: its header) carries the mark in a comment."""
        last = statement.body[0].lineno - 1 if isinstance(statement, DEFINITIONS) else None
        header = self.lines[statement.lineno - 1 : last or statement.end_lineno]
        return any(mark.search(line) for line in header)

    def is_private_field(self, statement: ast.stmt) -> bool:
        """Whether a class keeps something there that is no business of its users."""
        names = bound_names(statement) if isinstance(statement, ast.Assign | ast.AnnAssign) else ()
        return bool(names) and not any(is_public(name) for name in names)

    def header(self, definition: Definition) -> str:
        """The text from the first decorator to the colon."""
        return "\n".join(self.lines[first_line(definition) - 1 : definition.body[0].lineno - 1])

    def text(self, statement: ast.stmt) -> str:
        """The statement's own lines, decorators and leading comments included."""
        first = first_line(statement)
        while first > 1 and self.lines[first - 2].lstrip().startswith("#"):
            first -= 1
        return "\n".join(self.lines[first - 1 : statement.end_lineno])

    def spacing(self, statement: ast.stmt) -> str:
        """The most blank lines in a row in front of a statement; comments between are skipped."""
        line, blank, most = first_line(statement) - 2, 0, 0
        while line >= 0 and (not self.lines[line].strip() or self.lines[line].lstrip()[0] == "#"):
            blank = 0 if self.lines[line].strip() else blank + 1
            most = max(most, blank)
            line -= 1
        return "\n" * most


def first_line(statement: ast.stmt) -> int:
    decorators = statement.decorator_list if isinstance(statement, DEFINITIONS) else []
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def first_sentence(docstring: str) -> str:
    """The contract of a docstring: everything up to the first full stop, on one line."""
    paragraph = " ".join(docstring.split("\n\n", maxsplit=1)[0].split())
    sentence = re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0].rstrip(".")
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def raise_todo(message: str, column: int) -> str:
    """The ``raise`` of an exercise, broken as the formatter would break it."""
    literal = f'"{message}"' if '"' not in message else repr(message)
    line = f"raise NotImplementedError({literal})"
    if column + len(line) <= LINE_LENGTH:
        return line
    return f"raise NotImplementedError(\n    {literal}\n)"


class Module(NamedTuple):
    """The core of a lesson, and the file of its stub; each below its own folder."""

    solution: Path
    stub: Path

    def stub_text(self, lesson: str) -> str:
        """The stub of today's reference."""
        return stub_of((CORES / self.solution).read_text(encoding="utf-8"), lesson)


def modules_of(lesson: str) -> list[Module]:
    """The files of a lesson: there is one."""
    return [Module(Path(f"{lesson}.py"), Path(f"{lesson}.py"))]


def stubs() -> dict[Path, str]:
    """Every stub's text by its path relative to ``lessons/``."""
    return {
        module.stub: module.stub_text(lesson.name)
        for lesson in LESSONS
        for module in modules_of(lesson.name)
    }


# --- what nothing refers to any more ------------------------------------------------------------


def drop_unused(source: str) -> str:
    """Drop the private assignments and the imported names that nothing refers to any more."""
    while (shorter := drop_once(source)) != source:
        source = shorter
    return source


def drop_once(source: str) -> str:
    """Drop what nothing refers to; that may leave more which nothing refers to."""
    tree = ast.parse(source)
    used = used_names(tree)
    lines = source.splitlines()
    # From the last to the first: the numbers of the lines above stay true.
    for statement in reversed(list(walk_statements(tree.body))):
        replacement = without_unused(statement, used)
        if replacement:
            lines[statement.lineno - 1 : statement.end_lineno] = [replacement]
        elif replacement is not None:
            drop(lines, statement.lineno - 1, statement.end_lineno or statement.lineno)
    return tidy(lines)


def drop(lines: list[str], start: int, end: int) -> None:
    """Drop lines, the comment above them and the blank lines around; leave the usual gap."""
    while start and lines[start - 1].startswith("#"):
        start -= 1
    first, last = start, end
    while first and not lines[first - 1]:
        first -= 1
    while last < len(lines) and not lines[last]:
        last += 1
    if (first, last) == (start, end):
        gap = 0
    else:
        gap = 2 if last < len(lines) and lines[last].startswith(("def ", "class ", "@")) else 1
    lines[first:last] = [""] * gap


def walk_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The module's own statements, and those below a top-level ``if TYPE_CHECKING``."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from walk_statements(statement.body)


def without_unused(statement: ast.stmt, used: set[str]) -> str | None:
    """The statement's new text without unused names; empty to drop it, ``None`` to keep it."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return import_without_unused(statement, used)
    names = bound_names(statement)
    if isinstance(statement, ast.If | ast.Try):
        return "" if names.isdisjoint(used) else None
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        private = names and not any(is_public(name) for name in names)
        return "" if private and names.isdisjoint(used) else None
    return None


def bound_names(statement: ast.stmt) -> set[str]:
    """The names that a statement assigns, defines or imports, at any depth."""
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update(bound_name(alias) for alias in node.names)
        elif isinstance(node, DEFINITIONS):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def import_without_unused(statement: ast.Import | ast.ImportFrom, used: set[str]) -> str | None:
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        return None
    names = [alias for alias in statement.names if bound_name(alias) in used]
    if len(names) == len(statement.names):
        return None
    if not names:
        return ""
    statement.names = names
    line = indented(ast.unparse(statement), statement.col_offset)
    if len(line) <= LINE_LENGTH:
        return line
    head, _, tail = line.partition(" import ")
    return f"{head} import (\n" + "".join(f"    {name},\n" for name in tail.split(", ")) + ")"


def bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def used_names(tree: ast.Module) -> set[str]:
    """Every name that the module reads, in quoted annotations and ``__all__`` too."""
    used = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
            used.update(re.findall(r"\b[A-Za-z_]\w*\b", node.value) if is_code(node.value) else ())
    return used


def is_code(text: str) -> bool:
    """Whether a short string may be a quoted annotation or an exported name."""
    return re.fullmatch(r"[\w.\[\], |]+", text) is not None and "\n" not in text


def tidy(lines: Iterable[str]) -> str:
    """Join lines; no blank ones at the start, at most two in a row, no trailing white space."""
    text = "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"
    return re.sub(r"\n{4,}", "\n\n\n", text)


def is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def indented(text: str, column: int) -> str:
    return textwrap.indent(text, " " * column)
