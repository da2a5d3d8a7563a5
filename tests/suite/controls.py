"""What must fail in every run on somebody else's code, after its own tests.

Grading adds this file to the lesson's tests. Each control fails with a word that was made up for
this one run. Where one passes, is skipped, says something else or isn't heard of, the run doesn't
count: whatever let that happen may have let the lesson pass.
"""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace

from kata.grading.guard import SEAL
from tests.suite.expect import equal, holds, refuses, same_numbers
from tests.suite.graphs import same_graph

# The controls run last: after the core, and after the stretch that is collected before them.
pytestmark = pytest.mark.stretch


@pytest.fixture
def word(request: pytest.FixtureRequest) -> str:
    """The word that this run's controls must fail with."""
    return request.config.getoption("--control")


def test_a_failure_is_reported(word: str) -> None:
    """Whatever a lesson does, a test that raises has failed."""
    raise AssertionError(word)


def test_an_unequal_value_is_refused(word: str) -> None:
    """``equal`` still tells two values apart."""
    equal(1, 2, cause=word)


def test_a_false_condition_is_refused(word: str) -> None:
    """``holds`` still wants its condition."""
    holds(operator.eq(1, 2), "a true condition", cause=word)


def test_other_numbers_are_refused(word: str) -> None:
    """``same_numbers`` still compares numbers."""
    same_numbers(torch.zeros(2), torch.ones(2), cause=word)


def test_a_missing_refusal_is_refused(word: str) -> None:
    """``refuses`` still wants an error."""
    with refuses(ValueError, cause=word):
        pass


def test_another_graph_is_refused(word: str) -> None:
    """``same_graph`` still compares graphs, and torch's own tracer records what it is given."""
    ours, theirs = symbolic_trace(nn.ReLU()), symbolic_trace(nn.Tanh())
    same_graph(ours.graph, theirs.graph, cause=word)


def test_the_judge_is_whole(word: str, request: pytest.FixtureRequest) -> None:
    """Nothing that judges was replaced while the lesson's tests ran."""
    broken = request.config.stash[SEAL].broken()
    raise AssertionError(f"replaced: {', '.join(broken)}" if broken else word)
