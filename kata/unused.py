"""Drop from a module what nothing in it refers to: imported names and private assignments."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator

LINE_LENGTH = 100
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


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
