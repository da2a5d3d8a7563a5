"""What the maintainer's tests share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kata.commands import check
from kata.judge import Judge
from kata.progress import Workspace
from tests.project.stage import a_learner
from tools.stubs import write


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """One judge for all tests: it takes seconds to warm up."""
    with Judge() as judge:
        yield judge


@pytest.fixture
def warm(judge: Judge, monkeypatch) -> None:
    """Let ``kata check`` use that judge."""
    monkeypatch.setattr(check, "Judge", lambda: contextlib.nullcontext(judge))


@pytest.fixture
def learner() -> Iterator[Workspace]:
    """A learner who has all stubs, and whose commands work on them."""
    with a_learner() as place:
        yield place


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    """A folder with all stubs."""
    write(tmp_path / "lessons")
    return tmp_path / "lessons"
