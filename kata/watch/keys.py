"""Read single keys from the terminal, where there is one."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator

Read = Callable[[float], str]


@contextlib.contextmanager
def keys() -> Iterator[Read | None]:
    """Yield a function that waits so many seconds for a key and returns it, or ``""``.

    Yields ``None`` where standard input is no terminal: there are no keys then.
    """
    if not sys.stdin or not sys.stdin.isatty():
        yield None
    elif os.name == "nt":
        yield windows_key
    else:
        with single_keys(sys.stdin.fileno()):
            yield posix_key


@contextlib.contextmanager
def single_keys(descriptor: int) -> Iterator[None]:
    """Let the terminal hand over each key at once, and not show it; put it back afterwards."""
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def posix_key(seconds: float) -> str:
    descriptor = sys.stdin.fileno()
    ready, _, _ = select.select([descriptor], [], [], seconds)
    if not ready:
        return ""
    pressed = os.read(descriptor, 32)
    # An arrow, say, is several bytes that begin with an escape: none of ours. The end of the input
    # is no byte at all: the terminal is gone.
    return pressed[:1].decode("ascii", "ignore") if pressed else "q"


def windows_key(seconds: float) -> str:
    import msvcrt

    deadline = time.monotonic() + seconds
    while not msvcrt.kbhit():  # type: ignore[attr-defined]
        if time.monotonic() > deadline:
            return ""
        time.sleep(0.01)
    return str(msvcrt.getwch())  # type: ignore[attr-defined]
