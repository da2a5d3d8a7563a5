"""Read single keys from the terminal, where there is one."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator

Read = Callable[[float], str]
# What an arrow sends, say: an escape and the characters that belong to it. None of these is ours.
SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O?.)?")
# On Windows it sends one of these, and a letter.
WINDOWS_PREFIXES = ("\x00", "\xe0")


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
            yield PosixKeys(sys.stdin.fileno()).read


@contextlib.contextmanager
def single_keys(descriptor: int) -> Iterator[None]:
    """Let the terminal hand over each key at once, and not show it; put it back afterwards."""
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    # After Ctrl-Z and `fg` the terminal is as the shell had it.
    continued = signal.signal(signal.SIGCONT, lambda *_: tty.setcbreak(descriptor))
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, continued)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class PosixKeys:
    """The keys pressed on a terminal, one after the other, however many come at once."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.waiting: deque[str] = deque()

    def read(self, seconds: float) -> str:
        if not self.waiting:
            ready, _, _ = select.select([self.descriptor], [], [], seconds)
            self.waiting.extend(self.pressed() if ready else "")
        return self.waiting.popleft() if self.waiting else ""

    def pressed(self) -> str:
        """What was pressed since the last look; the end of the input means that one quits."""
        pressed = os.read(self.descriptor, 1024)
        # The end is no byte at all: the terminal is gone.
        return SEQUENCE.sub("", pressed.decode("ascii", "ignore")) if pressed else "q"


def windows_key(seconds: float) -> str:
    import msvcrt

    deadline = time.monotonic() + seconds
    while not msvcrt.kbhit():  # type: ignore[attr-defined]
        if time.monotonic() > deadline:
            return ""
        time.sleep(0.01)
    key = str(msvcrt.getwch())  # type: ignore[attr-defined]
    if key in WINDOWS_PREFIXES:
        msvcrt.getwch()  # type: ignore[attr-defined]
        return ""
    return key
