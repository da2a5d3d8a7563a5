"""Quote the reference on a page of the site, by name, so that no quotation can grow old.

A fence called ``solution`` names a file below ``solutions/`` and definitions in it::

    tracer/__init__.py: Tracer.call_module, Tracer.getattr

The page shows their code as it is in that file today. Docstrings are left out, for the page says in
prose what they say, and so are remarks that speak to tools. A name that isn't there ends the build.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from kata.paths import CORES
from kata.stubs import DEFINITIONS, MARK, bound_names, first_line

REMARK = re.compile(rf"{MARK.pattern}|\s*# (?:type: ignore|noqa)\b.*$", re.MULTILINE)


class UnknownNameError(Exception):
    """A quotation names a file or a definition that isn't there."""


def quote(reference: str) -> str:
    """Return the code that a reference names.

    Args:
        reference: A file below ``solutions/``, a colon, and dotted names separated by commas.

    Returns:
        The definitions in the order of the names, without docstrings, two blank lines between.

    Raises:
        UnknownNameError: There is no such file, or no such name in it.

    >>> print(quote("stretch/path_of_module.py: PathOfModule.path_of_module").splitlines()[0])
    def path_of_module(self, mod: nn.Module) -> str:
    """
    path, _, names = reference.partition(":")
    if not (CORES / path).is_file():
        raise UnknownNameError(f"there is no file solutions/{path}")
    source = (CORES / path).read_text(encoding="utf-8")
    tree = ast.parse(source)
    wanted = [name.strip() for name in names.split(",")]
    return "\n\n\n".join(code_of(source, definition(tree, name, path)) for name in wanted)


def definition(tree: ast.Module, name: str, path: str) -> ast.stmt:
    """The statement that defines a dotted name."""
    body: list[ast.stmt] = tree.body
    found: ast.stmt | None = None
    for part in name.split("."):
        found = next((statement for statement in body if part in names_of(statement)), None)
        if found is None:
            raise UnknownNameError(f"solutions/{path} defines no {name}")
        body = found.body if isinstance(found, ast.ClassDef) else []
    assert found is not None
    return found


def names_of(statement: ast.stmt) -> set[str]:
    """Return what a statement defines: a function, a class, or the names it assigns to."""
    if isinstance(statement, DEFINITIONS):
        return {statement.name}
    return bound_names(statement) if isinstance(statement, ast.Assign | ast.AnnAssign) else set()


def code_of(source: str, statement: ast.stmt) -> str:
    """The statement's own lines, from the first decorator on, without docstrings and remarks."""
    left_out = set(docstring_lines(statement))
    lines = source.splitlines()
    numbers = range(first_line(statement), (statement.end_lineno or statement.lineno) + 1)
    kept = [REMARK.sub("", lines[number - 1]) for number in numbers if number not in left_out]
    return textwrap.dedent("\n".join(kept))


def docstring_lines(statement: ast.stmt) -> Iterator[int]:
    """The numbers of the lines of all docstrings in a statement, and of the blank one after it."""
    for node in ast.walk(statement):
        if isinstance(node, DEFINITIONS) and ast.get_docstring(node) and len(node.body) > 1:
            docstring, following = node.body[:2]
            yield from range(docstring.lineno, first_line(following))


def solution_fence(
    source: str, language: str, css_class: str, options: Any, md: Any, **others: Any
) -> str:
    """Show a quotation as highlighted Python under the path of its file; for superfences."""
    # Imported late: the site has them, and the suite, which checks the quotations, may not.
    from pymdownx.highlight import Highlight  # type: ignore[import-untyped]
    from pymdownx.superfences import SuperFencesException  # type: ignore[import-untyped]

    try:
        code = quote(source.strip())
    except UnknownNameError as error:
        raise SuperFencesException(f"in a fence `{language}`: {error}") from error
    title = f"solutions/{source.partition(':')[0].strip()}"
    html: str = Highlight(md).highlight(code, "python", title=title)
    return html
