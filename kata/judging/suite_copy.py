"""A judge's copy of the suite, and of all that a run reads, in a temporary folder.

A run works on the copy, so that code which deletes or overwrites ``tests`` changes the copy alone,
where the system lets it write there at all. Before the next run the copy is made whole.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from kata.paths import ROOT
from kata.stubs import stub
from lessons import LESSONS

PARTS = ("conftest.py", "pyproject.toml", "kata", "lessons/__init__.py", "solutions", "tests")
LEFT_OUT = {"__pycache__", "project", "golden"}
# What changes when somebody writes a file, whatever time they give it afterwards.
Signatures = dict[Path, tuple[int, int, int]]


class SuiteCopy:
    """A copy of the repository's suite that is whole again before each run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        files = [file for part in PARTS for file in files_below(ROOT / part)]
        self.contents = {file.relative_to(ROOT): file.read_bytes() for file in files}
        self.written = self.write()

    def write(self) -> Signatures:
        for path, content in self.contents.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(content)
        return self.present()

    def restore(self) -> bool:
        """Write all of it again if a run has changed anything; return whether one had."""
        if self.present() == self.written:
            return False
        # The folder itself stays: it is the worker's current folder.
        for entry in self.root.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        self.written = self.write()
        return True

    def present(self) -> Signatures:
        files = ((file, file.lstat()) for file in files_below(self.root))
        return {file: (each.st_ino, each.st_size, each.st_ctime_ns) for file, each in files}


def files_below(root: Path) -> Iterator[Path]:
    """Every file below a folder (or the file itself), but for what no run needs."""
    if root.is_file():
        yield root
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        yield from (Path(folder, name) for name in files)


def copy_lessons(folder: Path, to: Path) -> None:
    """Copy the Python files of a folder of lessons; one that vanishes meanwhile is left out."""
    to.mkdir(parents=True)
    for file in folder.glob("*.py"):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            (to / file.name).write_bytes(file.read_bytes())


def lend_all_but(own: Collection[str], folder: Path) -> None:
    """Turn the other lessons in a copied folder into their stubs, so that the reference's run."""
    for lesson in LESSONS:
        if lesson.name not in own:
            (folder / f"{lesson.name}.py").write_bytes(stub(lesson.name))
