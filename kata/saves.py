"""See which lessons were saved: watchfiles tells of changes, by looking again where it must."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from watchfiles import PythonFilter, watch

from kata.naming import NAMES

# How long a file may be away, or empty: some editors save so.
PATIENCE = 0.5
# How long changes are gathered, and between two looks at them, in milliseconds.
DEBOUNCE, STEP = 50, 10


class Saves:
    """The saves below a folder of lessons, each told once.

    Args:
        folder: where the lessons lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen = {path: digest(path) for path in self.files()}
        self.changed: set[Path] = set()
        self.away_since: dict[Path, float] = {}
        self.is_over = threading.Event()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        """Gather what changes; a folder that is gone has no more changes."""
        for changes in watch(
            self.folder,
            watch_filter=PythonFilter(),
            debounce=DEBOUNCE,
            step=STEP,
            rust_timeout=1000,
            stop_event=self.is_over,
        ):
            self.changed |= {Path(path) for _, path in changes}

    def poll(self) -> set[str]:
        """The lessons that hold something else than at the last call."""
        paths = self.changed
        self.changed = set()
        told = {path for path in {*paths, *self.away_since} if self.has_changed(path)}
        lessons = {lesson_of(path.relative_to(self.folder)) for path in told}
        return lessons & set(NAMES)

    def files(self) -> Iterator[Path]:
        """The Python files below the folder."""
        yield from self.folder.rglob("*.py")

    def has_changed(self, path: Path) -> bool:
        """Look at a file, and remember it as it is now."""
        now, before = digest(path), self.seen.get(path)
        if now is None and before is not None and not self.is_out_of_patience(path):
            return False
        self.away_since.pop(path, None)
        self.seen[path] = now
        return now != before

    def is_out_of_patience(self, path: Path) -> bool:
        """Whether a file has been away for so long that this isn't how an editor saves."""
        since = self.away_since.setdefault(path, time.monotonic())
        return time.monotonic() - since > PATIENCE

    def close(self) -> None:
        """Listen no longer."""
        self.is_over.set()


def digest(path: Path) -> bytes | None:
    """A hash of what a file holds; ``None`` for one that is away or empty."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return hashlib.sha256(content).digest() if content else None


def lesson_of(path: Path) -> str:
    """The lesson that a file below the folder belongs to: it is its file, or its folder."""
    return path.parts[0].removesuffix(".py")
