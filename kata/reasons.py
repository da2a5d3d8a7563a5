"""The reasons behind many failures: each once, in the words that the suite found for it."""

from __future__ import annotations

from collections.abc import Iterable

from kata.judging.verdict import Report

CAUSE = "likely cause:"
# How a text begins that compares two values.
COMPARISONS = ("expected:", "the graphs differ")


def reason_of(report: Report) -> str:
    """Why a test failed, in one line: what was raised, and its likely cause if the suite knows one.

    A comparison tells its two values as well; those are left to the full text.
    """
    lines = report.text.splitlines() or ["no reason given"]
    raised = "" if lines[0].startswith(COMPARISONS) else lines[0]
    return "; ".join(filter(None, (raised, cause_in(lines)))) or report.sentence


def cause_in(lines: list[str]) -> str:
    """The likely cause that a text names, on one line; empty if it names none."""
    found: list[str] = []
    for line in lines:
        if found and not line.startswith(" "):
            break
        if found or line.startswith(CAUSE):
            found.append(line.removeprefix(CAUSE).strip())
    return " ".join(found)


def other_reasons(first: Report, others: Iterable[Report]) -> list[str]:
    """The reasons besides that of the first failure, in the order of the tests, each once."""
    reasons = dict.fromkeys(reason_of(report) for report in others)
    reasons.pop(reason_of(first), None)
    return list(reasons)
