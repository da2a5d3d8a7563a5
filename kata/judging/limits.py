"""The limits of a run's process, as far as the system has them."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

try:
    import resource
except ImportError:  # Windows has none: there a run is limited in time alone.
    resource = None  # type: ignore[assignment]

FILE_BYTES = 64 * 2**20
# Above what this user runs already. Generous: in a container the system may count the processes of
# other containers too, which cannot be seen from here.
TASKS = 2048
# The exit code of a run that asked for more memory than it may have: the next test would, too.
OUT_OF_MEMORY = errno.ENOMEM
PROC = Path("/proc")


def limit(memory: int) -> None:
    """Limit this process, and all that it starts.

    Args:
        memory: bytes that it may take beyond what it takes now; 0 for no limit.
    """
    if resource is None:
        return
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    if (PROC / "self").exists():
        lower(resource.RLIMIT_NPROC, tasks_of_this_user() + TASKS)
        if memory:
            lower(resource.RLIMIT_AS, address_space() + memory)


def lower(kind: int, value: int) -> None:
    """Lower a limit for good; one that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def address_space() -> int:
    """How many bytes of addresses this process has mapped: torch maps gigabytes."""
    return int((PROC / "self/statm").read_text().split()[0]) * resource.getpagesize()


def tasks_of_this_user() -> int:
    """How many threads the user runs now: the system's limit counts them all together."""
    count = 0
    for process in PROC.glob("[0-9]*"):
        # A process may end while it is being looked at.
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.getuid():
                count += sum(1 for _ in (process / "task").iterdir())
    return count
