"""See which lessons were saved, by looking again and again: that works on any drive."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kata.naming import NAMES

# How long the contents are compared after a change, whatever the times of the files say: on some
# drives two saves within two seconds have the same time.
UNSETTLED = 3.0
# How long a file may be away, or empty: some editors save so.
PATIENCE = 0.5


@dataclass(frozen=True)
class Look:
    """What was seen of a file: its times and size, and a hash of what it held."""

    signature: tuple[int, int, int]
    digest: bytes


class Changes:
    """The saves below a folder of lessons, each told once.

    Args:
        folder: where the lessons lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unsettled_until = 0.0
        self.away_since: dict[Path, float] = {}
        self.seen = {path: look(path) for path in self.files()}

    def poll(self) -> set[str]:
        """The lessons that hold something else than at the last call."""
        changed = {path for path in {*self.seen, *self.files()} if self.has_changed(path)}
        if changed:
            self.unsettled_until = time.monotonic() + UNSETTLED
        return {lesson_of(path.relative_to(self.folder)) for path in changed}

    def files(self) -> Iterator[Path]:
        """The Python files of the lessons."""
        for path in self.folder.rglob("*.py"):
            if lesson_of(path.relative_to(self.folder)) in NAMES:
                yield path

    def has_changed(self, path: Path) -> bool:
        """Look at a file, and remember it as it is now."""
        before = self.seen.get(path)
        if before and self.is_settled and signature(path) == before.signature:
            return False
        now = look(path)
        if now is None and before and not self.is_out_of_patience(path):
            return False
        self.away_since.pop(path, None)
        self.seen[path] = now
        return (now and now.digest) != (before and before.digest)

    @property
    def is_settled(self) -> bool:
        return time.monotonic() > self.unsettled_until

    def is_out_of_patience(self, path: Path) -> bool:
        """Whether a file has been away for so long that this isn't how an editor saves."""
        since = self.away_since.setdefault(path, time.monotonic())
        return time.monotonic() - since > PATIENCE


def look(path: Path) -> Look | None:
    """What a file holds; ``None`` for one that is away or empty."""
    try:
        before, content = signature(path), path.read_bytes()
    except OSError:
        return None
    return Look(before, hashlib.sha256(content).digest()) if before and content else None


def signature(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def lesson_of(path: Path) -> str:
    """The lesson that a file below the folder belongs to: it is its file, or its folder."""
    return path.parts[0].removesuffix(".py")
