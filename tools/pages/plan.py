"""The plan of a workshop: its fence becomes a table whose clock runs by the minutes of the lessons.

The first line of a fence called ``plan`` is when it begins; each other line is a number of minutes,
or the name of a lesson, and after a bar what happens::

    9:00
    20 | the first run
    proxy | together
"""

from __future__ import annotations

import re

from lessons import LESSONS

FENCE = re.compile(r"^```plan\n(\d+):(\d+)\n(.*?)```$", re.MULTILINE | re.DOTALL)
BY_NAME = {lesson.name: lesson for lesson in LESSONS}


def with_plans(page: str) -> str:
    r"""Return a page with its plans as tables.

    >>> print(with_plans("```plan\n9:50\n15 | break\n```").splitlines()[-1])
    | 10:05 |  | end |
    """
    return FENCE.sub(table, page)


def table(fence: re.Match[str]) -> str:
    now = 60 * int(fence[1]) + int(fence[2])
    rows = ["| from | minutes | what |", "|---|---|---|"]
    for line in fence[3].splitlines():
        name, _, what = (part.strip() for part in line.partition("|"))
        lesson = BY_NAME.get(name)
        minutes = lesson.minutes if lesson else int(name)
        link = f"[{lesson.title}](lessons/{lesson.name}.md), `{lesson.name}`" if lesson else ""
        rows.append(f"| {clock(now)} | {minutes} | {', '.join(filter(None, (link, what)))} |")
        now += minutes
    return "\n".join([*rows, f"| {clock(now)} |  | end |"])


def clock(minutes: int) -> str:
    """Return a time of day.

    >>> clock(605)
    '10:05'
    """
    return f"{minutes // 60}:{minutes % 60:02}"
