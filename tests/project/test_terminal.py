"""The terminal: lines that fit, in characters that it has."""

from __future__ import annotations

import io
import os
import subprocess
import sys

from kata.paths import ROOT
from kata.terminal import clipped, harmless, open_console, show_prose
from tests.project.stage import python


def test_control_characters_are_shown_not_obeyed_and_a_long_line_is_clipped():
    assert (clipped("abcdef", 4), clipped("ab", 4, fill="-")) == ("abc…", "ab--")
    assert harmless("a\x1b[2J\rb\tc\n") == "a\\x1b[2J\\rb\tc\n"


def test_prose_is_filled_and_code_keeps_its_lines():
    stream = io.StringIO()
    code = ["```python", "x =  1; y =  2; z =  3", "```"]
    text = "\n".join(["a paragraph of words", "", "1. an item of words", *code])
    show_prose(open_console(stream=stream, width=12), text)
    lines = ["a paragraph", "of words", "", "1. an item", "   of words", *code]
    assert stream.getvalue().splitlines() == lines


def test_a_terminal_that_lacks_a_character_stops_no_command():
    code = "from kata.terminal import open_console; open_console().print('a \\u2603')"
    done = python("-c", code, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.stdout == "a ?\n"


def test_a_reader_that_has_seen_enough_reads_no_error():
    command = f"{sys.executable} -m kata | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, check=True)
    assert done.stderr == b""
