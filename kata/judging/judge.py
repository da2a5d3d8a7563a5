"""The judge: it keeps a worker warm, and starts runs."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from kata.judging.process import WorkerProcess
from kata.judging.request import Request, RunFiles
from kata.judging.running import Running
from kata.paths import ROOT
from kata.verdict import Verdict

PARTS = (
    "conftest.py",
    "pyproject.toml",
    "given",
    "kata",
    "lessons/__init__.py",
    "solutions",
    "tests",
)
LEFT_OUT = {"__pycache__", "project"}
# What changes when somebody writes a file, whatever time they give it afterwards.
Signatures = dict[Path, tuple[int, int, int]]


class Judge:
    """Runs the suite on lessons; each run has a process and copies of its own.

    It starts to warm up when it is made, and imports neither torch nor the lessons itself.

    Args:
        fork: Whether one warm worker forks a child per run. Without (on macOS, libraries may crash
            in the child), each run takes a worker of its own, and the next one warms up meanwhile.

    Attributes:
        kernels: A folder that runs of one person may share for what they compile.
    """

    def __init__(self, *, fork: bool = sys.platform == "linux") -> None:
        self.fork = fork
        self.temporary = tempfile.TemporaryDirectory(prefix="kata-", ignore_cleanup_errors=True)
        self.folder = Path(self.temporary.name).resolve()
        self.suite = SuiteCopy(self.folder / "suite")
        self.kernels = self.folder / "kernels"
        self.kernels.mkdir(mode=0o700)
        self.runs = 0
        self.used: list[WorkerProcess] = []
        self.worker = self.new_worker()

    def new_worker(self) -> WorkerProcess:
        return WorkerProcess(self.suite.root, self.folder / "worker.log", once=not self.fork)

    def start(self, request: Request) -> Running:
        """Begin a run on what the lessons' files hold now."""
        self.suite.restore()
        if not self.worker.is_alive:
            self.renew_worker()
        self.runs += 1
        files = RunFiles(self.folder / f"run-{self.runs}")
        copy_lessons(request.folder, files.lessons)
        running = Running(request, files, self.worker)
        if not self.fork:
            self.renew_worker()
        return running

    def renew_worker(self) -> None:
        """Let another worker warm up; the one before may still have a run to end."""
        self.used.append(self.worker)
        self.worker = self.new_worker()

    def run(self, request: Request) -> Verdict:
        """Run to the end."""
        return self.start(request).wait()

    def close(self) -> None:
        """End the workers, and with them all runs; remove the copies."""
        for worker in (*self.used, self.worker):
            worker.close()
        self.temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class SuiteCopy:
    """A copy of the suite, and of all that a run reads, in a temporary folder.

    Code that deletes or overwrites ``tests`` changes the copy alone, where the system lets it write
    there at all. Before the next run the copy is made whole.
    """

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
