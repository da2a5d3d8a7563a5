"""The figures of the benchmarks on their page: a bar for each lesson, then its table, folded."""

from __future__ import annotations

import re
import textwrap
from statistics import median

from kata.paths import ROOT

HEADING = re.compile(r"^### (\w+)$", re.MULTILINE)
# The fourth column of a table: our time over torch's.
RATIO = re.compile(r"^\|(?:[^|]*\|){3} *(\d\.\d+)", re.MULTILINE)
HIGHEST = 2.0  # torch's line is in the middle


def tables() -> dict[str, str]:
    """Each lesson's table, as the benchmarks wrote them."""
    text = (ROOT / "benchmarks" / "figures.md").read_text(encoding="utf-8")
    _, *parts = HEADING.split(text)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def ratio(table: str) -> float:
    """The median of a lesson's cases: our time over torch's."""
    return median(map(float, RATIO.findall(table)))


def chart() -> str:
    """A row for each lesson, with a bar as long as its time; torch's is marked."""
    rows = "".join(
        f'<tr><th scope="row"><code>{name}</code></th>'
        f'<td><span style="width:{min(ratio(table) / HIGHEST, 1):.0%}"></span></td>'
        f"<td>{ratio(table):.2f}</td></tr>"
        for name, table in tables().items()
    )
    says = "Our time, where torch takes 1: the median of the cases of each lesson"
    return f'<table class="bars"><caption>{says}</caption><tbody>{rows}</tbody></table>'


def folded() -> str:
    """The table of each lesson in a box of its own."""
    return "\n".join(
        f'??? info "{name}"\n\n{textwrap.indent(table.strip(), "    ")}\n'
        for name, table in tables().items()
    )
