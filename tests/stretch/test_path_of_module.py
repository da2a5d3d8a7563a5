"""``path_of_module``: models that change, classes with their own ``__eq__``, constant time."""

from __future__ import annotations

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
from tests.suite import equal, holds, is_value, lines_run, noting, refuses


def test_a_module_registered_later_is_found(lesson):
    root = nn.Sequential(nn.ReLU())
    tracer = tracer_at(lesson, root)
    path_of(tracer, root[0])
    root.append(nn.Sequential(nn.Tanh()))
    equal(
        path_of(tracer, root[1][0]),
        "1.0",
        cause=(is_refused, "only what was registered at the first call is known"),
    )


def test_a_module_that_was_removed_is_refused(lesson):
    root = nn.Sequential(nn.ReLU(), nn.Tanh())
    tracer, removed = tracer_at(lesson, root), root[1]
    path_of(tracer, removed)
    del root[1]
    got = path_of(tracer, removed)
    holds(
        is_refused(got),
        "NameError",
        got=got,
        cause=(is_value("1"), "the answer is a path that leads nowhere by now"),
    )


def test_a_module_whose_owner_moved_has_its_new_path(lesson):
    root = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh())
    tracer, inner = tracer_at(lesson, root), root[0][0]
    path_of(tracer, inner)
    root[0], root[1] = root[1], root[0]
    equal(
        path_of(tracer, inner),
        "1.0",
        cause=(is_value("0.0"), "the module's owner is somewhere else by now: check the whole way"),
    )


@pytest.mark.beyond("torch's table was made before")
def test_a_module_registered_during_the_trace_is_found(lesson):
    graph = plugged(lesson).trace(GrowsInForward())
    equal([node.target for node in graph.nodes if node.op == "call_module"], ["late"])


@pytest.mark.beyond("torch says that the module is not installed as a submodule")
def test_the_error_names_the_class_of_the_module_and_of_the_root(lesson):
    tracer = tracer_at(lesson, nn.Sequential(nn.ReLU()))
    with refuses(NameError, "Bilinear", "Sequential"):
        tracer.path_of_module(nn.Bilinear(1, 1, 1))


@pytest.mark.beyond("`named_modules` keeps what it has met in a set, and leaves the second one out")
def test_a_module_that_claims_to_equal_every_other_has_its_own_path(lesson):
    root = nn.Sequential(EqualWithOneHash(), nn.ReLU(), EqualWithOneHash())
    tracer = tracer_at(lesson, root)
    equal(
        [path_of(tracer, module) for module in root],
        ["0", "1", "2"],
        cause=(
            lambda got: got[0] == got[2],
            "modules were compared with `==` (a dict does so too)",
        ),
    )


HASH = (
    "a class with its own `__eq__` has no hash, and modules went into a set or became keys of a "
    "dict: one of yours, or the one inside `named_modules`, `named_children` and `children`"
)


@pytest.mark.beyond("a module without a hash can't be put into that set")
def test_a_module_without_a_hash_has_a_path(lesson):
    root = nn.Sequential(Unhashable(), Unhashable())
    tracer = tracer_at(lesson, root)
    with noting(cause=(lambda error: "unhashable" in str(error), HASH), on=(TypeError,)):
        got = path_of(tracer, root[1])
    equal(
        got, "1", cause=(is_value("0"), "modules were compared with `==`: these are equal, and two")
    )


def cost_of_a_lookup(lesson, size: int) -> int:
    root = nn.Sequential(*(nn.ReLU() for _ in range(size)))
    tracer = tracer_at(lesson, root)
    path_of(tracer, root[0])
    return lines_run(lambda: tracer.path_of_module(root[size - 1]))


@pytest.mark.beyond("outside of a trace, torch scans all modules for each one")
def test_a_lookup_costs_the_same_in_a_large_model(lesson):
    small, large = cost_of_a_lookup(lesson, 10), cost_of_a_lookup(lesson, 1000)
    holds(
        large <= 2 * small,
        "about as many steps among 1000 modules as among 10",
        got=f"{small} and {large} lines of Python",
        cause=(large >= 1000, "every call searches all modules (a linear scan per lookup)"),
    )
