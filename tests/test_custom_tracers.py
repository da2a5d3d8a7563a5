"""``custom_tracers``: subclasses that change one decision, beside plain tracers and the table."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn
from torch.nn import functional as F

from tests import zoo
from tests.models.custom_tracers import (
    Scaled,
    all_tagged,
    paths,
    plain,
    traced_paths,
)
from tests.suite import equal, holds, is_value, same_graph, same_numbers
from tests.suite.engine import graph_module

TABLE = Path(__file__).parent / "data" / "resnet18_modules.txt"

# --- step 1: LowerReluTracer ----------------------------------------------------------------------

LEAF_HINT = "return False for a ReLU, and ask `super().is_leaf_module` about the rest"


@pytest.mark.parametrize("inplace", [False, True])
def test_relu_becomes_the_function_that_it_calls(lesson, inplace):
    graph = lesson.LowerReluTracer().trace(nn.Sequential(nn.ReLU(inplace)))
    equal(
        [(node.op, node.target, dict(node.kwargs)) for node in graph.nodes][1:-1],
        [("call_function", F.relu, {"inplace": inplace})],
        cause=(lambda nodes: nodes[0][0] == "call_module", "the ReLU is still a leaf"),
        hint=LEAF_HINT,
    )


def test_subclasses_of_relu_are_traced_through_too(lesson):
    class Leaky(nn.ReLU):
        def forward(self, x):
            return F.leaky_relu(x, 0.1)

    Leaky.__module__ = "torch.nn.mine"
    graph = lesson.LowerReluTracer().trace(nn.Sequential(Leaky()))
    equal(
        [node.op for node in graph.nodes],
        ["placeholder", "call_function", "output"],
        hint="`isinstance` is also true for subclasses",
    )


def test_other_modules_are_recorded_as_usual(lesson):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU6(), nn.Sequential(nn.Sigmoid()), nn.ReLU())
    graph = lesson.LowerReluTracer().trace(model)
    equal(
        [node.target for node in graph.nodes if node.op == "call_module"],
        ["0", "1", "2.0"],
        cause=(lambda targets: "2" in targets, "the `Sequential` has become a leaf"),
        hint=LEAF_HINT,
    )


def test_resnet18_without_relu_modules_computes_the_same(lesson):
    specimen = zoo.resnet18()
    graph = lesson.LowerReluTracer().trace(specimen.model)
    called = [node for node in graph.nodes if node.op == "call_function" and node.target is F.relu]
    equal(len(called), 17, hint=LEAF_HINT)
    same_numbers(graph_module(specimen.model, graph)(*specimen.inputs), specimen.eager())


# --- step 2: TaggingTracer ------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.SMALL)
def test_every_node_has_the_tag_and_nothing_else_is_changed(lesson, name):
    graph = lesson.TaggingTracer().trace(zoo.SMALL[name]().model)
    all_tagged(graph, "foo")
    same_graph(
        graph,
        plain(zoo.SMALL[name]().model),
        hint="pass on every argument, the name and the annotation too, then set the tag",
    )


def test_two_tagging_tracers_keep_their_own_tags(lesson):
    one, other = lesson.TaggingTracer("one"), lesson.TaggingTracer(tag="other")
    other.trace(Scaled(nn.ReLU()))
    tags = {getattr(node, "tag", None) for node in one.trace(Scaled(nn.ReLU())).nodes}
    equal(
        tags,
        {"one"},
        cause=(is_value({"other"}), "the tag belongs to the class, so the last tracer's tag wins"),
        hint="store it on the instance, in `__init__`",
    )


# --- step 3: ModulePathTracer ---------------------------------------------------------------------


def test_an_operation_after_a_call_belongs_to_the_caller_again(lesson):
    found = traced_paths(lesson, Scaled(Scaled(nn.ReLU())))
    equal(
        [found[name] for name in ("exp", "exp_1", "child_child", "neg", "neg_1")],
        ["", "child", "child.child", "child", ""],
        cause=[
            (lambda found: not any(found), "the current path never changes"),
            (lambda found: found[2] == "child", "the node of a leaf has the path of its caller"),
            (lambda found: found[3] == found[2], "after a call, the callee's path is still there"),
            (lambda found: found[3] == "", "after a call, the root's path is restored"),
        ],
        hint="save the current path before the call, and restore that one after it",
    )


def test_inputs_and_parameters_have_a_path_and_the_output_has_no_entry(lesson):
    found = traced_paths(lesson, Scaled(Scaled(nn.ReLU())))
    equal(
        [found[name] for name in ("x", "child_weight", "weight", "output")],
        ["", "child", "", None],
        cause=(lambda found: found[3] == "", "the output has a path, though it isn't a proxy's"),
        hint="record the path where proxies are created, not where nodes are created",
    )


def test_a_shared_module_has_its_first_name_at_each_call(lesson):
    shared = Scaled(nn.ReLU())
    found = traced_paths(lesson, nn.Sequential(shared, nn.Sequential(shared)))
    equal(
        [found["exp"], found["exp_1"]],
        ["0", "0"],
        cause=[
            (lambda found: "1.0" in found, "a later name of the module was used"),
            (
                lambda found: "0@1" in found,
                "`0@1` is a key of the module stack, where calls are numbered",
            ),
        ],
        hint="ask `path_of_module`: it knows the first name",
    )


@pytest.mark.parametrize("name", zoo.SMALL)
def test_recording_paths_does_not_change_the_graph(lesson, name):
    same_graph(
        lesson.ModulePathTracer().trace(zoo.SMALL[name]().model),
        plain(zoo.SMALL[name]().model),
        meta=("nn_module_stack",),
        hint="pass on every argument: `super().create_proxy(*args, **kwargs)`",
    )


def test_two_tracers_share_nothing(lesson):
    first, second = lesson.ModulePathTracer(), lesson.ModulePathTracer()
    first.trace(Scaled(nn.ReLU()))
    graph = second.trace(Scaled(nn.ReLU()))
    shared = first.node_to_originating_module is second.node_to_originating_module
    holds(
        not any(node in first.node_to_originating_module for node in graph.nodes),
        "each tracer to know only the nodes of its own trace",
        cause=(shared, "the dictionary belongs to the class, so all tracers write to it"),
        hint="create it in `__init__`",
    )


def test_a_model_that_catches_an_error_keeps_its_paths(lesson):
    found = traced_paths(lesson, zoo.Survives())
    skipped = (is_value("child"), "an exception skipped the line that restores the path")
    equal(found["exp"], "", cause=skipped, hint="restore it in a `finally`")


def test_one_tracer_can_trace_twice(lesson):
    tracer = lesson.ModulePathTracer()
    tracer.trace(Scaled(nn.ReLU()))
    found = paths(tracer, tracer.trace(nn.Sequential(nn.Sequential(nn.Tanh()))))
    equal([found["input_1"], found["_0_0"]], ["", "0.0"])


def test_resnet18_has_the_paths_of_the_table(lesson):
    table = dict(map(str.split, TABLE.read_text().splitlines()))
    found = traced_paths(lesson, zoo.skeleton("resnet18"))
    equal(list(found), list(table))
    for name, path in found.items():
        equal(f"{name}: {path!r}", f"{name}: {table[name]}")
