"""The terminal: colours only where they are wanted, and lines that fit."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kata.paths import ROOT
from kata.terminal import clipped, filled, harmless, open_console, show_prose
from tests.project.stage import python


def printed(text: str) -> str:
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    open_console(stream=stream).print(text, style="red")
    return stream.getvalue()


@pytest.fixture(autouse=True)
def an_ordinary_terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_terminal_has_colours_unless_you_want_none(monkeypatch, capsys):
    assert "\x1b[31m" in printed("why")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in printed("why")
    monkeypatch.setenv("TERM", "dumb")
    assert printed("why") == "why\n"
    open_console().print("why", style="bold red")  # not a terminal
    assert capsys.readouterr().out == "why\n"


def test_control_characters_are_shown_not_obeyed_and_a_long_line_is_clipped():
    assert (clipped("abcdef", 4), clipped("ab", 4, fill="-")) == ("abc…", "ab--")
    assert harmless("a\x1b[2J\rb\tc\n") == "a\\x1b[2J\\rb\tc\n"


@given(st.text(st.sampled_from("ab `-"), max_size=200), st.integers(10, 60))
def test_filling_a_line_loses_no_word(line: str, width: int):
    assert " ".join(filled(line, width)).split() == line.split()


def test_prose_is_filled_and_code_keeps_its_lines():
    stream = io.StringIO()
    code = ["```python", "x =  1; y =  2; z =  3", "```"]
    text = "\n".join(["a paragraph of words", "", "1. an item of words", *code])
    show_prose(open_console(stream=stream, width=12), text)
    lines = ["a paragraph", "of words", "", "1. an item", "   of words", *code]
    assert stream.getvalue().splitlines() == lines


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_that_lacks_a_character_stops_no_command(encoding: str):
    code = "from kata.terminal import open_console; open_console().print('a \\u2603')"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = python("-c", code, env=environment, text=False)
    assert done.stdout.decode(encoding).strip() == ("a ☃" if encoding == "utf-8" else "a ?")


def test_a_reader_that_has_seen_enough_reads_no_error():
    command = f"{sys.executable} -m kata | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, check=True)
    assert done.stderr == b""
