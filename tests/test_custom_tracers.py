"""``custom_tracers``: subclasses that change one decision, beside plain tracers and the table."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Proxy
from torch.nn import functional as F

from tests import zoo
from tests.suite import equal, holds, refuses, same_graph, same_numbers

TABLE = Path(__file__).parent / "data" / "resnet18_modules.txt"


def table() -> list[tuple[str, str | None]]:
    """The node names of ResNet18 and the paths of the modules they come from."""
    lines = TABLE.read_text().splitlines()
    return [(name, ast.literal_eval(path)) for name, path in map(str.split, lines)]


def paths(tracer: object, graph: Graph) -> dict[str, str | None]:
    """The path noted for each node, by the node's name."""
    return {node.name: tracer.node_to_originating_module.get(node) for node in graph.nodes}


def traced_paths(lesson, model: nn.Module) -> dict[str, str | None]:
    tracer = lesson.ModulePathTracer()
    return paths(tracer, tracer.trace(model))


def plain(model: object) -> Graph:
    return torch.fx.Tracer().trace(model)


class Scaled(nn.Module):
    """An operation before and one after a call of its child."""

    def __init__(self, child: nn.Module):
        super().__init__()
        self.child = child
        self.weight = nn.Parameter(torch.rand(4))

    def forward(self, x):
        return torch.neg(self.child(torch.exp(x)) * self.weight)


class Fails(nn.Module):
    def forward(self, x):
        raise LookupError("on purpose")


class Survives(nn.Module):
    """Goes on after its child has failed."""

    def __init__(self):
        super().__init__()
        self.child = Fails()

    def forward(self, x):
        try:
            x = self.child(x)
        except LookupError:
            x = torch.exp(x)
        return x


# --- ModulePathTracer ---------------------------------------------------------------------------

PATHS = "`call_module` doesn't set the current path, or sets it too early or too late"
PATHS_HINT = "set it before the call, put the caller's path back after it"


def test_resnet18_has_the_paths_of_the_table(lesson):
    tracer = lesson.ModulePathTracer()
    found = paths(tracer, tracer.trace(zoo.skeleton("resnet18")))
    for (name, path), (our_name, our_path) in zip(table(), found.items(), strict=True):
        equal(f"{our_name}: {our_path!r}", f"{name}: {path!r}", cause=PATHS, hint=PATHS_HINT)


@pytest.mark.parametrize("name", zoo.SMALL)
def test_noting_paths_leaves_the_graph_as_it_is(lesson, name):
    same_graph(
        lesson.ModulePathTracer().trace(zoo.SMALL[name]().model),
        plain(zoo.SMALL[name]().model),
        meta=("nn_module_stack",),
        cause="an overridden method doesn't pass on all that it gets, or returns something else",
        hint="delegate with every argument: `super().create_proxy(*args, **kwargs)`",
    )


def test_an_operation_after_a_call_belongs_to_the_caller_again(lesson):
    found = traced_paths(lesson, Scaled(Scaled(nn.ReLU())))
    equal(
        [found["exp"], found["exp_1"], found["child_child"], found["neg"], found["neg_1"]],
        ["", "child", "child.child", "child", ""],
        cause="the path is not put back after a call, or put back to the root's",
        hint="remember the path before the call, and restore that one after it",
    )


def test_a_parameter_that_is_read_belongs_to_the_module_that_reads_it(lesson):
    found = traced_paths(lesson, Scaled(Scaled(nn.ReLU())))
    equal(found["child_weight"], "child", cause=PATHS, hint="note it in `create_proxy`")


def test_placeholders_belong_to_the_root_and_the_output_to_nobody(lesson):
    found = traced_paths(lesson, Scaled(nn.ReLU()))
    equal(
        (found["x"], found["output"]),
        ("", None),
        cause="the output isn't created by `create_proxy`, and has no path",
        hint="note the path where proxies are created, not where nodes are",
    )


def test_functions_between_modules_belong_to_the_root(lesson):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)).tanh())

    found = traced_paths(lesson, Model())
    equal((found["relu"], found["tanh"]), ("", ""), cause=PATHS, hint=PATHS_HINT)


def test_a_shared_module_has_its_first_name_at_each_call(lesson):
    shared = Scaled(nn.ReLU())
    found = traced_paths(lesson, nn.Sequential(shared, nn.Sequential(shared)))
    equal(
        (found["exp"], found["exp_1"]),
        ("0", "0"),
        cause="the path is built from attribute names on the way",
        hint="ask `path_of_module`: it knows the first name",
    )


