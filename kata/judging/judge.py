"""The judge: it keeps a worker warm, and starts runs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Self

from kata.judging.process import WorkerProcess
from kata.judging.request import Request, RunFiles
from kata.judging.running import Running
from kata.judging.suite_copy import SuiteCopy, copy_lessons, lend_all_but
from kata.verdict import Verdict


class Judge:
    """Runs the suite on lessons; each run has a process and copies of its own.

    It starts to warm up when it is made, and imports neither torch nor the lessons itself.

    Args:
        fork: Whether one warm worker forks a child per run. Without (on macOS, libraries may crash
            in the child), each run takes a worker of its own, and the next one warms up meanwhile.
    """

    def __init__(self, *, fork: bool = sys.platform == "linux") -> None:
        self.fork = fork
        self.temporary = tempfile.TemporaryDirectory(prefix="kata-", ignore_cleanup_errors=True)
        self.folder = Path(self.temporary.name).resolve()
        self.suite = SuiteCopy(self.folder / "suite")
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
        if request.yours is not None:
            lend_all_but((request.lesson, *request.yours), files.lessons)
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
