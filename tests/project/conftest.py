"""What the maintainer's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kata.judging import Judge


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """One judge for all tests: it takes seconds to warm up."""
    with Judge() as judge:
        yield judge
