"""The judge: it keeps a worker warm, and starts runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Self

from kata.judging.process import WorkerProcess
from kata.judging.request import Request, RunFiles
from kata.judging.running import Running
from kata.judging.suite_copy import SuiteCopy, copy_lessons
from kata.verdict import Verdict

CAN_FORK = hasattr(os, "fork")


class Judge:
    """Runs the suite on lessons; each run has a process and copies of its own.

    It starts to warm up when it is made, and imports neither torch nor the lessons itself.

    Args:
        fork: whether one warm worker forks a child per run. Without, each run takes a worker of its
            own, and the next one warms up meanwhile.
    """

    def __init__(self, *, fork: bool = CAN_FORK) -> None:
        self.fork = fork
        self.temporary = tempfile.TemporaryDirectory(prefix="kata-", ignore_cleanup_errors=True)
        self.folder = Path(self.temporary.name).resolve()
        self.suite = SuiteCopy(self.folder / "suite")
        self.runs = 0
        self.workers = [self.new_worker()]

    def new_worker(self) -> WorkerProcess:
        return WorkerProcess(self.suite.root, self.folder / "worker.log", once=not self.fork)

    def start(self, request: Request) -> Running:
        """Begin a run on what the lessons' files hold now."""
        self.suite.restore()
        self.runs += 1
        files = RunFiles(self.folder / f"run-{self.runs}")
        copy_lessons(request.folder, files.lessons)
        return Running(request, files, self.worker())

    def run(self, request: Request) -> Verdict:
        """Run to the end."""
        return self.start(request).wait()

    def worker(self) -> WorkerProcess:
        """A worker that takes orders; the last one may have died, or carried out its only one."""
        for worker in [worker for worker in self.workers if not worker.is_alive]:
            worker.close()
            self.workers.remove(worker)
        free = [worker for worker in self.workers if not worker.is_taken]
        if not free:
            free = [self.new_worker()]
            self.workers += free
        worker = free[0]
        worker.is_taken = worker.once
        if worker.is_taken:
            self.workers.append(self.new_worker())  # it warms up for the next run
        return worker

    @property
    def is_ready(self) -> bool:
        """Whether a run would begin at once."""
        return any(worker.is_ready and not worker.is_taken for worker in self.workers)

    def close(self) -> None:
        """End the workers, and with them all runs; remove the copies."""
        for worker in self.workers:
            worker.close()
        self.temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
