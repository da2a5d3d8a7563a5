"""How large code is: nodes of the syntax tree, which formatting doesn't change, and lines."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator

TRIVIA = frozenset({
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
})  # fmt: skip
WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef)
NO_NODES = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
IMPORTS = (ast.Import, ast.ImportFrom)


def nodes(source: str) -> int:
    """The nodes of the syntax tree, without docstrings, annotations and imports."""
    return sum(not isinstance(node, NO_NODES) for node in ast.walk(bare(ast.parse(source))))


def bare(tree: ast.Module) -> ast.Module:
    """The tree without docstrings, annotations of functions, and imports (also those for types)."""
    for node in ast.walk(tree):
        if isinstance(node, WITH_DOCSTRING):
            node.body = [each for each in without_docstring(node) if not is_import(each)]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return tree


def is_import(node: ast.stmt) -> bool:
    return isinstance(node, IMPORTS) or (
        isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    )


def without_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def functions(source: str) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))


def first_statement(source: str) -> int:
    """The line on which the code begins: the first statement of a function or method."""
    bodies = (without_docstring(function) for function in functions(source))
    return min((body[0].lineno for body in bodies if body), default=0)


def bodies(source: str) -> Iterator[tuple[ast.FunctionDef, int]]:
    """Each function, and how many lines of code its body has."""
    code = code_lines(source)
    for function in functions(source):
        yield function, sum(line in code for line in span(without_docstring(function)))


def span(body: list[ast.stmt]) -> range:
    return range(body[0].lineno, (body[-1].end_lineno or 0) + 1) if body else range(0)


def code_lines(source: str) -> set[int]:
    """The lines that hold code: no docstrings, no comments, no blank lines."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in TRIVIA:
            found.update(range(token.start[0], token.end[0] + 1))
    return found - docstring_lines(source)


def docstring_lines(source: str) -> set[int]:
    return {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None
        for line in span(node.body[:1])
    }
