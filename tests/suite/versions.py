"""What torch learnt inside the range of versions that the suite supports.

A test of such a thing carries ``@pytest.mark.since("2.12", "split_module takes tuple_return")``. On
an older torch there is nothing to compare with: the test is skipped there, with that reason. What
torch has mended since is ``@pytest.mark.beyond(reason, condition=INSTALLED < (2, 15))``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
import torch

# Models that an older torch traces, but whose graph it cannot run.
RUNS_SINCE = {"AnyOutput": ("2.12", "generated code can return an operator or an enum")}
INSTALLED = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def skip_what_is_newer(items: Iterable[pytest.Item]) -> None:
    """Skip the tests of what this torch cannot do yet."""
    for item in items:
        for marker in item.iter_markers("since"):
            version, news = marker.args
            if tuple(map(int, version.split("."))) > INSTALLED:
                item.add_marker(pytest.mark.skip(reason=f"since torch {version} {news}"))


def that_run(names: Collection[str]) -> list[Any]:
    """Parameters of a test that runs the graphs of these models, each where torch can."""
    since = {name: pytest.mark.since(*RUNS_SINCE[name]) for name in names if name in RUNS_SINCE}
    return [pytest.param(name, marks=since.get(name, ())) for name in names]


def rest_slow(values: Iterable[object], quick: int) -> list[object]:
    """Parameters of a sweep: the tests of the first few are quick, and those of the rest slow."""
    return [
        value if number < quick else pytest.param(value, marks=pytest.mark.slow)
        for number, value in enumerate(values)
    ]
