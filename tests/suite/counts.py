"""How many tests each lesson has, by what they ask for: ``python -m tests.suite.counts``.

A test function counts in the first column that fits, and its cases in the number after it. Two such
tables, from before a change and after it, show whether a test was lost or only moved.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections import Counter, defaultdict

import pytest

from kata.paths import ROOT, suites
from lessons import LESSONS

COLUMNS = ("unasked", "slow", "beyond", "stretch", "core")


class Counting:
    """A plugin that counts what is collected: cases, by lesson, column and test function."""

    def __init__(self) -> None:
        self.cases: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            column = next((name for name in COLUMNS if item.get_closest_marker(name)), "core")
            self.cases[item.path.stem.removeprefix("test_")][column][item.nodeid.split("[")[0]] += 1


def main() -> int:
    """Print one line per lesson: for each column functions and cases."""
    counting = Counting()
    files = [str(ROOT / file) for lesson in LESSONS for file in suites(lesson.name)]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-q", "--impl=full", *files], plugins=[counting])
    print(f"{'functions/cases':<16}" + "".join(f"{name:>12}" for name in (*COLUMNS[::-1], "all")))
    for lesson in LESSONS:
        print(line(lesson.name, counting.cases[lesson.name]))
    return 0


def line(lesson: str, cases: dict[str, Counter[str]]) -> str:
    found = [cases[column] for column in COLUMNS[::-1]]
    parts = [*found, sum(found, Counter())]
    return f"{lesson:<16}" + "".join(f"{f'{len(each)}/{each.total()}':>12}" for each in parts)


if __name__ == "__main__":
    sys.exit(main())
