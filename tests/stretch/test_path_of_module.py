"""``path_of_module``: models that change, classes with their own ``__eq__``, constant time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import nn

from tests.models.path_of_module import (
    EqualWithOneHash,
    GrowsInForward,
    Unhashable,
    is_refused,
    path_of,
    plugged,
    tracer_at,
)
from tests.suite import equal, holds, is_linear, is_value, noting, refuses


def test_a_module_that_was_removed_is_refused(lesson):
    root = nn.Sequential(nn.ReLU(), nn.Tanh())
    tracer, removed = tracer_at(lesson, root), root[1]
    path_of(tracer, removed)
    del root[1]
    got = path_of(tracer, removed)
    nowhere = (is_value("1"), "the answer is a path that leads nowhere by now")
    holds(is_refused(got), "NameError", got=got, cause=nowhere)


def test_a_module_that_came_later_or_moved_with_its_owner_has_its_new_path(lesson):
    root = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh())
    tracer, inner = tracer_at(lesson, root), root[0][0]
    path_of(tracer, inner)
    root[0], root[1] = root[1], root[0]
    root.append(nn.Sequential(nn.Sigmoid()))
    equal([path_of(tracer, inner), path_of(tracer, root[2][0])], ["1.0", "2.0"])


@pytest.mark.beyond("torch's table was made before")
def test_a_module_registered_during_the_trace_is_found(lesson):
    graph = plugged(lesson).trace(GrowsInForward())
    equal([node.target for node in graph.nodes if node.op == "call_module"], ["late"])


@pytest.mark.beyond("torch says that the module is not installed as a submodule")
def test_the_error_names_the_class_of_the_module_and_of_the_root(lesson):
    tracer = tracer_at(lesson, nn.Sequential(nn.ReLU()))
    with refuses(NameError, "Bilinear", "Sequential"):
        tracer.path_of_module(nn.Bilinear(1, 1, 1))


@pytest.mark.beyond("`named_modules` keeps a set: it leaves equal modules out, and needs a hash")
@pytest.mark.parametrize("kind", [EqualWithOneHash, Unhashable])
def test_a_module_whose_class_has_its_own_equality_has_its_own_path(lesson, kind):
    root = nn.Sequential(kind(), nn.ReLU(), kind())
    tracer = tracer_at(lesson, root)
    unhashable = (
        lambda error: "unhashable" in str(error),
        "modules went into a set or a dict: one of yours, or the one inside `named_modules`",
    )
    with noting(cause=unhashable, on=(TypeError,)):
        got = [path_of(tracer, module) for module in root]
    same = (got[0] == got[2], "modules were compared with `==` (a dict does so too)")
    equal(got, ["0", "1", "2"], cause=same)


@pytest.mark.beyond("outside of a trace, torch scans all modules for each one")
def test_a_lookup_costs_the_same_in_a_large_model(lesson):
    def work(size: int) -> Callable[[], object]:
        root = nn.Sequential(*(nn.ReLU() for _ in range(size)))
        tracer = tracer_at(lesson, root)
        return lambda: [tracer.path_of_module(module) for module in root]

    is_linear(work, 100, "modules")
