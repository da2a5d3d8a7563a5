"""``kata bench`` shows one table: what says how far it is leaves the terminal again."""

from __future__ import annotations

import contextlib
import io

import pyte
import pytest

from benchmarks.__main__ import announced
from kata.terminal import open_console
from tests.house.stage import an_ordinary_terminal

WORDS = "timing 1 of 2: tracer, ResNet18"


class Stream(io.StringIO):
    """What is written to standard error, as lines of a small terminal."""

    is_terminal = True

    def isatty(self) -> bool:
        return self.is_terminal

    @property
    def lines(self) -> list[str]:
        screen = pyte.Screen(80, 4)
        pyte.Stream(screen).feed(self.getvalue().replace("\n", "\r\n"))
        return [line.rstrip() for line in screen.display if line.strip()]


@pytest.mark.parametrize(("is_terminal", "left"), [(True, []), (False, [WORDS])])
def test_what_is_timed_is_named_and_on_a_terminal_forgotten(is_terminal, left, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Stream()
    stream.is_terminal = is_terminal
    with an_ordinary_terminal(), contextlib.redirect_stderr(stream):
        with announced(open_console(stderr=True), WORDS):
            assert stream.lines == [WORDS]
        assert stream.lines == left
