"""The project's English: phrases that read as translated are found, and say what to write."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from kata.paths import ROOT

# A pattern, and what to write in its place.
MARKS = {
    r"nobody|everybody|whoever": "the noun: no test, the reader",
    r"(?<!left )(?<!leave )(?<!thing )behind": "after",
    r"in front of": "before",
    r"(?:lies?|stands?) (?:in(?! for)|on|at|behind|beside|below|above|there)": "is in, is on",
    r"(?<!there )(?:is|are|was) no (?!longer|more|matter)\w+": "isn't a",
    r"for ever|by turns": "forever, alternately",
    r"always so": "nothing: a fact needs no emphasis",
    r"were it (?:the|a|not)|have you an?": "if it were, if you have",
    r"the way out": "what to do instead",
}
TEXTS = ("*.md", "*.py", "*.yml", "*.toml")
# Generated from what is read here, or not English: this file's own patterns.
GENERATED = ("lessons/", "notebooks/", "tests/project/test_vocabulary.py")


def texts() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *TEXTS]
    names = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
    return [ROOT / name for name in names if not name.startswith(GENERATED)]


def as_read(line: str) -> str:
    """A line as it is read: the name of a function is a sentence."""
    return line.replace("_", " ") if line.lstrip().startswith("def ") else line


@pytest.mark.parametrize("mark", MARKS)
def test_no_text_reads_as_translated(mark: str):
    pattern = re.compile(rf"\b(?:{mark})\b", re.IGNORECASE)
    assert not pattern.search("There is no GPU; an earlier test left something behind.")
    found = [
        f"{file}: {line.strip()}"
        for file in filter(Path.is_file, texts())
        for line in file.read_text(encoding="utf-8").splitlines()
        if pattern.search(as_read(line))
    ]
    assert not found, f"write instead: {MARKS[mark]}\n" + "\n".join(found)
