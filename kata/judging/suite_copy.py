"""A judge's copy of the suite, and of all that a run reads, in a temporary folder.

A run works on the copy, so that code which deletes or overwrites ``tests`` changes the copy alone,
where the system lets it write there at all. The texts are kept in memory too, and the copy is
restored from them before the next run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kata.stubs import ROOT

PARTS = ("conftest.py", "pyproject.toml", "kata", "lessons/__init__.py", "solutions", "tests")
LEFT_OUT = {"__pycache__", "project", "golden"}


class Kept(NamedTuple):
    """One file of the copy: what it holds, and what a look at the file alone tells about that."""

    content: bytes
    signature: tuple[int, int, int]


class SuiteCopy:
    """A copy of the repository's suite that is whole again before each run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kept = {
            file.relative_to(ROOT): self.write(file.relative_to(ROOT), file.read_bytes())
            for part in PARTS
            for file in files_below(ROOT / part)
        }

    def write(self, path: Path, content: bytes) -> Kept:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return Kept(content, signature(file))

    def restore(self) -> list[Path]:
        """Write again what a run has changed, remove what it has added; return their paths."""
        modified = [path for path, kept in self.kept.items() if not self.is_unchanged(path, kept)]
        strangers = [path for path in self.present() if path not in self.kept]
        for path in strangers:
            (self.root / path).unlink()
        for path in modified:
            self.make_way(path)
            self.kept[path] = self.write(path, self.kept[path].content)
        return modified + strangers

    def is_unchanged(self, path: Path, kept: Kept) -> bool:
        file = self.root / path
        return file.is_file() and not file.is_symlink() and signature(file) == kept.signature

    def present(self) -> list[Path]:
        return [file.relative_to(self.root) for file in files_below(self.root)]

    def make_way(self, path: Path) -> None:
        """Remove whatever stands at a file's place, or at one of its folders'."""
        for place in (*reversed(path.parents[:-1]), path):
            here = self.root / place
            if here.is_symlink() or (here.exists() and here.is_dir() != (place != path)):
                shutil.rmtree(here) if here.is_dir() and not here.is_symlink() else here.unlink()


def files_below(root: Path) -> Iterator[Path]:
    """Every file below a folder (or the file itself), but for what no run needs."""
    if root.is_file():
        yield root
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        yield from (Path(folder, name) for name in files)


def signature(file: Path) -> tuple[int, int, int]:
    """What changes when somebody writes the file, whatever time they give it afterwards."""
    status = file.stat()
    return status.st_ino, status.st_size, status.st_ctime_ns


def copy_lessons(folder: Path, to: Path) -> None:
    """Copy the Python files below a folder of lessons; one that vanishes meanwhile is left out."""
    to.mkdir(parents=True)
    for file in files_below(folder):
        if file.suffix == ".py":
            target = to / file.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                target.write_bytes(file.read_bytes())
