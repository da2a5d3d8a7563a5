"""Write the stubs of all lessons from the cores: ``python -m tools.stubs [--force]``."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from kata.paths import STUBS
from kata.steps import functions_of, task_of
from kata.stubs import stubs


def write(folder: Path) -> list[str]:
    """Write every stub below ``folder``, and return the files whose text changed."""
    stale = stale_in(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in stubs().items():
        (folder / name).write_text(text, encoding="utf-8")
    return stale


def stale_in(folder: Path) -> list[str]:
    """The files below ``folder`` that are missing or aren't the stubs of today's solutions."""
    return [
        name
        for name, text in stubs().items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text
    ]


def work_in(folder: Path) -> dict[str, list[str]]:
    """The functions that somebody has written below ``folder``, by file: a stub has none."""
    found = {name: written(folder / name, text) for name, text in stubs().items()}
    return {name: functions for name, functions in found.items() if functions}


def written(file: Path, stub: str) -> list[str]:
    """The functions that the stub leaves to write, and that don't raise in the file."""
    if not file.exists():
        return []
    left = [name for name, function in functions_of(ast.parse(stub).body) if task_of(function)]
    here = dict(functions_of(ast.parse(file.read_bytes()).body))
    return [name for name in left if name in here and not task_of(here[name])]


def main(force: bool) -> None:
    """Write the stubs, unless that would overwrite somebody's work."""
    if not force and (work := work_in(STUBS)):
        lines = [f"  lessons/{name}: {', '.join(functions)}" for name, functions in work.items()]
        sys.exit("\n".join(["these are written; --force overwrites them:", *lines]))
    for name in write(STUBS):
        print(f"lessons/{name} written")


if __name__ == "__main__":
    main("--force" in sys.argv)
