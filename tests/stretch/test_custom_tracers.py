"""``custom_tracers``, the rest: options, copies, other types, lines of code, nothing in place."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule, Proxy
from torch.nn import functional as F

from tests.models.custom_tracers import (
    FORWARD_LINE,
    HELPER_LINE,
    Lines,
    Scaled,
    Survives,
    plain,
    source_lines,
    traced_paths,
)
from tests.suite import equal, holds, is_value, noting, refuses, same_graph, same_numbers

# --- the core's tracers ---------------------------------------------------------------------------


def test_the_tracers_own_options_still_work(lesson):
    class Shaped(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(2))

        def forward(self, x):
            return x + (1 if self.weight.dim() == 1 else 2)

    tracer = lesson.ModulePathTracer(param_shapes_constant=True)
    equal(
        tracer.param_shapes_constant,
        True,
        cause=(is_value(False), "`__init__` doesn't pass on the options it gets"),
    )
    same_graph(tracer.trace(Shaped()), torch.fx.Tracer(param_shapes_constant=True).trace(Shaped()))


class Remembers(Proxy):
    """A proxy of another kind."""


def test_a_node_has_the_name_type_and_proxy_that_were_asked_for(lesson):
    tracer = lesson.ModulePathTracer()
    tracer.graph = Graph()
    proxy = tracer.create_proxy("placeholder", "x", (), {}, "chosen", int, Remembers)
    equal((proxy.node.name, proxy.node.type, type(proxy)), ("chosen", int, Remembers))


@pytest.mark.parametrize("name", ["LowerReluTracer", "LowerTracer", "TaggingTracer"])
def test_options_of_a_plain_tracer_are_taken_too(lesson, name):
    tracer = getattr(lesson, name)(param_shapes_constant=True)
    tracer.trace(nn.Sequential(nn.ReLU()))
    equal(
        tracer.param_shapes_constant,
        True,
        cause=(is_value(False), "`__init__` doesn't pass on the options it gets"),
    )


def test_a_copy_of_the_graph_has_the_tags_in_its_metadata(lesson):
    graph = copy.deepcopy(lesson.TaggingTracer("kept").trace(Scaled(nn.ReLU())))
    equal(
        {node.meta.get("tag") for node in graph.nodes},
        {"kept"},
        cause=(is_value({None}), "torch copies a node with its `meta`, and no other attribute"),
    )


@pytest.mark.beyond(
    "`call_module` takes a module off its stack only after a call that succeeded; when the "
    "caller ends, an assertion finds the wrong module there"
)
def test_a_module_that_survives_a_failure_is_the_current_one_again(lesson):
    found = traced_paths(lesson, nn.Sequential(Survives()))
    equal(
        found["exp"],
        "0",
        cause=[
            (is_value(""), "the path is put back to the root's"),
            (is_value("0.child"), "an error skips the lines that put the path back"),
        ],
    )


# --- LowerTracer ----------------------------------------------------------------------------------

LEAF_HINT = "say no for the given types, and ask `super().is_leaf_module` for the rest"


def test_the_caller_chooses_the_types(lesson):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sigmoid())
    graph = lesson.LowerTracer(nn.Linear, nn.Sigmoid).trace(model)
    equal(
        [node.name for node in graph.nodes],
        ["input_1", "_0_weight", "_0_bias", "linear", "_1", "sigmoid", "output"],
    )


def test_no_types_means_a_plain_tracer(lesson):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    same_graph(lesson.LowerTracer().trace(model), plain(model))


def test_two_lowering_tracers_keep_their_own_types(lesson):
    tracer, other = lesson.LowerTracer(nn.ReLU), lesson.LowerTracer(nn.Tanh)
    other.trace(nn.Sequential(nn.Tanh()))
    graph = tracer.trace(nn.Sequential(nn.ReLU(), nn.Tanh()))
    equal(
        [node.op for node in graph.nodes][1:-1],
        ["call_function", "call_module"],
        cause=(is_value(["call_module", "call_function"]), "the types belong to the class"),
    )


def test_another_rule_for_leaves_is_asked_with_the_path(lesson):
    class FirstIsALeaf(lesson.LowerTracer.__mro__[1]):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return module_qualified_name == "0"

    class Both(lesson.LowerTracer, FirstIsALeaf):
        pass

    graph = Both(nn.ReLU).trace(nn.Sequential(nn.Tanh(), nn.Sigmoid(), nn.ReLU()))
    equal(
        [node.op for node in graph.nodes][1:-1], ["call_module", "call_function", "call_function"]
    )


# --- SourceLineTracer -----------------------------------------------------------------------------

LINE = (lambda lines: None not in lines, "another frame of the stack was taken")
LINE_HINT = "walk outwards from `create_node`; skip torch's frames and those of the lessons"


def test_an_operation_has_the_line_that_asked_for_it(lesson):
    found = source_lines(lesson)
    equal(
        [found[name] for name in ("neg", "sin", "add")],
        [(FORWARD_LINE + line, "forward") for line in (1, 3, 3)],
        cause=LINE,
    )


def test_a_line_has_the_name_of_its_file(lesson):
    graph = lesson.SourceLineTracer().trace(Lines())
    line = next(node for node in graph.nodes if node.name == "neg").meta["source_line"]
    equal(line.filename, Lines.forward.__code__.co_filename)


def test_the_innermost_line_of_yours_counts(lesson):
    found = source_lines(lesson)
    equal([found["exp"]], [(HELPER_LINE, "helper")], cause=LINE)


def test_what_a_container_of_torch_calls_has_the_line_that_called_the_container(lesson):
    found = source_lines(lesson)
    equal([found["body_0"], found["body_1"]], [(FORWARD_LINE + 3, "forward")] * 2)


def test_the_input_and_the_output_have_no_line(lesson):
    found = source_lines(lesson)
    equal(
        (found["x"], found["output"]),
        (None, None),
        cause=(
            lambda lines: lines[0][1] == "source_lines",
            "the line that called `trace` was taken: it isn't part of the run",
        ),
    )


def test_lines_are_copied_with_the_graph(lesson):
    graph = copy.deepcopy(lesson.SourceLineTracer().trace(Lines()))
    equal([node.name for node in graph.nodes if "source_line" not in node.meta], ["x", "output"])


def test_noting_lines_leaves_the_graph_as_it_is(lesson):
    same_graph(lesson.SourceLineTracer().trace(Lines()), plain(Lines()))


def test_generated_code_has_lines_too(lesson):
    gm = GraphModule(Lines(), plain(Lines()))
    neg = next(node for node in lesson.SourceLineTracer().trace(gm).nodes if node.name == "neg")
    line = neg.meta.get("source_line")
    equal(
        line and line.function,
        "forward",
        cause=(lambda function: function is None, "code that was made from text was passed over"),
    )


# --- OutOfPlaceTracer -----------------------------------------------------------------------------

IN_PLACE: dict[str, Callable] = {
    "method": lambda x: x.add_(1),
    "function": lambda x: torch.relu_(x),
    "functional with inplace": lambda x: F.relu(x, inplace=True),
    "module with inplace": nn.Sequential(nn.ReLU(inplace=True)),
    "out argument": lambda x: torch.add(x, 1, out=x),
    "operator overload": lambda x: torch.ops.aten.add_.Tensor(x, 1),
}
OUT_OF_PLACE: dict[str, Callable] = {
    "method": lambda x: x.add(1),
    "functional without inplace": lambda x: F.relu(x, inplace=False),
    "module without inplace": nn.Sequential(nn.ReLU(), nn.Linear(2, 2)),
    "augmented assignment, which makes a new tensor": lambda x: [x := x + 1, x][1],
    "operator overload": lambda x: torch.ops.aten.add.Tensor(x, 1),
    "dunder method": lambda x: x.__dlpack__(),
    "operator whose name begins with i": lambda x: ~x,
}


@pytest.mark.parametrize("case", IN_PLACE)
def test_an_operation_in_place_is_refused(lesson, case):
    with refuses(lesson.InPlaceError, "node", cause=f"this form isn't recognised: {case}"):
        lesson.OutOfPlaceTracer().trace(IN_PLACE[case])


def test_the_refusal_names_the_node(lesson):
    with refuses(
        lesson.InPlaceError, "relu__1", cause="the error doesn't say where in the graph it happened"
    ):
        lesson.OutOfPlaceTracer().trace(lambda relu_: relu_.relu_())


def test_the_refusal_names_the_target(lesson):
    model = nn.Sequential(nn.Sequential(nn.ReLU(inplace=True)))
    with refuses(lesson.InPlaceError, "_0_0", "0.0", cause="the error doesn't say what was called"):
        lesson.OutOfPlaceTracer().trace(model)


@pytest.mark.parametrize("name", ["setitem", "delitem", "iadd", "imul", "imod", "ipow", "irshift"])
def test_an_augmented_operator_that_was_wrapped_is_refused(lesson, name):
    augmented = getattr(operator, name)
    arguments = [0, 1][: 1 + (name == "setitem")]
    tracer = lesson.OutOfPlaceTracer(autowrap_modules=(operator,))
    with refuses(lesson.InPlaceError, name, cause="the function has no underscore in its name"):
        tracer.trace(lambda x: getattr(operator, name)(x, *arguments))
    holds(getattr(operator, name) is augmented, "`operator` as before")


@pytest.mark.parametrize("case", OUT_OF_PLACE)
def test_an_operation_out_of_place_is_recorded(lesson, case):
    model = OUT_OF_PLACE[case]
    cause = f"this was taken for an operation in place: {case}"
    with noting(cause=cause, on=(lesson.InPlaceError,)):
        graph = lesson.OutOfPlaceTracer().trace(model)
    same_graph(graph, plain(model))


def test_a_refusal_leaves_nothing_patched(lesson):
    with refuses(lesson.InPlaceError):
        lesson.OutOfPlaceTracer().trace(lambda x: x.add_(1))
    same_numbers(nn.ReLU()(torch.ones(1)), torch.ones(1))


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["TaggingTracer", "SourceLineTracer", "OutOfPlaceTracer"])
def test_arguments_by_name_reach_the_node(lesson, name):
    tracer = getattr(lesson, name)()
    tracer.graph = Graph()
    node = tracer.create_node("placeholder", "x", (), kwargs={}, name="chosen", type_expr=int)
    equal((node.name, node.type), ("chosen", int))


@pytest.mark.unasked
def test_a_star_import_brings_every_tracer(lesson):
    namespace: dict[str, object] = {}
    exec(f"from {lesson.__name__} import *", namespace)
    tracers = [value for name, value in namespace.items() if name.endswith("Tracer")]
    holds(
        {"InPlaceError", "SourceLine"} <= set(namespace) and len(tracers) >= 6,
        "six tracers, `InPlaceError` and `SourceLine`",
        got=sorted(namespace),
    )
    equal(len(namespace["TaggingTracer"]().trace(lambda x: x).nodes), 2)
