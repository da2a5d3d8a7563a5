"""``inlining``, the rest: similar names, unused submodules, module stacks, many models."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import nn
from torch.fx import symbolic_trace

from tests import random_models, zoo
from tests.models.inlining import (
    CallsAWrapped,
    Deep,
    HoldsAPlainTensor,
    Parent,
    Picks,
    ReturnsWhatIsGiven,
    X,
    node_of,
    outcome,
    parent_of,
    same_as,
    targets,
    traced,
)
from tests.suite import equal, holds, is_linear, is_value, noting, refuses

# --- unknown targets ------------------------------------------------------------------------------


def test_an_unknown_target_is_refused_with_similar_names(lesson):
    _, gm = parent_of(nn.ReLU())
    with refuses(
        NameError,
        "chidl",
        "child",
        cause=(lambda error: error is not None, "the error doesn't list the similar name"),
    ):
        lesson.inline_module(gm, "chidl")


def test_a_second_name_of_a_shared_module_is_listed_too(lesson):
    _, gm = parent_of(nn.ReLU())
    gm.add_submodule("again", gm.child)
    with refuses(NameError, "agian", "again"):
        lesson.inline_module(gm, "agian")


# --- submodules that nothing uses any more --------------------------------------------------------


def test_resnet18_loses_the_submodules_that_nothing_uses(lesson):
    gm = lesson.inline_all(symbolic_trace(zoo.skeleton("resnet18")))
    dead = [
        name for name, module in gm.named_modules() if isinstance(module, nn.ReLU | nn.MaxPool2d)
    ]
    equal(dead, [], cause=(bool, "submodules that nothing calls are still there"))


def test_the_model_that_was_traced_is_not_changed(lesson):
    model = Deep()
    lesson.inline_all(traced(model))
    equal([name for name, _ in model.named_modules()], [name for name, _ in Deep().named_modules()])


def test_a_module_without_state_stays_if_its_tensor_is_read(lesson):
    model = Parent(HoldsAPlainTensor())
    gm = lesson.inline_module(traced(model), "child")
    equal(targets(gm.graph, "get_attr"), ["child.plain"])
    holds(
        hasattr(gm, "child"),
        "the module that has the tensor",
        cause=("child" not in gm._modules, "it was dropped, though a node reads from it"),
    )
    same_as(gm, model, X)


# --- what is recorded -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "index"),
    [(tuple, 2), (tuple, slice(1, None)), (dict, "minus")],
    ids=["2", "slice", "minus"],
)
def test_an_index_that_the_result_does_not_have_fails_when_the_module_runs(lesson, result, index):
    """A graph fails where the model fails: when it is run, and not before."""
    model = Picks(ReturnsWhatIsGiven(result), index)
    cause = "the index was looked up while inlining"
    with noting(cause=cause, on=(LookupError, TypeError)):
        gm = lesson.inline_module(traced(model), "child")
    equal(outcome(gm), outcome(model))


def test_wrapped_functions_stay_calls(lesson):
    model, gm = parent_of(CallsAWrapped())
    lesson.inline_module(gm, "child")
    equal([node.name for node in gm.graph.nodes if node.name == "rows_of"], ["rows_of"])
    same_as(gm, model, X)


def test_inlined_nodes_have_the_modules_around_the_call(lesson):
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))
    gm = lesson.inline_all(symbolic_trace(model))
    equal(
        list(node_of(gm, "linear").meta["nn_module_stack"]),
        ["0", "0.0"],
        cause=(is_value(["0.0"]), "new nodes have the stack of the callee alone"),
    )


def test_nodes_that_replace_a_function_have_its_module_stack(lesson):
    _, gm = parent_of(nn.ReLU())
    lesson.inline_function(gm, node_of(gm, "child"), lambda x: x.clamp(min=0))
    equal(
        list(node_of(gm, "clamp").meta["nn_module_stack"]),
        ["child"],
        cause=(is_value([]), "the stack was cut as if a module were called again"),
    )


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
