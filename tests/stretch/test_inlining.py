"""``inlining``, the rest: similar names, unused submodules, module stacks, many models."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace

from tests import random_models, zoo
from tests.models.inlining import (
    X,
    deep,
    node_of,
    parent_of,
    picks,
    same_as,
    targets,
    traced,
)
from tests.suite import equal, holds, is_linear, is_value, refuses

# --- unknown targets ------------------------------------------------------------------------------


def test_an_unknown_target_is_refused_with_similar_names(lesson):
    _, gm = parent_of(nn.ReLU())
    gm.add_submodule("again", gm.child)
    for target, similar in (("chidl", "child"), ("agian", "again")):
        with refuses(NameError, target, similar):
            lesson.inline_module(gm, target)


# --- submodules that nothing uses any more --------------------------------------------------------


def test_resnet18_loses_the_submodules_that_nothing_uses(lesson):
    gm = lesson.inline_all(symbolic_trace(zoo.skeleton("resnet18")))
    dead = [
        name for name, module in gm.named_modules() if isinstance(module, nn.ReLU | nn.MaxPool2d)
    ]
    equal(dead, [], cause=(bool, "submodules that nothing calls are still there"))


def test_the_model_that_was_traced_keeps_its_modules(lesson):
    model, gm = parent_of(deep())
    names = [name for name, _ in model.named_modules()]
    lesson.inline_all(gm)
    equal([name for name, _ in model.named_modules()], names)


def test_parameters_that_nothing_uses_stay_in_the_state_dict(lesson):
    _, gm = parent_of(deep())
    keys = list(gm.state_dict())
    equal(list(lesson.inline_all(gm).state_dict()), keys, hint="drop only modules without state")


def test_a_module_without_state_stays_if_its_tensor_is_read(lesson):
    model, gm = parent_of(zoo.Constants())
    lesson.inline_module(gm, "child")
    holds("child.attribute" in targets(gm.graph, "get_attr"), "a node that reads the tensor")
    holds(hasattr(gm, "child"), "the module that has the tensor, to be still there")
    same_as(gm, model, X)


# --- what is recorded -----------------------------------------------------------------------------


def outcome(model: nn.Module) -> object:
    try:
        return [each.tolist() for each in model(X)]
    except LookupError as error:
        return type(error)


@pytest.mark.parametrize(
    ("result", "index"),
    [(tuple, 2), (tuple, slice(1, None)), (dict, "minus")],
    ids=["2", "slice", "minus"],
)
def test_an_index_that_the_result_does_not_have_fails_when_the_module_runs(lesson, result, index):
    """A graph fails where the model fails: when it is run, and not before."""
    model = picks(result, index)
    equal(outcome(lesson.inline_module(traced(model), "child")), outcome(model))


@torch.fx.wrap
def rows_of(x):
    return len(x)


def test_wrapped_functions_stay_calls(lesson):
    _, gm = parent_of(nn.ReLU())
    lesson.inline_function(gm, node_of(gm, "child"), lambda x: x * rows_of(x))
    equal(gm(X).tolist(), (X * 2 + 1.0).tolist())


def test_new_nodes_have_the_modules_around_the_call(lesson):
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))
    gm = lesson.inline_all(symbolic_trace(model))
    callee = (is_value(["0.0"]), "new nodes have the stack of the callee alone")
    equal(list(node_of(gm, "linear").meta["nn_module_stack"]), ["0", "0.0"], cause=callee)
    _, gm = parent_of(nn.ReLU())
    lesson.inline_function(gm, node_of(gm, "child"), lambda x: x.clamp(min=0))
    equal(list(node_of(gm, "clamp").meta["nn_module_stack"]), ["child"])


def test_a_graph_without_a_module_stack_is_inlined(lesson):
    model, gm = parent_of(nn.ReLU())
    for node in gm.graph.nodes:
        node.meta.clear()
    same_as(lesson.inline_module(gm, "child"), model, X)


# --- many models ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", random_models.SEEDS)
def test_a_random_tree_lowered_computes_the_same(lesson, seed):
    specimen = random_models.tree(seed)
    gm = symbolic_trace(random_models.tree(seed).model)
    keys, some = list(gm.state_dict()), targets(gm.graph)
    for target in some[:1]:
        lesson.inline_module(gm, target)
    lesson.inline_all(gm).graph.lint()
    equal(targets(gm.graph), [], cause=(bool, "some calls of modules are left"))
    equal(list(gm.state_dict()), keys)
    same_as(gm, specimen.model, *specimen.inputs)


def test_inlining_a_long_chain_takes_linear_time(lesson):
    def lower(size: int) -> Callable[[], object]:
        gm = symbolic_trace(nn.Sequential(*(nn.ReLU() for _ in range(size))))
        return lambda: lesson.inline_all(gm)

    is_linear(lower, 20, "calls")
