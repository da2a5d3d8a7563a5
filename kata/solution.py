"""The command ``solution``: what is between yours and the reference."""

from __future__ import annotations

import argparse
import ast
import difflib
from collections.abc import Iterator
from pathlib import Path

from kata import places
from kata.naming import add_lesson
from kata.prose import show_prose
from kata.results import recall
from kata.stubs import SOLUTIONS, modules_of
from kata.terminal import harmless, open_console

STYLES = {"+": "green", "-": "red", "@": "code"}
HEADS = ("+++", "---")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser)
    parser.add_argument("--show-me", action="store_true", help="show it before yours is green")


def main(arguments: argparse.Namespace) -> int:
    """Show the difference between yours and the reference, once yours is green."""
    lesson, console = arguments.lesson, open_console(plain=arguments.plain)
    if not (arguments.show_me or has_passed(lesson)):
        show_prose(console, f"{lesson} hasn't passed yet: `kata check {lesson}`")
        show_prose(console, f"`kata solution {lesson} --show-me` shows the reference anyway")
        return 1
    lines = list(difference(lesson))
    for line in lines or ["yours is the reference, to the letter"]:
        style = "heading" if line.startswith(HEADS) else STYLES.get(line[:1])
        console.print(harmless(line), style=style, soft_wrap=True)
    return 0


def has_passed(lesson: str) -> bool:
    """Whether the lesson was green once."""
    result = recall(lesson)
    return result is not None and result.has_passed


def difference(lesson: str) -> Iterator[str]:
    """The unified difference, file by file; what only the reference has comes last."""
    stubs = {module.solution: module.stub for module in modules_of(lesson)}
    for solution, stub in stubs.items():
        yield from file_difference(
            places.HERE.lessons / stub, f"lessons/{stub.as_posix()}", solution
        )
    for solution in sources(lesson):
        if solution not in stubs:
            yours = places.HERE.lessons / solution
            name = f"lessons/{solution.as_posix()}" if yours.exists() else "(nothing)"
            yield from file_difference(yours, name, solution)


def sources(lesson: str) -> list[Path]:
    """The files of the lesson's reference, private ones too, below ``solutions/``.

    What lessons share, such as ``_paths.py``, comes last.
    """
    files = [SOLUTIONS / f"{lesson}.py", *sorted((SOLUTIONS / lesson).glob("*.py"))]
    own = [file.relative_to(SOLUTIONS) for file in files if file.exists()]
    return [*own, *shared_by(own)]


def shared_by(files: list[Path]) -> list[Path]:
    """The private modules beside the lessons that these files import, directly or not."""
    found: dict[Path, None] = {}
    while files:
        files = [path for file in files for path in imported_from_the_top(file)]
        files = [path for path in files if path not in found]
        found.update(dict.fromkeys(files))
    return list(found)


def imported_from_the_top(file: Path) -> Iterator[Path]:
    """The private modules at the top of ``solutions/`` that a file imports from."""
    tree = ast.parse((SOLUTIONS / file).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == len(file.parts):
            path = Path(f"{node.module}.py")
            if path.name.startswith("_") and (SOLUTIONS / path).exists():
                yield path


def file_difference(yours: Path, name: str, solution: Path) -> Iterator[str]:
    return difflib.unified_diff(
        lines_of(yours),
        lines_of(SOLUTIONS / solution),
        name,
        f"solutions/{solution.as_posix()}",
        lineterm="",
    )


def lines_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
