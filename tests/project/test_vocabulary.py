"""The project's English: phrases that read as translated are found, and say what to write."""

from __future__ import annotations

import re
import subprocess

import pytest

from kata.paths import ROOT

# A pattern, what to write in its place, and a sentence that has it.
MARKS = {
    r"nobody|everybody|whoever": ("the noun: no test, the reader", "Nobody reads it."),
    r"(?<!left )(?<!leave )(?<!thing )behind": ("after", "The value behind the comma."),
    r"in front of": ("before", "The class in front of torch's."),
    r"(?:lies?|stands?) (?:in(?! for)|on|at|behind|beside|below|above|there)": (
        "is in, is on, is at",
        "The node stands in a list.",
    ),
    r"(?<!there )(?:is|are|was) no (?!longer|more|matter)\w+": ("isn't a", "This is no graph."),
    r"for ever|by turns": ("forever, alternately", "It goes on for ever."),
    r"always so": ("nothing: a fact needs no emphasis", "In torch: `relu`, always so."),
    r"were it (?:the|a|not)|have you an?": (
        "if it were, if you have",
        "Were it the last, it ends.",
    ),
    r"the way out": ("what to do instead", "The error says the way out."),
}
TEXTS = ("*.md", "*.py", "*.yml", "*.toml")
# Generated from what is read here, or not English: this file's own patterns.
GENERATED = ("lessons/", "notebooks/", "tests/project/test_vocabulary.py")


def texts() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *TEXTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.splitlines() if not name.startswith(GENERATED)]


def findings(mark: str, text: str) -> list[str]:
    pattern = re.compile(rf"\b(?:{mark})\b", re.IGNORECASE)
    return [line.strip() for line in text.splitlines() if pattern.search(line)]


@pytest.mark.parametrize("mark", MARKS)
def test_no_text_reads_as_translated(mark: str):
    found = [
        f"{name}: {line}"
        for name in texts()
        if (ROOT / name).is_file()
        for line in findings(mark, (ROOT / name).read_text(encoding="utf-8"))
    ]
    assert not found, f"write instead: {MARKS[mark][0]}\n" + "\n".join(found)


@pytest.mark.parametrize("mark", MARKS)
def test_each_mark_is_seen(mark: str):
    assert findings(mark, MARKS[mark][1])
    assert not findings(mark, "There is no GPU; an earlier test left something behind.")
