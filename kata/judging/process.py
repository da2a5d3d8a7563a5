"""The judge's end of a worker: orders go out, events come in."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

from kata.judging.sandbox import processes

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


# Marks a worker and all that comes from it, wherever it went.
TOKEN = "KATA_WORKER"
# What a shell may hold for other runs of Python and pytest; here it would change the judgement.
STRANGE = ("PYTEST_", "PYTHON")


class WorkerProcess:
    """A worker and what it has said so far.

    Attributes:
        is_ready: Whether it has imported all, and waits for orders.
        pids: The process of each run that began.
        codes: The exit code of each run that ended; below zero: the signal that killed it.
    """

    def __init__(self, root: Path, log: Path, *, once: bool) -> None:
        self.once = once
        self.log = log
        self.is_ready = False
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        self.token = f"{TOKEN}={uuid.uuid4().hex}"
        self.process = start(root, log, self.token, once=once)
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

    def log_tail(self, lines: int = 5) -> str:
        """The end of what the worker wrote on its standard error."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """Let it end: it kills its children when its parent is gone."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=0.5 if self.is_ready else 0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.listener.join(timeout=1.0)
        for pid in self.pids.values():
            kill_group(pid)
        kill_descendants(self.token)


def start(root: Path, log: Path, token: str, *, once: bool) -> subprocess.Popen[bytes]:
    """Start the worker in its copy of the suite, away from the terminal."""
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    environment = {**dict.fromkeys(THREADS, "1"), **inherited(), "PYTHONPATH": path}
    environment[TOKEN] = token.partition("=")[2]
    command = [sys.executable, "-m", "kata.judging.worker", *["--once"] * once]
    with log.open("ab") as errors:
        return subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )


def inherited() -> dict[str, str]:
    """The environment, without what would make Python or pytest judge in another way."""
    return {name: value for name, value in os.environ.items() if not name.startswith(STRANGE)}


def ask_for_frames(pid: int) -> None:
    """Let a run write down where it is; it was told how when it began."""
    if hasattr(signal, "SIGUSR1"):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGUSR1)


def kill_group(pid: int) -> None:
    """Kill a process with its group, or alone where there are no groups."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)


def kill_descendants(token: str) -> None:
    """Kill what a worker left behind that died before it could: it bears the worker's mark."""
    for process in processes():
        with contextlib.suppress(OSError):
            if token.encode() in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
