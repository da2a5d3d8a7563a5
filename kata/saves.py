"""What happens while a watch goes on: lessons are saved, and lines are typed."""

from __future__ import annotations

import hashlib
import os
import select
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

from watchfiles import PythonFilter, watch

from kata.naming import NAMES

# How long changes are gathered, and between two looks at them, in milliseconds.
DEBOUNCE, STEP = 50, 10


class Saves:
    """The saves in a folder of lessons, each told once.

    Args:
        folder: where the lessons lie.
    """

    def __init__(self, folder: Path) -> None:
        self.seen = {file: digest(file) for file in folder.glob("*.py")}
        self.changed: SimpleQueue[Path] = SimpleQueue()
        self.is_over = threading.Event()
        threading.Thread(target=self.listen, args=(folder,), daemon=True).start()

    def listen(self, folder: Path) -> None:
        """Gather what changes; a folder that is gone has no more changes."""
        for changes in watch(
            folder,
            watch_filter=PythonFilter(),
            debounce=DEBOUNCE,
            step=STEP,
            rust_timeout=1000,
            stop_event=self.is_over,
        ):
            for _, path in changes:
                self.changed.put(Path(path))

    def poll(self) -> set[str]:
        """The lessons that hold something else than at the last call."""
        files = {self.changed.get() for _ in range(self.changed.qsize())}
        told = {file for file in files if digest(file) != self.seen.get(file)}
        self.seen.update({file: digest(file) for file in told})
        return {file.stem for file in told} & set(NAMES)

    def close(self) -> None:
        """Listen no longer."""
        self.is_over.set()


def digest(file: Path) -> bytes:
    """A hash of what a file holds; one that is away holds nothing."""
    return hashlib.sha256(file.read_bytes() if file.is_file() else b"").digest()


def can_type() -> bool:
    """Whether somebody sits at a terminal whose lines can be waited for, which Windows' can't."""
    return os.name == "posix" and sys.stdin is not None and sys.stdin.isatty()


def typed(seconds: float) -> list[str]:
    """Wait so long for a line, and return its words; the end of the input means to quit."""
    if not can_type():
        time.sleep(seconds)
        return []
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    if not ready:
        return []
    line = os.read(sys.stdin.fileno(), 1024)
    return line.decode(errors="replace").lower().split() if line else ["q"]
