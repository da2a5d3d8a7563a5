"""Let a process write below one folder alone: Linux's Landlock, for those who aren't root too.

A run works on copies; this keeps it from the originals as well, whichever path leads to them. Where
the kernel has no Landlock (older than 5.13, or another system), nothing is kept from the run.

Numbers and structures are those of the kernel's ``linux/landlock.h``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION = 1
PATH_BENEATH = 1
NO_NEW_PRIVILEGES = 38
# Writing a file; removing and making folders, files, sockets, pipes, devices and links.
WRITING = 1 << 1 | sum(1 << bit for bit in range(4, 13))
# What later versions can forbid as well: moving a file between folders, cutting it short.
SINCE = {2: 1 << 13, 3: 1 << 14}
# What every program may write to.
DEVICES = Path("/dev")


class Ruleset(ctypes.Structure):
    """What is forbidden unless a rule allows it."""

    _fields_ = (("forbidden", ctypes.c_uint64),)


class PathRule(ctypes.Structure):
    """What is allowed below a folder."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def allow_writing_only_below(folder: Path) -> bool:
    """Forbid this process, for good, to change a file elsewhere; return whether that worked."""
    with contextlib.suppress(OSError, AttributeError):
        rights = rights_known()
        ruleset = call(CREATE_RULESET, ctypes.byref(Ruleset(rights)), ctypes.sizeof(Ruleset), 0)
        for place in (folder, DEVICES):
            allow(ruleset, place, rights)
        ctypes.CDLL(None).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        call(RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)
        return True
    return False


def rights_known() -> int:
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
        OSError: the kernel refused it, or doesn't know it.
    """
    if sys.platform != "linux":
        raise OSError("Landlock is Linux's alone")
    library = ctypes.CDLL(None, use_errno=True)
    result = int(library.syscall(number, *arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