def test_two_tracers_share_nothing(lesson):
    first, second = lesson.ModulePathTracer(), lesson.ModulePathTracer()
    graph, other = first.trace(Scaled(nn.ReLU())), second.trace(Scaled(nn.ReLU()))
    holds(
        not any(node in second.node_to_originating_module for node in graph.nodes)
        and not any(node in first.node_to_originating_module for node in other.nodes),
        "each tracer to know the nodes of its own trace alone",
        cause="the dictionary belongs to the class: every instance writes into the same one",
        hint="create it in `__init__`",
    )


def test_a_tracer_without_a_trace_knows_no_nodes(lesson):
    lesson.ModulePathTracer().trace(Scaled(nn.ReLU()))
    equal(
        lesson.ModulePathTracer().node_to_originating_module,
        {},
        cause="the dictionary belongs to the class, and keeps what an earlier tracer wrote",
        hint="create it in `__init__`",
    )


def test_the_path_is_put_back_when_a_forward_fails(lesson):
    tracer = lesson.ModulePathTracer()
    with refuses(LookupError, "on purpose", cause="the model's own error must come through"):
        tracer.trace(nn.Sequential(Fails()))
    equal(
        tracer.current_module_qualified_name,
        "",
        cause="an exception skipped the line that puts the path back",
        hint="put it back in a `finally`",
    )


def test_a_model_that_survives_a_failure_keeps_its_paths(lesson):
    found = traced_paths(lesson, Survives())
    equal(
        found["exp"],
        "",
        cause="an exception skipped the line that puts the path back",
        hint="put it back in a `finally`",
    )


def test_one_tracer_can_trace_twice(lesson):
    tracer = lesson.ModulePathTracer()
    tracer.trace(Scaled(nn.ReLU()))
    found = paths(tracer, tracer.trace(nn.Sequential(nn.Sequential(nn.Tanh()))))
    equal(found["_0_0"], "0.0", cause="something of the first trace is left", hint=PATHS_HINT)


@pytest.mark.stretch
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
        cause="`__init__` doesn't pass on the options it gets",
        hint="`super().__init__(**options)`",
    )
    same_graph(
        tracer.trace(Shaped()),
        torch.fx.Tracer(param_shapes_constant=True).trace(Shaped()),
        cause="`create_proxy` doesn't pass on all that it gets",
        hint="torch looks for `proxy_factory_fn` in the signature: name all seven parameters",
    )


class Remembers(Proxy):
    """A proxy of another kind."""


@pytest.mark.stretch
def test_a_node_has_the_name_type_and_proxy_that_were_asked_for(lesson):
    tracer = lesson.ModulePathTracer()
    tracer.graph = Graph()
    proxy = tracer.create_proxy("placeholder", "x", (), {}, "chosen", int, Remembers)
    equal(
        (proxy.node.name, proxy.node.type, type(proxy)),
        ("chosen", int, Remembers),
        cause="`create_proxy` doesn't pass on all that it gets",
        hint="`super().create_proxy` takes seven arguments",
    )


# --- LowerReluTracer and LowerTracer --------------------------------------------------------------

LEAF = "`is_leaf_module` answers for other modules too, or not for this one"
LEAF_HINT = "say no for the given types, and ask `super().is_leaf_module` for the rest"


@pytest.mark.parametrize("inplace", [False, True])
def test_relu_becomes_the_function_that_it_calls(lesson, inplace):
    graph = lesson.LowerReluTracer().trace(nn.Sequential(nn.ReLU(inplace)))
    relu = next(node for node in graph.nodes if node.name == "relu")
    equal((relu.op, relu.target), ("call_function", F.relu), cause=LEAF, hint=LEAF_HINT)
    equal(dict(relu.kwargs), {"inplace": inplace}, cause="relu isn't called by its module")


def test_subclasses_of_relu_are_looked_into_too(lesson):
    class Leaky(nn.ReLU):
        def forward(self, x):
            return F.leaky_relu(x, 0.1)

    Leaky.__module__ = "torch.nn.mine"
    graph = lesson.LowerReluTracer().trace(nn.Sequential(Leaky()))
    equal(
        [node.op for node in graph.nodes],
        ["placeholder", "call_function", "output"],
        cause="the type is compared, so that a subclass isn't found",
        hint="`isinstance` knows subclasses",
    )


