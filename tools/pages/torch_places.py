"""Say which pages may be stale: what they name in torch differs between two versions of it.

``python -m tools.pages.torch_places OLD NEW``, where each of the two folders holds ``torch/`` and
``torchvision/``: the packages of an environment, or unpacked wheels. Nothing of them is imported.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kata.paths import ROOT

DOCS = ROOT / "docs"
PACKAGES = ("torch", "torchvision")
# Rows of the tables that send a reader to torch. A cell without a file means the file above.
ROW = re.compile(r"^\| (?:`(?P<file>\w+/[\w/]+\.py)`)? ?\| (?P<names>[^|]*) \|", re.MULTILINE)
NAME = re.compile(r"`([\w.]+)`")


def places_in(page: str) -> Iterator[tuple[str, str]]:
    """Yield the file and the qualified name of everything in torch that a page's tables name."""
    file = ""
    for row in ROW.finditer(page):
        file = row["file"] or file
        if file:
            yield from ((file, name) for name in NAME.findall(row["names"]))


@cache
def definitions(file: Path) -> dict[str, str]:
    """Return the code of each definition in a file, without comments, layout and docstrings."""
    return {name: ast.dump(without_docstrings(node)) for name, node in named(parsed(file))}


@cache
def lines_of(file: Path) -> dict[str, tuple[int, int]]:
    """The first and the last line of everything that a file defines, by qualified name."""
    return {
        name: (node.lineno, node.end_lineno or node.lineno) for name, node in named(parsed(file))
    }


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


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


def without_docstrings(tree: ast.AST) -> ast.AST:
    """The same tree, changed in place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and (
            ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:]
    return tree


def changes(old: Path, new: Path, docs: Path = DOCS) -> Iterator[tuple[str, str, str, str]]:
    """Yield page, file, name and what became of it, for each place that isn't as it was."""
    for page in sorted(docs.rglob("*.md")):
        for file, name in dict.fromkeys(places_in(page.read_text(encoding="utf-8"))):
            before, after = (
                definitions(root / file) if (root / file).exists() else {} for root in (old, new)
            )
            if name in before and before[name] != after.get(name):
                became = "changed" if name in after else "gone"
                yield page.relative_to(docs).as_posix(), file, name, became


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("old", type=Path, help="holds the torch that the pages describe")
    parser.add_argument("new", type=Path, help="holds a later torch")
    arguments = parser.parse_args()
    for folder in (arguments.old, arguments.new):
        for package in PACKAGES:
            if not (folder / package / "version.py").exists():
                parser.error(f"{folder} holds no {package}")
    found = list(changes(arguments.old, arguments.new))
    if found:
        print("| page | file | name | became |", "|---|---|---|---|", sep="\n")
    for page, file, name, became in found:
        print(f"| {page} | `{file}` | `{name}` | {became} |")
    print(f"\n{len({page for page, *_ in found})} pages may be stale.")


if __name__ == "__main__":
    main()
