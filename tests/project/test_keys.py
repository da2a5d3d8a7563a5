"""The keys of a watch: each one that is pressed counts, and an arrow is no letter."""

from __future__ import annotations

import os
import pty
import signal
import sys
import termios
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kata.keys import PosixKeys, single_keys, windows_key


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The end that keys are read from, and the end where they are pressed."""
    read, write = os.pipe()
    yield read, write
    for descriptor in (read, write):
        os.close(descriptor)


def keys_of(pipe: tuple[int, int], pressed: bytes) -> list[str]:
    """All keys that are read where these bytes came at once."""
    read, write = pipe
    os.write(write, pressed)
    keys = PosixKeys(read)
    return list(iter(lambda: keys.read(0.0), ""))


def test_three_fast_keys_are_three_keys(pipe):
    assert keys_of(pipe, b"nnn") == ["n", "n", "n"]


def test_a_hundred_keys_are_a_hundred(pipe):
    assert len(keys_of(pipe, b"r" * 100)) == 100


@pytest.mark.parametrize(
    "sequence",
    [b"\x1b[A", b"\x1bOH", b"\x1b[1;5R", b"\x1b[3~", b"\x1bn", b"\x1b", "né".encode()[1:]],
)
def test_an_arrow_or_another_strange_key_is_none_of_ours(pipe, sequence: bytes):
    assert keys_of(pipe, b"r" + sequence) == ["r"]


def test_the_end_of_the_input_quits():
    read, write = os.pipe()
    os.close(write)
    assert PosixKeys(read).read(0.0) == "q"
    os.close(read)


def test_on_windows_an_arrow_is_no_letter(monkeypatch):
    pressed = iter(["\xe0", "H", "n"])
    console = SimpleNamespace(kbhit=lambda: True, getwch=lambda: next(pressed))
    monkeypatch.setitem(sys.modules, "msvcrt", console)
    assert [windows_key(0.0), windows_key(0.0)] == ["", "n"]


def test_after_a_pause_the_terminal_hands_over_single_keys_again():
    ours, theirs = pty.openpty()
    with single_keys(theirs):
        cooked = termios.tcgetattr(theirs)
        cooked[3] |= termios.ICANON | termios.ECHO  # as a shell leaves it after Ctrl-Z
        termios.tcsetattr(theirs, termios.TCSANOW, cooked)
        os.kill(os.getpid(), signal.SIGCONT)
        assert not termios.tcgetattr(theirs)[3] & (termios.ICANON | termios.ECHO)
    os.close(ours)
    os.close(theirs)