def test_other_modules_are_recorded_as_before(lesson):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU6(), nn.Sequential(nn.Sigmoid()), nn.ReLU())
    graph = lesson.LowerReluTracer().trace(model)
    equal(
        [node.target for node in graph.nodes if node.op == "call_module"],
        ["0", "1", "2.0"],
        cause=LEAF,
        hint=LEAF_HINT,
    )


def has_relu(model: nn.Module) -> bool:
    return any(isinstance(module, nn.ReLU) for module in model.modules())


WITHOUT_RELU = [name for name, build in zoo.SMALL.items() if not has_relu(build().model)]


@pytest.mark.parametrize("name", WITHOUT_RELU)
def test_a_model_without_relu_gives_the_same_graph(lesson, name):
    graph = lesson.LowerReluTracer().trace(zoo.SMALL[name]().model)
    same_graph(graph, plain(zoo.SMALL[name]().model), cause=LEAF, hint=LEAF_HINT)


def test_resnet18_without_relu_modules_computes_the_same(lesson):
    specimen = zoo.resnet18()
    graph = lesson.LowerReluTracer().trace(specimen.model)
    called = [node for node in graph.nodes if node.op == "call_function" and node.target is F.relu]
    equal(len(called), 17, cause=LEAF, hint=LEAF_HINT)
    same_numbers(GraphModule(specimen.model, graph)(*specimen.inputs), specimen.eager())


def test_the_caller_chooses_the_types(lesson):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sigmoid())
    graph = lesson.LowerTracer(nn.Linear, nn.Sigmoid).trace(model)
    equal(
        [node.name for node in graph.nodes],
        ["input_1", "_0_weight", "_0_bias", "linear", "_1", "sigmoid", "output"],
        cause="the types given aren't the ones that are looked into",
        hint="keep them in `__init__`; `isinstance` takes a tuple of types",
    )


def test_no_types_means_a_plain_tracer(lesson):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    same_graph(lesson.LowerTracer().trace(model), plain(model), cause=LEAF, hint=LEAF_HINT)


def test_two_lowering_tracers_keep_their_own_types(lesson):
    tracer, other = lesson.LowerTracer(nn.ReLU), lesson.LowerTracer(nn.Tanh)
    other.trace(nn.Sequential(nn.Tanh()))
    graph = tracer.trace(nn.Sequential(nn.ReLU(), nn.Tanh()))
    equal(
        [node.op for node in graph.nodes][1:-1],
        ["call_function", "call_module"],
        cause="the types belong to the class",
        hint="keep them on the instance, in `__init__`",
    )


@pytest.mark.stretch
@pytest.mark.parametrize("name", ["LowerReluTracer", "LowerTracer", "TaggingTracer"])
def test_options_of_a_plain_tracer_are_taken_too(lesson, name):
    tracer = getattr(lesson, name)(param_shapes_constant=True)
    equal(
        tracer.param_shapes_constant,
        True,
        cause="`__init__` doesn't pass on the options it gets",
        hint="`super().__init__(**options)`",
    )


@pytest.mark.stretch
def test_another_rule_for_leaves_is_asked_with_the_path(lesson):
    class FirstIsALeaf(lesson.LowerTracer.__mro__[1]):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return module_qualified_name == "0"

    class Both(lesson.LowerTracer, FirstIsALeaf):
        pass

    graph = Both(nn.ReLU).trace(nn.Sequential(nn.Tanh(), nn.Sigmoid(), nn.ReLU()))
    equal(
        [node.op for node in graph.nodes][1:-1],
        ["call_module", "call_function", "call_function"],
        cause="the next class's rule isn't asked, or not with all that it needs",
        hint="`super().is_leaf_module(m, module_qualified_name)`",
    )


# --- TaggingTracer --------------------------------------------------------------------------------

TAGS = "the tag is put on where proxies are created: other nodes are created without"
TAGS_HINT = "every node passes through `create_node`"


def untagged(graph: Graph, tag: object) -> list[str]:
    return [node.name for node in graph.nodes if getattr(node, "tag", None) != tag]


@pytest.mark.parametrize("name", zoo.SMALL)
def test_every_node_has_the_tag(lesson, name):
    graph = lesson.TaggingTracer().trace(zoo.SMALL[name]().model)
    equal(untagged(graph, "foo"), [], cause=TAGS, hint=TAGS_HINT)


