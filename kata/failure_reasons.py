"""The reasons for many failures: each once, in the words that the suite found for it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kata.verdict import Report

CAUSE = "likely cause:"
# Longer than any sentence that one wants to read in a list.
LONGEST = 240
# How a text begins that compares two values: these are left to the full text.
COMPARISONS = ("expected:", "the graphs differ")
# A place in the learner's code, which may be below a note.
FRAME = re.compile(r"  \S+:\d+, in ")


class Reason(NamedTuple):
    """Why a test failed.

    Attributes:
        raised: The error, if the code raised one.
        cause: The likely cause, if the suite knows one.
    """

    raised: str
    cause: str

    @property
    def why(self) -> str:
        return "; ".join(filter(None, (self.raised, self.cause)))

    @property
    def kind(self) -> tuple[str, str]:
        """Two reasons with the same key are one: the type of the error, and the cause."""
        return self.raised.partition(":")[0], self.cause


def reason_of(report: Report) -> Reason:
    """The reason in a report's text."""
    lines = report.text.splitlines() or [report.sentence]
    raised = "" if lines[0].startswith(COMPARISONS) else lines[0]
    cause = first_sentence(labelled(CAUSE, lines))
    return Reason(first_sentence(raised), cause or ("" if raised else report.sentence))


def first_sentence(text: str) -> str:
    """Return the first sentence, for a list that has no room for all of it."""
    return re.split(r"(?<=[.;])\s", text[:LONGEST], maxsplit=1)[0].rstrip(";")


def labelled(label: str, lines: list[str]) -> str:
    """The text after a label, on one line; empty if there is no such label."""
    found: list[str] = []
    for line in lines:
        if found and (FRAME.match(line) or not line.startswith(" ")):
            break
        if found or line.startswith(label):
            found.append(line.removeprefix(label).strip())
    return " ".join(found)


def other_reasons(first: Report, others: Iterable[Report]) -> list[Reason]:
    """The reasons besides that of the first failure, each once, in the order of the tests.

    Those that the suite has words for come before errors that it can only repeat.
    """
    reasons: dict[tuple[str, str], Reason] = {}
    for reason in map(reason_of, others):
        reasons.setdefault(reason.kind, reason)
    reasons.pop(reason_of(first).kind, None)
    return sorted(reasons.values(), key=lambda reason: not reason.cause)
