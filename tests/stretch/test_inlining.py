"""``inlining``, the rest: near names, unused submodules, clean failures, stacks, many models."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace

from tests import random_models, zoo
from tests.models.inlining import (
    CallsAWrapped,
    Deep,
    FailsLate,
    HoldsAPlainTensor,
    IsInterrupted,
    Parent,
    Picks,
    ReturnsWhatIsGiven,
    X,
    batch_norm,
    node_of,
    outcome,
    parent_of,
    same_as,
    targets,
    traced,
)
from tests.suite import equal, growth, holds, is_value, noting, refuses, rows

LINEAR = 2.5

# --- unknown targets ------------------------------------------------------------------------------


def test_a_target_that_does_not_exist_is_refused_with_near_names(lesson):
    _, gm = parent_of(nn.ReLU())
    with refuses(
        NameError,
        "chidl",
        "child",
        cause=(lambda error: error is not None, "the error doesn't list the name that is near"),
    ):
        lesson.inline_module(gm, "chidl")


def test_a_second_name_of_a_shared_module_is_near_too(lesson):
    _, gm = parent_of(nn.ReLU())
    gm.add_submodule("again", gm.child)
    with refuses(NameError, "agian", "again"):
        lesson.inline_module(gm, "agian")


def test_a_path_is_near_whose_last_name_was_given(lesson):
    with refuses(NameError, "block.1.1.linear"):
        lesson.inline_module(traced(Deep()), "linear")


def test_a_target_that_is_no_module_is_refused(lesson):
    _, gm = parent_of(nn.Linear(4, 4))
    with refuses(NameError, "child.weight", cause="a parameter was taken for a submodule"):
        lesson.inline_module(gm, "child.weight")


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


def test_a_module_stays_whose_tensor_is_read_though_it_holds_no_state(lesson):
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
    [(tuple, 2), (tuple, -3), (tuple, slice(1, None)), (dict, "minus"), (range, 3)],
    ids=["2", "-3", "slice", "minus", "range"],
)
def test_picking_what_the_result_does_not_have_is_left_to_the_run(lesson, result, index):
    """A graph fails where the model fails: when it is run, and not before."""
    model = Picks(ReturnsWhatIsGiven(result), index)
    cause = "an index was looked up that isn't there"
    with noting(cause=cause, on=(LookupError, TypeError)):
        gm = lesson.inline_module(traced(model), "child")
    equal(outcome(gm), outcome(model))


def test_the_function_may_read_parameters_of_the_module(lesson):
    model, gm = parent_of(nn.Linear(4, 3))

    def product(x):
        return x @ gm.child.weight.t() + gm.child.bias

    lesson.inline_function(gm, node_of(gm, "child"), product)
    equal(targets(gm.graph, "get_attr"), ["child.weight", "child.bias"])
    same_as(gm, model, X)


def test_a_leaf_that_the_function_calls_is_one_call(lesson):
    _, gm = parent_of(nn.Linear(4, 4))
    gm.add_submodule("act", nn.ReLU())
    lesson.inline_function(gm, node_of(gm, "child"), lambda x: gm.act(x))
    equal(targets(gm.graph), ["act"], cause=(is_value([]), "the module was looked through"))


def test_hooks_of_the_callee_are_inlined_with_it(lesson):
    model = Parent(nn.ReLU())
    model.child.register_forward_hook(lambda module, args, output: output * 2)
    gm = lesson.inline_module(traced(model), "child")
    same_as(gm, model, X)


def test_wrapped_functions_stay_calls(lesson):
    model, gm = parent_of(CallsAWrapped())
    lesson.inline_module(gm, "child")
    equal([node.name for node in gm.graph.nodes if node.name == "rows_of"], ["rows_of"])
    same_as(gm, model, X)


def test_inlined_nodes_know_the_modules_they_come_from(lesson):
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))
    gm = lesson.inline_all(symbolic_trace(model))
    equal(
        list(node_of(gm, "linear").meta["nn_module_stack"]),
        ["0", "0.0"],
        cause=(is_value(["0.0"]), "new nodes have the stack of the callee alone"),
    )


def test_nodes_that_replace_a_function_are_where_it_was(lesson):
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


def test_nodes_that_are_not_replaced_keep_their_metadata(lesson):
    gm = symbolic_trace(nn.Sequential(nn.ReLU(), nn.Linear(4, 4)))
    linear = node_of(gm, "_1")
    linear.meta["note"] = "mine"
    before = dict(linear.meta)
    lesson.inline_module(gm, "0")
    equal(
        dict(linear.meta),
        before,
        cause=(lambda meta: len(meta) < len(before), "a node lost entries that it had before"),
    )


@pytest.mark.parametrize("training", [False, True])
def test_inlining_leaves_every_module_in_its_mode(lesson, training):
    gm = symbolic_trace(nn.Sequential(nn.ReLU(), nn.Linear(4, 4)).train(training))
    lesson.inline_module(gm, "0")
    equal(
        [gm.training, gm.get_submodule("1").training],
        [training, training],
        cause=(lambda modes: training not in modes, "`train()` or `eval()` was not undone"),
    )


# --- a callee that can't be recorded --------------------------------------------------------------


def test_an_error_names_the_function_and_what_it_raised(lesson):
    def missing(x):
        return x * {}["factor"]

    _, gm = parent_of(nn.ReLU())
    with refuses(
        ValueError,
        "missing",
        "child",
        "KeyError",
        "factor",
        cause=(
            lambda error: error is not None,
            "the error doesn't say which function failed, at which node, or why",
        ),
    ):
        lesson.inline_function(gm, node_of(gm, "child"), missing)


def test_after_an_interrupt_the_graph_is_as_before(lesson):
    gm = traced(nn.Sequential(nn.ReLU(), IsInterrupted()))
    before = [row.name for row in rows(gm.graph)]
    with refuses(KeyboardInterrupt):
        lesson.inline_all(gm)
    equal(
        [row.name for row in rows(gm.graph)],
        before,
        cause=(
            lambda names: len(names) != len(before),
            "what was recorded before it is in the graph: an interrupt is no `Exception`",
        ),
    )


def test_after_a_refusal_names_are_free_again(lesson):
    gm, expected = (traced(nn.Sequential(nn.ReLU(), FailsLate())) for _ in range(2))
    with refuses(ValueError, "FailsLate"):
        lesson.inline_all(gm)
    for each in (gm, expected):
        lesson.inline_function(each, node_of(each, "_0"), lambda x: torch.exp(x) + x)
    equal(
        [node.name for node in gm.graph.nodes],
        [node.name for node in expected.graph.nodes],
        cause=(lambda names: "exp_1" in names, "`exp` is taken by a node that was erased"),
    )


def test_after_a_refusal_the_module_has_no_new_attribute(lesson):
    gm = traced(nn.Sequential(nn.ReLU(), FailsLate()))
    before = list(vars(gm))
    with refuses(ValueError, "FailsLate"):
        lesson.inline_all(gm)
    equal(
        [name for name in vars(gm) if name not in before],
        [],
        cause=(bool, "constants of the callee were stored on the module, and are still there"),
    )


def test_a_check_of_the_users_own_is_there_again_afterwards(lesson):
    model, gm = batch_norm(training=False)
    check = model[0]._check_input_dim = lambda x: None
    lesson.inline_module(gm, "0")
    holds(
        vars(model[0]).get("_check_input_dim") is check,
        "the layer's own check",
        cause=("_check_input_dim" not in vars(model[0]), "it was deleted"),
    )


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


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v3_small", "efficientnet_b0", "vgg11_bn"])
def test_a_classifier_lowered_has_no_calls_of_modules(lesson, name):
    gm = lesson.inline_all(symbolic_trace(zoo.skeleton(name)))
    gm.graph.lint()
    equal(targets(gm.graph), [], cause=(bool, "some calls of modules are left"))


def test_inlining_a_long_chain_takes_linear_time(lesson):
    def lower(size: int) -> Callable[[], object]:
        gm = symbolic_trace(nn.Sequential(*(nn.ReLU() for _ in range(size))))
        return lambda: lesson.inline_all(gm)

    holds(growth(lower, 20) < LINEAR, "twice the calls to take about twice the work")
