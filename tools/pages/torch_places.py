"""Names in torch: each one in the tables of a page becomes a link to its source.

The link leads to the version that ``constraints.txt`` pins. With that torch installed it has line
numbers, and a name that torch doesn't define ends the build. With another version, the link leads
to the file.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

from kata.paths import ROOT

REPOSITORIES = {"torch": "pytorch/pytorch", "torchvision": "pytorch/vision"}
# Rows of the tables that send a reader to torch. A cell without a file means the file above.
ROW = re.compile(r"^\| (?:`(?P<file>\w+/[\w/]+\.py)`)? ?\| (?P<names>[^|]*) \|", re.MULTILINE)
NAME = re.compile(r"`([\w.]+)`")


class UnknownPlaceError(Exception):
    """A page names something that torch doesn't define."""


def linked(page: str) -> str:
    """Return a page, with links on the names in the tables of places in torch."""
    file = ""

    def link_row(row: re.Match[str]) -> str:
        nonlocal file
        file = row["file"] or file
        if not file:
            return row[0]
        names = NAME.sub(lambda name: f"[{name[0]}]({address(file, name[1])})", row["names"])
        return f"{row[0][: row.start('names') - row.start()]}{names} |"

    return ROW.sub(link_row, page)


def address(file: str, name: str) -> str:
    """Return where a definition is found: its file, and its lines where they are known."""
    package = file.partition("/")[0]
    place = f"https://github.com/{REPOSITORIES[package]}/blob/v{pinned(package)}/{file}"
    folder = installed(package)
    if folder is None:
        return place
    lines = lines_of(folder / file).get(name)
    if lines is None:
        raise UnknownPlaceError(f"{file} of {package} {pinned(package)} defines no {name}")
    return f"{place}#L{lines[0]}-L{lines[1]}"


@cache
def pinned(package: str) -> str:
    """The version that the site describes."""
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{package}==(.*)$", constraints, re.MULTILINE)
    assert found, f"constraints.txt doesn't pin {package}"
    return found[1]


@cache
def installed(package: str) -> Path | None:
    """The folder that holds the package, if it is installed in the version that is pinned."""
    spec = importlib.util.find_spec(package)
    assert spec and spec.origin, f"{package} isn't installed"
    is_pinned = version(package).partition("+")[0] == pinned(package)
    return Path(spec.origin).parents[1] if is_pinned else None


@cache
def lines_of(file: Path) -> dict[str, tuple[int, int]]:
    """The first and the last line of everything that a file defines, by qualified name."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {name: (node.lineno, node.end_lineno or node.lineno) for name, node in named(tree)}


def named(parent: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Yield the qualified name and the statement of every definition below a tree."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{owner}{node.name}", node
            yield from named(node, f"{owner}{node.name}.")
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                (f"{owner}{target.id}", node) for target in targets if isinstance(target, ast.Name)
            )
        yield from named(node, owner)
