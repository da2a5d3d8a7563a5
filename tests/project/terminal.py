"""A terminal for tests: a program runs in it, and its screen can be read while it runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pyte

COLUMNS, ROWS = 80, 40
# Long, since a machine may be loaded; nothing waits for longer than it takes.
PATIENCE = 120.0


class Terminal:
    """A program on a pseudo-terminal, and the screen that it has drawn."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int, *size: int) -> None:
        self.process = process
        self.descriptor = descriptor
        self.screen = pyte.Screen(*size)
        self.stream = pyte.ByteStream(self.screen)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def until(self, *words: str) -> str:
        """Wait until the screen shows all of the words, and return what it shows."""
        deadline = time.monotonic() + PATIENCE
        while not all(word in self.text for word in words):
            left = deadline - time.monotonic()
            if left <= 0 or not self.read(left):
                raise AssertionError(f"{words} is not on the screen:\n{self.text}")
        return self.text

    def read(self, seconds: float) -> bool:
        """Draw what the program writes next; return whether there was anything."""
        ready, _, _ = select.select([self.descriptor], [], [], seconds)
        # Linux says that the program has closed its end with an error.
        with contextlib.suppress(OSError):
            drawn = os.read(self.descriptor, 65536) if ready else b""
            self.stream.feed(drawn)
            return bool(drawn)
        return False

    def end(self) -> int:
        """Wait until the program has ended by itself, and return its exit code."""
        while self.read(PATIENCE):
            pass
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def terminal(
    command: list[str],
    folder: Path,
    columns: int = COLUMNS,
    rows: int = ROWS,
) -> Iterator[Terminal]:
    """Run a command on a terminal, and end it afterwards."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    known = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={name: value for name, value in known.items() if name not in ("COLUMNS", "LINES")},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours, columns, rows)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        os.close(ours)
