"""What the lesson ``graph`` is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return the text of a table, with a line under its head, as the package ``tabulate`` does.

    Args:
        head: The names of the columns.
        rows: The cells of each row.

    >>> print(table(("name", "args"), [("relu", ("x",)), ("output", ())]))
    name    args
    ------  ------
    relu    ('x',)
    output  ()
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [len(name) + 2 for name in head]  # no column of `tabulate` is narrower
    for row in cells:
        widths = [max(width, len(cell)) for width, cell in zip(widths, row, strict=True)]
    lines = (head, ["-" * width for width in widths], *cells)
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
