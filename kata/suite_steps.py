"""The steps of a lesson by their numbers: the headings in its core's suite."""

from __future__ import annotations

import re
from typing import NamedTuple

from kata.paths import ROOT

# A heading in a suite: `# --- step 2: torch's functions ---`, or one without a number.
HEADING = re.compile(r"^# --- (?:step (?P<number>\d+): )?(?P<title>.*?)[ -]*$", re.IGNORECASE)


class Section(NamedTuple):
    """The part of a core's suite that judges one step: its title, and the lines in the file."""

    title: str
    lines: range


def steps_of(lesson: str) -> dict[int, Section]:
    """The steps of a core's suite by their numbers: each goes from its heading to the next one."""
    lines = (ROOT / f"tests/test_{lesson}.py").read_text(encoding="utf-8").splitlines()
    headings = [(at, found) for at, line in enumerate(lines, 1) if (found := HEADING.match(line))]
    ends = [*(at for at, _ in headings), len(lines) + 1][1:]
    return {
        int(found["number"]): Section(found["title"], range(at, end))
        for (at, found), end in zip(headings, ends, strict=True)
        if found["number"]
    }
