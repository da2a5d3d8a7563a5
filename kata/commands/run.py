"""The command ``run``: a script of yours, on your lessons; the reference lends the rest.

    $ kata run mine.py

In the script, ``from lessons.tracer import Tracer`` is your current tracer, once you have
begun it. What your tracer imports is yours where it is green. The reference lends the rest, and a
line on standard error says so.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import runpy
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType

from kata import progress
from kata.lending import lending
from kata.progress import is_yours, lessons_in
from kata.terminal import open_console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a Python file of yours")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="words for the script")


def main(arguments: argparse.Namespace) -> int:
    """Run the script as a program, and name the lessons lent; the exit code is the script's."""
    file: Path = arguments.file
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    sys.argv = [str(file), *arguments.arguments]
    sys.path.insert(0, os.fspath(file.resolve().parent))
    sys.meta_path.insert(0, Torchvision())
    with lending(progress.HERE.lessons, yours=yours_in(file)) as finder:
        try:
            runpy.run_path(str(file), run_name="__main__")
        finally:
            # torchrun starts several processes: one of them says it.
            if finder.lent and os.environ.get("RANK", "0") == "0":
                sys.stdout.flush()
                console = open_console(stderr=True)
                console.print(f"lent by the reference: {', '.join(finder.lent)}", style="lent")
    return 0


def yours_in(file: Path) -> set[str]:
    """The lessons that are the learner's in a script: those it imports, and all that are green."""
    imported: set[str] = set()
    with contextlib.suppress(SyntaxError, ValueError):  # Python reports it better
        imported.update(lessons_in(ast.parse(file.read_bytes())))
    mine = progress.written(progress.sources_in(progress.HERE.lessons))
    return {lesson for lesson in mine if lesson in imported or is_yours(lesson)}


class Torchvision(MetaPathFinder, Loader):
    """Let the script's ``import torchvision`` work with any build of torch, as in the tests."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        # What `torchvision_compat` imports, it wants as it is.
        asked = fullname == "torchvision" and "kata.torchvision_compat" not in sys.modules
        return spec_from_loader(fullname, self) if asked else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from kata.torchvision_compat import torchvision

        return torchvision

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has run already."""