@pytest.mark.parametrize("name", zoo.SMALL)
def test_tagging_leaves_the_graph_as_it_is(lesson, name):
    same_graph(
        lesson.TaggingTracer().trace(zoo.SMALL[name]().model),
        plain(zoo.SMALL[name]().model),
        cause="`create_node` doesn't pass on its last arguments, the name and the annotation",
        hint="delegate with every argument, then put the tag on the node",
    )


def test_annotations_are_kept(lesson):
    class Annotated(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    graph = lesson.TaggingTracer().trace(Annotated())
    equal(
        [node.type for node in graph.nodes],
        [node.type for node in plain(Annotated()).nodes],
        cause="`create_node` drops `type_expr`",
        hint="pass on all that you get",
    )


def test_the_tag_can_be_chosen(lesson):
    graph = lesson.TaggingTracer(tag="encoder").trace(Scaled(nn.ReLU()))
    equal(untagged(graph, "encoder"), [], cause="the tag is fixed", hint="keep it in `__init__`")


def test_two_taggers_keep_their_own_tags(lesson):
    one, other = lesson.TaggingTracer("one"), lesson.TaggingTracer("other")
    other.trace(Scaled(nn.ReLU()))
    equal(
        untagged(one.trace(Scaled(nn.ReLU())), "one"),
        [],
        cause="the tag belongs to the class",
        hint="keep it on the instance, in `__init__`",
    )


def test_tags_are_there_in_a_graph_module(lesson):
    model = Scaled(nn.ReLU())
    gm = GraphModule(model, lesson.TaggingTracer().trace(model))
    equal(untagged(gm.graph, "foo"), [], cause=TAGS, hint=TAGS_HINT)


@pytest.mark.stretch
def test_a_copy_of_the_graph_has_the_tags_in_its_metadata(lesson):
    graph = copy.deepcopy(lesson.TaggingTracer("kept").trace(Scaled(nn.ReLU())))
    equal(
        {node.meta.get("tag") for node in graph.nodes},
        {"kept"},
        cause="torch copies a node with its `meta`, and without other attributes",
        hint='put the tag into `node.meta["tag"]` too',
    )


# --- SourceLineTracer -----------------------------------------------------------------------------

LINE = "another frame of the stack was taken"
LINE_HINT = "walk outwards from `create_node`; skip torch's frames and those of the lessons"


def helper(x):
    return torch.exp(x)


HELPER_LINE = helper.__code__.co_firstlineno + 1


class Lines(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x):
        x = torch.neg(x)
        x = helper(x)
        return self.body(x).sin() + 1


FORWARD_LINE = Lines.forward.__code__.co_firstlineno


def source_lines(lesson) -> dict[str, object]:
    graph = lesson.SourceLineTracer().trace(Lines())
    return {node.name: node.meta.get("source_line") for node in graph.nodes}


@pytest.mark.stretch
def test_an_operation_has_the_line_that_asked_for_it(lesson):
    found = source_lines(lesson)
    equal(
        [(found[name].lineno, found[name].function) for name in ("neg", "sin", "add")],
        [
            (FORWARD_LINE + 1, "forward"),
            (FORWARD_LINE + 3, "forward"),
            (FORWARD_LINE + 3, "forward"),
        ],
        cause=LINE,
        hint=LINE_HINT,
    )
    equal(found["neg"].filename, __file__, cause=LINE, hint="`frame.f_code.co_filename`")


@pytest.mark.stretch
def test_the_innermost_line_of_yours_counts(lesson):
    line = source_lines(lesson)["exp"]
    equal((line.lineno, line.function), (HELPER_LINE, "helper"), cause=LINE, hint=LINE_HINT)


@pytest.mark.stretch
def test_what_a_container_of_torch_calls_has_the_line_that_called_the_container(lesson):
    found = source_lines(lesson)
    equal(
        [found["body_0"].lineno, found["body_1"].lineno],
        [FORWARD_LINE + 3] * 2,
        cause="a frame of torch's own containers was taken",
        hint=LINE_HINT,
    )


@pytest.mark.stretch
def test_the_input_and_the_output_have_no_line(lesson):
    found = source_lines(lesson)
    equal(
        (found["x"], found["output"]),
        (None, None),
        cause="the line that called `trace` was taken: it isn't part of the run",
        hint="stop at the frame of `trace`",
    )


@pytest.mark.stretch
def test_lines_are_copied_with_the_graph(lesson):
    graph = copy.deepcopy(lesson.SourceLineTracer().trace(Lines()))
    equal(
        [node.name for node in graph.nodes if "source_line" not in node.meta],
        ["x", "output"],
        cause="the line is kept outside `node.meta`",
        hint="torch copies a node with its `meta`",
    )


@pytest.mark.stretch
def test_noting_lines_leaves_the_graph_as_it_is(lesson):
    same_graph(lesson.SourceLineTracer().trace(Lines()), plain(Lines()))


@pytest.mark.stretch
def test_generated_code_has_lines_too(lesson):
    gm = GraphModule(Lines(), plain(Lines()))
    neg = next(node for node in lesson.SourceLineTracer().trace(gm).nodes if node.name == "neg")
    line = neg.meta.get("source_line")
    equal(
        line and line.function,
        "forward",
        cause="code that was made from text was passed over",
        hint="not all globals have a `__name__`",
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
}


@pytest.mark.stretch
@pytest.mark.parametrize("case", IN_PLACE)
def test_an_operation_in_place_is_refused(lesson, case):
    with refuses(
        lesson.InPlaceError,
        "node",
        cause=f"this form isn't recognised: {case}",
        hint="look at the name, at `inplace` and `out`, at the module, at the schema",
    ):
        lesson.OutOfPlaceTracer().trace(IN_PLACE[case])


@pytest.mark.stretch
def test_the_refusal_names_the_node(lesson):
    with refuses(
        lesson.InPlaceError,
        "relu__1",
        cause="the error doesn't say where in the graph it happened",
        hint="create the node first: then it has its name",
    ):
        lesson.OutOfPlaceTracer().trace(lambda relu_: relu_.relu_())


@pytest.mark.stretch
def test_the_refusal_names_the_target(lesson):
    model = nn.Sequential(nn.Sequential(nn.ReLU(inplace=True)))
    with refuses(lesson.InPlaceError, "_0_0", "0.0", cause="the error doesn't say what was called"):
        lesson.OutOfPlaceTracer().trace(model)


@pytest.mark.stretch
@pytest.mark.parametrize("name", ["setitem", "delitem", "iadd", "imul", "imod", "ipow", "irshift"])
def test_an_augmented_operator_that_was_wrapped_is_refused(lesson, name):
    augmented = getattr(operator, name)
    arguments = [0, 1][: 1 + (name == "setitem")]
    tracer = lesson.OutOfPlaceTracer(autowrap_modules=(operator,))
    with refuses(lesson.InPlaceError, name, cause="the function has no underscore in its name"):
        tracer.trace(lambda x: getattr(operator, name)(x, *arguments))
    holds(getattr(operator, name) is augmented, "`operator` as before", cause="still patched")


@pytest.mark.stretch
@pytest.mark.parametrize("case", OUT_OF_PLACE)
def test_an_operation_out_of_place_is_recorded(lesson, case):
    model = OUT_OF_PLACE[case]
    same_graph(
        lesson.OutOfPlaceTracer().trace(model),
        plain(model),
        cause=f"this was taken for an operation in place: {case}",
        hint="two underscores at the end are no sign of working in place",
    )


@pytest.mark.stretch
def test_a_refusal_leaves_nothing_patched(lesson):
    with refuses(lesson.InPlaceError):
        lesson.OutOfPlaceTracer().trace(lambda x: x.add_(1))
    same_numbers(nn.ReLU()(torch.ones(1)), torch.ones(1), cause="`nn.Module` is still patched")


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.stretch
@pytest.mark.parametrize("name", ["TaggingTracer", "SourceLineTracer", "OutOfPlaceTracer"])
def test_arguments_by_name_reach_the_node(lesson, name):
    tracer = getattr(lesson, name)()
    tracer.graph = Graph()
    node = tracer.create_node("placeholder", "x", (), kwargs={}, name="chosen", type_expr=int)
    equal(
        (node.name, node.type),
        ("chosen", int),
        cause="`create_node` passes on what comes by position alone",
        hint="`super().create_node(*args, **kwargs)`",
    )


@pytest.mark.stretch
def test_a_star_import_brings_every_tracer(lesson):
    namespace: dict[str, object] = {}
    exec(f"from {lesson.__name__} import *", namespace)
    tracers = [value for name, value in namespace.items() if name.endswith("Tracer")]
    holds(
        {"InPlaceError", "SourceLine"} <= set(namespace) and len(tracers) >= 6,
        "six tracers, `InPlaceError` and `SourceLine`",
        got=sorted(namespace),
        cause="`__all__` doesn't list all public names",
    )
    equal(len(namespace["TaggingTracer"]().trace(lambda x: x).nodes), 2)
