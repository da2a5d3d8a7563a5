"""The judge's end of a worker: orders go out, events come in."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerProcess:
    """A worker and what it has said so far.

    Attributes:
        is_ready: whether it has imported all, and waits for orders.
        pids: the process of each run that began.
        codes: the exit code of each run that ended; below zero: the signal that killed it.
    """

    def __init__(self, room: Path, log: Path, *, once: bool) -> None:
        self.once = once
        self.log = log
        self.is_ready = False
        self.is_taken = False
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        self.process = start(room, log, once=once)
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as events:
            for line in events:
                self.heard(json.loads(line))
        if self.once:
            self.codes.update(dict.fromkeys(self.pids, self.process.wait()))

    def heard(self, event: dict[str, Any]) -> None:
        if event["event"] == "ready":
            self.is_ready = True
        elif event["event"] == "started":
            self.pids[event["run"]] = event["pid"]
        else:
            self.codes[event["run"]] = event["code"]

    @property
    def is_silent(self) -> bool:
        """Whether it has ended, and nothing that it said is still on its way."""
        return not self.listener.is_alive()

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def order(self, run: str, request: str) -> None:
        """Ask for a run; a worker that has just died answers by being dead."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"run": run, "request": request}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.process.wait()

    def last_words(self, lines: int = 5) -> str:
        """The end of what the worker wrote on its standard error."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """Let it end: it kills its children when nobody is there to ask for them."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=0.5 if self.is_ready else 0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.listener.join()


def start(room: Path, log: Path, *, once: bool) -> subprocess.Popen[bytes]:
    """Start the worker in the room, away from the terminal; small tensors want no threads."""
    path = os.pathsep.join(filter(None, (str(room), os.environ.get("PYTHONPATH"))))
    environment = {**dict.fromkeys(THREADS, "1"), **os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "kata.judging.worker", *["--once"] * once]
    with log.open("ab") as errors:
        return subprocess.Popen(
            command,
            cwd=room,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
