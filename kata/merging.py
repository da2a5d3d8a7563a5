"""Merge a changed stub into a learner's file: git's three-way merge, line by line."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

LABELS = ("yours", "the stub you began with", "the new stub")
CONFLICT = re.compile(rb"^<{7} ", re.MULTILINE)
# git's exit status is the number of conflicts, or above these an error.
MOST_CONFLICTS = 127


class CannotMergeError(Exception):
    """A merge isn't possible; the message says why."""


class Merged(NamedTuple):
    """A merged text, and the lines (counted from 1) at which it leaves a choice to the learner."""

    text: bytes
    conflicts: tuple[int, ...]


def merge(yours: bytes, base: bytes, new: bytes) -> Merged:
    """Bring the change from ``base`` to ``new`` into ``yours``.

    Where both sides changed the same lines, all three versions stay, between markers.

    Raises:
        CannotMergeError: git isn't there, the file isn't text, or markers wait in it.
    """
    if CONFLICT.search(yours):
        raise CannotMergeError(f"line {conflicts_of(yours)[0]} still has a conflict to settle")
    base, new = (with_the_line_ends_of(yours, text) for text in (base, new))
    text = merge_files(yours, base, new)
    return Merged(text, conflicts_of(text))


def merge_files(*versions: bytes) -> bytes:
    """Run ``git merge-file`` on yours, the base and the new version."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("yours", "base", "new")]
        for file, version in zip(files, versions, strict=True):
            file.write_bytes(version)
        labels = [word for label in LABELS for word in ("-L", label)]
        command = ["git", "merge-file", "-p", "--diff3", *labels, *map(str, files)]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        except OSError as error:
            raise CannotMergeError("git isn't installed") from error
    if not 0 <= done.returncode <= MOST_CONFLICTS:
        raise CannotMergeError(done.stderr.decode("utf-8", "replace").strip() or "git has failed")
    return done.stdout


def with_the_line_ends_of(yours: bytes, text: bytes) -> bytes:
    """The text with Windows line ends, where most lines of yours have them."""
    windows = yours.count(b"\r\n") * 2 > yours.count(b"\n")
    return text.replace(b"\n", b"\r\n") if windows else text


def conflicts_of(text: bytes) -> tuple[int, ...]:
    return tuple(text.count(b"\n", 0, match.start()) + 1 for match in CONFLICT.finditer(text))
