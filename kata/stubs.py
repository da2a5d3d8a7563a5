"""Cut the stubs in ``lessons/`` from the reference in ``solutions/``.

A stub keeps what the learner needs to know (signatures, docstrings, dataclasses, constants, what
is marked ``# given``) and drops what the learner is to find out (bodies, private helpers, what is
marked ``# reference only``). It is cut from the solution's own text, so formatting and comments
stay as they were written.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from functools import cache

from kata.paths import CORES
from lessons import LESSONS

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
GIVEN, OMITTED = "given", "reference only"
# What a line of a core ends in: how it is cut, or the steps in which a function is written.
MARK = re.compile(
    rf"\s*# (?P<mark>{GIVEN}|{OMITTED}|steps? (?P<steps>\d+(?:, \d+)*))$", re.MULTILINE
)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def stubs() -> dict[str, str]:
    """Every stub's text, by the name of its file below ``lessons/``."""
    return {f"{lesson.name}.py": stub(lesson.name).decode() for lesson in LESSONS}


def stub(lesson: str) -> bytes:
    """Return what a lesson's file holds before you write in it."""
    source = (CORES / f"{lesson}.py").read_text(encoding="utf-8")
    return stub_of(as_lessons(source), lesson).encode()


def as_lessons(source: str) -> str:
    """A core whose examples import siblings from ``lessons``."""
    return source.replace(">>> from solutions.", ">>> from lessons.")


def is_stub(lesson: str, data: bytes) -> bool:
    """Return whether a file holds the lesson's stub, with any line endings."""
    return data.removeprefix(BYTE_ORDER_MARK).replace(b"\r\n", b"\n") == stub(lesson)


# Cutting takes a while, and the same text gives the same stub.
@cache
def stub_of(source: str, lesson: str) -> str:
    """Cut the stub of one lesson, whose name is in its errors, from the solution's source."""
    solution = Solution(source, lesson)
    kept = [part for statement in solution.tree.body for part in solution.cut(statement)]
    return Source("\n".join(kept) + "\n").without_unused()


class Source:
    """The text of a module, by its statements."""

    def __init__(self, text: str) -> None:
        self.whole = text
        self.lines = text.splitlines()
        self.tree = ast.parse(text)

    def text(self, statement: ast.stmt) -> str:
        """The statement's own lines, decorators and leading comments included."""
        first = first_line(statement)
        while first > 1 and self.lines[first - 2].lstrip().startswith("#"):
            first -= 1
        return "\n".join(self.lines[first - 1 : statement.end_lineno])

    def spacing(self, statement: ast.stmt) -> str:
        """The most blank lines in a row before a statement; comments between are skipped."""
        line, blank, most = first_line(statement) - 2, 0, 0
        while line >= 0 and (not self.lines[line].strip() or self.lines[line].lstrip()[0] == "#"):
            blank = 0 if self.lines[line].strip() else blank + 1
            most = max(most, blank)
            line -= 1
        return "\n" * most

    def without_unused(self) -> str:
        """The text without the private assignments and imported names that nothing refers to."""
        shorter = self.used(self.tree.body, used_names(self.tree)) + "\n"
        # A definition that was dropped may have been the last to refer to another.
        return shorter if shorter == self.whole else Source(shorter).without_unused()

    def used(self, body: list[ast.stmt], names: set[str]) -> str:
        """The statements without unused names, as far apart as they were."""
        parts, gap = [], ""
        for statement in body:
            gap = max(gap, self.spacing(statement))
            if kept := self.used_part(statement, names):
                parts.append(gap + kept)
                gap = ""
        return "\n".join(parts).strip("\n")

    def used_part(self, statement: ast.stmt, used: set[str]) -> str:
        """The text of a statement without unused names; empty if nothing is left."""
        names = bound_names(statement)
        if isinstance(statement, ast.If):
            inner = self.used(statement.body, used)
            return f"{self.lines[statement.lineno - 1]}\n{inner}" if inner else ""
        if isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("given."):
            return self.text(statement)  # what is given is there to be called
        if isinstance(statement, ast.Import | ast.ImportFrom) and not names <= used:
            return import_of(statement, used)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and names.isdisjoint(used):
            return self.text(statement) if any(map(is_public, names)) else ""
        return self.text(statement)


class Solution(Source):
    """The source of one solution module, and how each of its statements is cut."""

    def __init__(self, text: str, lesson: str) -> None:
        super().__init__(text)
        self.lesson = lesson

    def cut(self, statement: ast.stmt, owner: str = "") -> Iterator[str]:
        """Yield what the stub keeps of a statement: its text, a shorter text, or nothing."""
        if self.is_marked(statement, OMITTED) or (owner and is_private_field(statement)):
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
        if ast.get_docstring(definition) is not None:
            yield self.text(first)
        todo = f'raise NotImplementedError("{self.lesson}: {qualified_name}")'
        yield indented(todo, first.col_offset)

    def is_marked(self, statement: ast.stmt, mark: str) -> bool:
        """Return whether a statement, or the header of a definition, has the mark in a comment."""
        last = statement.body[0].lineno - 1 if isinstance(statement, DEFINITIONS) else None
        header = self.lines[statement.lineno - 1 : last or statement.end_lineno]
        return mark in [found["mark"] for line in header if (found := MARK.search(line))]

    def header(self, definition: Definition) -> str:
        """The text from the first decorator to the colon."""
        return "\n".join(self.lines[first_line(definition) - 1 : definition.body[0].lineno - 1])


def is_private_field(statement: ast.stmt) -> bool:
    """Return whether a class keeps something there that its users needn't know."""
    names = bound_names(statement) if isinstance(statement, ast.Assign | ast.AnnAssign) else ()
    return bool(names) and not any(map(is_public, names))


def first_line(statement: ast.stmt) -> int:
    decorators = statement.decorator_list if isinstance(statement, DEFINITIONS) else []
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


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


def import_of(statement: ast.Import | ast.ImportFrom, used: set[str]) -> str:
    """An import of the names that are used."""
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        return ast.unparse(statement)
    statement.names = [alias for alias in statement.names if bound_name(alias) in used]
    return indented(ast.unparse(statement), statement.col_offset) if statement.names else ""


def bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def used_names(tree: ast.Module) -> set[str]:
    """Every name that the module reads, in quoted annotations and ``__all__`` too."""
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    for node in ast.walk(tree):
        # Only code has no blanks but those after a comma or around a bar.
        if isinstance(node, ast.Constant) and re.fullmatch(r"[\w.\[\], |]{1,80}", str(node.value)):
            used.update(re.findall(r"\b[A-Za-z_]\w*\b", str(node.value)))
    return used


def is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def indented(text: str, column: int) -> str:
    return textwrap.indent(text, " " * column)
