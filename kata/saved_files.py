"""What happens while a watch goes on: lessons are saved, and lines are typed."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

from watchfiles import PythonFilter, watch

from kata.lesson_names import NAMES

# How long changes are gathered, and between two looks at them, in milliseconds.
DEBOUNCE, STEP = 50, 10


class Saves:
    """The saves in a folder of lessons, each told once.

    Args:
        folder: Where the lessons lie.
    """

    def __init__(self, folder: Path) -> None:
        self.changed: SimpleQueue[str] = SimpleQueue()
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
                self.changed.put(Path(path).stem)

    def poll(self) -> set[str]:
        """The lessons that were saved since the last call."""
        return {self.changed.get() for _ in range(self.changed.qsize())} & set(NAMES)

    def close(self) -> None:
        """Listen no longer."""
        self.is_over.set()


def can_type() -> bool:
    """Return whether there is a terminal whose lines can be waited for: not on Windows."""
    return os.name == "posix" and sys.stdin is not None and sys.stdin.isatty()


def line_typed(seconds: float) -> bool:
    """Wait so long for a line, and return whether one was typed.

    Raises:
        EOFError: The terminal is gone.
    """
    if not can_type():
        time.sleep(seconds)
        return False
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    if ready and not os.read(sys.stdin.fileno(), 1024):
        raise EOFError
    return bool(ready)
