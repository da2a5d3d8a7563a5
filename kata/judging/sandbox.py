"""What a run's process may take and touch, as far as the system can limit it.

Limits of memory, threads and file size are Linux's ``setrlimit``. Linux's Landlock (kernel 5.13 or
later) lets a process write below its folders alone, and start no program; a run works on copies
anyway, and this keeps it from the originals. Elsewhere nothing is kept from the run.

Landlock's numbers and structures are those of the kernel's ``linux/landlock.h``.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
from collections.abc import Iterator
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

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION, PATH_BENEATH = 1, 1
NO_NEW_PRIVILEGES, CHILD_SUBREAPER = 38, 36
EXECUTE = 1 << 0
# Writing a file; removing and making folders, files, sockets, pipes, devices and links.
WRITING = 1 << 1 | sum(1 << bit for bit in range(4, 13))
# What later versions can forbid as well: moving a file between folders, cutting it short.
SINCE = {2: 1 << 13, 3: 1 << 14}
# What every program may write to.
DEVICES = Path("/dev")


def limit(memory: int) -> None:
    """Limit this process, and all that it starts.

    Args:
        memory: Bytes that it may take beyond what it takes now; 0 for no limit.
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
    """Return how many bytes of addresses this process has mapped: torch maps gigabytes."""
    return int((PROC / "self/statm").read_text().split()[0]) * resource.getpagesize()


def tasks_of_this_user() -> int:
    """Return how many threads the user runs now: the system's limit counts them all together."""
    count = 0
    for process in processes():
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.getuid():
                count += sum(1 for _ in (process / "task").iterdir())
    return count


def processes() -> Iterator[Path]:
    """Return the folders of all processes; each may be gone by the time that it is read.

    A pattern such as ``[0-9]*/stat`` would look for the file itself, and raise where a process has
    just ended.
    """
    return PROC.glob("[0-9]*")


class Ruleset(ctypes.Structure):
    """What is forbidden unless a rule allows it."""

    _fields_ = (("forbidden", ctypes.c_uint64),)


class PathRule(ctypes.Structure):
    """What is allowed below a folder."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def confine(*folders: Path, may_execute: bool) -> bool:
    """Forbid this process, for good, to change files elsewhere; return whether that worked.

    Args:
        folders: Where it may write.
        may_execute: Whether it may start programs.
    """
    with contextlib.suppress(OSError, AttributeError):
        writing = writing_rights()
        forbidden = writing if may_execute else writing | EXECUTE
        ruleset = call(CREATE_RULESET, ctypes.byref(Ruleset(forbidden)), ctypes.sizeof(Ruleset), 0)
        for place in (*folders, DEVICES):
            allow(ruleset, place, writing)
        ctypes.CDLL(None).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        call(RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)
        return True
    return False


def writing_rights() -> int:
    """The rights that have to do with writing, as far as this kernel knows them."""
    version = call(CREATE_RULESET, None, 0, VERSION)
    return WRITING | sum(right for since, right in SINCE.items() if version >= since)


def allow(ruleset: int, folder: Path, rights: int) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        rule = PathRule(rights, descriptor)
        call(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def call(number: int, *arguments: object) -> int:
    """A system call that the C library has no name for.

    Raises:
        OSError: The kernel refused it, or doesn't know it.
    """
    if sys.platform != "linux":
        raise OSError("Landlock is Linux's alone")
    library = ctypes.CDLL(None, use_errno=True)
    result = int(library.syscall(number, *arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def adopt_orphans() -> None:
    """Make this process the parent of what its children leave behind (Linux alone)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(CHILD_SUBREAPER, 1, 0, 0, 0)


def children_of(parent: int) -> Iterator[int]:
    """The processes that a process has started or adopted, as far as the system tells."""
    for process in processes():
        with contextlib.suppress(OSError):
            if int(fields_of(process / "stat")[1]) == parent:
                yield int(process.name)


def fields_of(status: Path) -> list[str]:
    """Return what the system reports of a process after its name, which may contain anything."""
    return status.read_text().rpartition(")")[2].split()


def seconds_computed(pid: int) -> float | None:
    """The processor time that a process has used; ``None`` where the system doesn't tell."""
    try:
        fields = fields_of(PROC / str(pid) / "stat")
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
