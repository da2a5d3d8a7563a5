"""The terminal: colours only where they are wanted, and no character that can't be shown."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kata.paths import ROOT
from kata.terminal import clipped, filled, harmless, open_console, show_prose, spelt

ESCAPE = "\x1b["


def printed(text: str, *, plain: bool = False, style: str = "red") -> str:
    with_terminal = io.StringIO()
    with_terminal.isatty = lambda: True  # type: ignore[method-assign]
    before, sys.stdout = sys.stdout, with_terminal
    try:
        open_console(plain=plain).print(text, style=style)
    finally:
        sys.stdout = before
    return with_terminal.getvalue()


@pytest.fixture(autouse=True)
def an_ordinary_terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_terminal_has_colours():
    assert "\x1b[31m" in printed("why")


def test_no_color_takes_the_colours_and_leaves_the_words(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in printed("why")
    assert "why" in printed("why")


def test_plain_sends_no_control_sequence_at_all():
    assert printed("why …", plain=True, style="bold red") == "why ~\n"


def test_what_is_no_terminal_gets_no_control_sequence(capsys):
    open_console().print("why", style="bold red")
    assert capsys.readouterr().out == "why\n"


@given(st.text(), st.sampled_from(["ascii", "latin-1", "cp1252", "utf-8"]))
def test_any_text_can_be_written_in_any_encoding_in_its_columns(text: str, encoding: str):
    written = spelt(text, encoding)
    assert len(written) == len(text)
    assert written.encode(encoding).decode(encoding) == written


@pytest.mark.parametrize(
    ("text", "ascii_text"), [("a…b", "a~b"), ("é → ü", "e > u"), ("☃", "?"), ("\udc80", "?")]
)
def test_what_an_encoding_lacks_is_spelt_by_what_is_nearest(text: str, ascii_text: str):
    assert spelt(text, "ascii") == ascii_text


def test_control_characters_of_the_judged_code_are_shown_not_obeyed():
    assert harmless("a\x1b[2J\rb\tc\n") == "a\\x1b[2J\\rb\tc\n"


def test_a_line_is_clipped_with_an_ellipsis_or_filled():
    assert (clipped("abcdef", 4), clipped("ab", 4, fill="-")) == ("abc…", "ab--")


@given(st.text(st.sampled_from("ab `-"), max_size=200), st.integers(10, 60))
def test_filling_a_line_loses_no_word(line: str, width: int):
    assert " ".join(filled(line, width)).split() == line.split()


def test_prose_is_filled_and_code_keeps_its_lines():
    stream = io.StringIO()
    code = ["```python", "x =  1; y =  2; z =  3", "```"]
    text = "\n".join(["a paragraph of words", "", "1. an item of words", *code])
    show_prose(open_console(stream=stream, width=12, plain=True), text)
    lines = ["a paragraph", "of words", "", "1. an item", "   of words", *code]
    assert stream.getvalue().splitlines() == lines


LOCALES = {
    "C": {"LC_ALL": "C"},
    "POSIX": {"LC_ALL": "POSIX"},
    "no UTF-8 mode": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "Latin-1": {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "latin-1"},
}
SNOWMAN = """
from kata.terminal import open_console
open_console().print('na\\xefve \\u2603 \\u2026', style='red')
"""


@pytest.mark.parametrize("name", LOCALES)
def test_no_locale_stops_a_command(name: str):
    done = run_in(LOCALES[name], "-c", SNOWMAN)
    assert done.stdout.strip() == (
        "naïve ? ~".encode("latin-1") if name == "Latin-1" else b"naive ? ~"
    )


def test_a_utf8_locale_gets_every_character():
    assert run_in({"LC_ALL": "C.UTF-8"}, "-c", SNOWMAN).stdout.decode().strip() == "naïve ☃ …"


def run_in(locale: dict[str, str], *words: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **locale}
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, check=True
    )


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"set -o pipefail; {sys.executable} -m kata | head -1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)


def test_consoles_are_made_in_one_place():
    """One made elsewhere would know nothing of ``--plain``."""
    made = re.compile(r"\b(?:Pipe)?Console\(\s*file|\\x1b\[|\\033\[")
    files = [path for path in (ROOT / "kata").rglob("*.py") if made.search(path.read_text())]
    assert files == [ROOT / "kata" / "terminal.py"]
