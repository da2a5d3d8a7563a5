"""The reasons behind many failures: each once, in the words that the suite found for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kata.judging.verdict import Report

CAUSE, HINT = "likely cause:", "try:"
# How a text begins that compares two values: these are left to the full text.
COMPARISONS = ("expected:", "the graphs differ")


class Reason(NamedTuple):
    """Why a test failed.

    Attributes:
        why: what was raised, if anything was, and the likely cause, if the suite knows one.
        hint: what the suite suggests; empty if nothing.
    """

    why: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.why} (try: {self.hint})" if self.hint else self.why


def reason_of(report: Report) -> Reason:
    """The reason in a report's text."""
    lines = report.text.splitlines()
    raised = lines[0] if lines and not lines[0].startswith(COMPARISONS) else ""
    why = "; ".join(filter(None, (raised, labelled(CAUSE, lines))))
    return Reason(why or report.sentence, labelled(HINT, lines))


def labelled(label: str, lines: list[str]) -> str:
    """What stands behind a label, on one line; empty where there is no such label."""
    found: list[str] = []
    for line in lines:
        if found and not line.startswith(" "):
            break
        if found or line.startswith(label):
            found.append(line.removeprefix(label).strip())
    return " ".join(found)


def other_reasons(first: Report, others: Iterable[Report]) -> list[Reason]:
    """The reasons besides that of the first failure, in the order of the tests, each once."""
    reasons: dict[str, Reason] = {}
    for reason in map(reason_of, others):
        reasons.setdefault(reason.why, reason)
    reasons.pop(reason_of(first).why, None)
    return list(reasons.values())
