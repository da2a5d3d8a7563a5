"""The reason for a failure in one sentence, in the words that the suite found for it."""

from __future__ import annotations

import re

from kata.verdict import Report

CAUSE = "likely cause:"
# Longer than any sentence that you want to read in a list.
LONGEST = 240
# How a text begins that compares two values: these are left to the full text.
COMPARISONS = ("expected:", "the graphs differ")
# A place in the learner's code, which may be below a note.
FRAME = re.compile(r"  \S+:\d+, in ")


def reason_of(report: Report) -> str:
    """Return the likely cause of a failure, or else its error, or its test."""
    first = report.text.partition("\n")[0]
    raised = "" if first.startswith(COMPARISONS) else first
    return cause_of(report) or first_sentence(raised or report.sentence)


def cause_of(report: Report) -> str:
    """Return the likely cause in a failure's text; empty if the suite named none."""
    found: list[str] = []
    for line in report.text.splitlines():
        if found and (FRAME.match(line) or not line.startswith(" ")):
            break
        if found or line.startswith(CAUSE):
            found.append(line.removeprefix(CAUSE).strip())
    return first_sentence(" ".join(found))


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;])\s", text[:LONGEST], maxsplit=1)[0].rstrip(";")
