"""The zoo shows every opcode with every kind of argument that it can have."""

from __future__ import annotations

import pytest

from tests.suite.coverage import KINDS, PAGE, PLACES, REASONS, coverage, page, reasons_for


def test_a_cell_has_a_model_or_a_reason_and_never_both():
    models = coverage()
    for cell in ((place, kind) for place in PLACES for kind in KINDS):
        assert bool(models.get(cell)) != bool(reasons_for(*cell)), f"{cell}: {models.get(cell)}"


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.words)
def test_a_reason_is_true(reason):
    assert reason.is_true()


def test_the_page_is_fresh():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.suite.coverage`"
