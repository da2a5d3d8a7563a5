"""Cutting a graph into a pipeline: each step alone, then the whole beside torch's own."""

import itertools
import operator
import random
import warnings
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.distributed.pipelining import SplitPoint, pipeline
from torch.fx import Graph, GraphModule, Node, symbolic_trace
from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.split_module import split_module as torch_split_module

from kata.torchvision_compat import torchvision
from tests import random_models
from tests.suite import (
    asking_more,
    equal,
    growth,
    holds,
    refuses,
    rows,
    same_graph,
    same_numbers,
    star_import,
)

LINEAR = 2.5
TUPLE_RETURN = pytest.mark.since("2.12", "split_module takes tuple_return")
SEED_CODE = """\
def forward(self, x, y):
    param = self.param
    submod_0 = self.submod_0(x, param, y);  x = param = y = None
    getitem = submod_0[0]
    getitem_1 = submod_0[1];  submod_0 = None
    submod_1 = self.submod_1(getitem, getitem_1);  getitem = getitem_1 = None
    getitem_2 = submod_1[0]
    getitem_3 = submod_1[1];  submod_1 = None
    submod_2 = self.submod_2(getitem_2, getitem_3);  getitem_2 = getitem_3 = None
    return submod_2"""


class TwoBranches(nn.Module):
    """The lesson's first model: a parameter, a module used twice, keyword arguments."""

    def __init__(self):
        super().__init__()
        self.param = nn.Parameter(torch.rand(3, 4))
        self.linear = nn.Linear(4, 5)

    def forward(self, x, y):
        z = self.linear(x + self.param).clamp(min=0.0, max=1.0)
        w = self.linear(y).clamp(min=0.0, max=1.0)
        return z + w


class Chain(nn.Module):
    """Three calls in a row, the module two levels down."""

    def __init__(self):
        super().__init__()
        self.outer = nn.Sequential(nn.Sequential(nn.Linear(3, 3)))

    def forward(self, x):
        return torch.relu(self.outer(torch.tanh(x)))


def trace(function_or_module):
    return symbolic_trace(function_or_module)


def calls(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op.startswith("call_")]


def named(graph: Graph) -> dict[str, Node]:
    return {node.name: node for node in graph.nodes}


def numbered(**numbers):
    """A callback that knows the partition of each node by its name."""
    return lambda node: numbers[node.name]


def in_stages(gm: GraphModule, stages: int):
    """A callback that cuts the calls of a graph into equal stretches."""
    nodes = calls(gm.graph)
    numbers = {node: at * stages // len(nodes) for at, node in enumerate(nodes)}
    return numbers.__getitem__


def submodules(split: GraphModule) -> dict[str, GraphModule]:
    names = [node.target for node in split.graph.nodes if node.op == "call_module"]
    return {name: split.get_submodule(name) for name in names}


def same_submodules(ours: GraphModule, theirs: GraphModule, *, meta=(), hint="") -> None:
    """The same graph in every submodule, in whatever order they are called."""
    equal(sorted(submodules(ours)), sorted(submodules(theirs)), cause="other partitions", hint=hint)
    for name, submodule in submodules(theirs).items():
        same_graph(ours.get_submodule(name).graph, submodule.graph, meta=meta, hint=hint)


def same_split(ours: GraphModule, theirs: GraphModule, *, meta=(), hint="") -> None:
    """The same outer graph as torch's as well."""
    same_graph(ours.graph, theirs.graph, meta=meta, hint=hint)
    same_submodules(ours, theirs, meta=meta, hint=hint)


def targets_of(gm: GraphModule) -> list[tuple[str, object]]:
    return [(node.op, node.target) for node in gm.graph.nodes]


# Step 1: assign


def test_each_call_goes_to_the_partition_that_the_callback_names(lesson):
    graph = trace(Chain()).graph
    partitions = lesson.assign_nodes(graph, numbered(tanh=0, outer_0_0=1, relu=0))
    equal(
        {partition.name: partition.node_names for partition in partitions},
        {"0": ["tanh", "relu"], "1": ["outer_0_0"]},
        cause="a node was put elsewhere than the callback said",
        hint="append each node to the partition of the callback's answer",
    )


def test_the_callback_is_asked_about_calls_only(lesson):
    graph, asked = trace(TwoBranches()).graph, []
    lesson.assign_nodes(graph, lambda node: asked.append(node.op) or 0)
    holds(
        not {"placeholder", "get_attr", "output"} & set(asked),
        "no question about placeholders, get_attr nodes and the output",
        got=asked,
        cause="every node of the graph was given to the callback",
        hint="skip what computes nothing: it is brought in where it is used",
    )


def test_the_callback_is_asked_once_about_each_call(lesson):
    graph, asked = trace(TwoBranches()).graph, Counter()
    lesson.assign_nodes(graph, lambda node: asked.update([node.name]) or 0)
    equal(
        dict(asked),
        {node.name: 1 for node in calls(graph)},
        cause="the callback was asked again where its answer was needed again, or not at all",
        hint="ask once, keep the answer: a callback may count its questions",
    )


def test_partitions_come_in_the_order_in_which_the_graph_reaches_them(lesson):
    graph = trace(Chain()).graph
    partitions = lesson.assign_nodes(graph, numbered(tanh=7, outer_0_0=3, relu=5))
    equal(
        [partition.submod_name for partition in partitions],
        ["submod_7", "submod_3", "submod_5"],
        cause="the partitions were sorted by number, numbered afresh, or kept from another call",
        hint="leave them as they come: a dict keeps the order of first use",
    )


def test_a_partition_keeps_the_answer_itself(lesson):
    graph = trace(Chain()).graph
    partitions = lesson.assign_nodes(graph, lambda node: 10 - len(node.name))
    equal(
        [(partition.name, partition.number) for partition in partitions],
        [("6", 6), ("1", 1)],
        cause="the number was dropped, or turned into text",
        hint="Partition takes the name (text) and the number (as it came)",
    )


@pytest.mark.stretch
@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([0, "0", 0], ["0"]),
        ([1, True, 1.0], ["1", "True", "1.0"]),
        ([None, "a", None], ["None", "a"]),
    ],
    ids=["text", "number", "word"],
)
def test_answers_are_the_same_if_their_text_is_the_same(lesson, answers, expected):
    deal = iter(answers)
    partitions = lesson.assign_nodes(trace(Chain()).graph, lambda node: next(deal))
    equal(
        [partition.name for partition in partitions],
        expected,
        cause="the answers themselves were compared, or not every answer was taken",
        hint="the text of the answer is the key: submodules are told apart by their names",
    )


@pytest.mark.stretch
@pytest.mark.parametrize("affix", ["pp", ""])
def test_an_affix_goes_before_the_number(lesson, affix):
    partitions = lesson.assign_nodes(trace(Chain()).graph, lambda node: 0, affix)
    equal(
        [partition.submod_name for partition in partitions],
        [f"submod_{affix}_0"],
        cause="the affix is missing from the name",
        hint="the name is the affix, an underscore, the number",
    )


# Step 2: collect the crossings


def crossed(lesson, m: GraphModule, *groups: str):
    """Partitions 0, 1, ... of the calls named, with their crossings collected."""
    nodes = named(m.graph)
    partitions = [
        lesson.Partition(str(number), nodes=[nodes[name] for name in group.split()])
        for number, group in enumerate(groups)
    ]
    lesson.collect_crossings(m, partitions)
    return partitions


def names(nodes) -> list[str]:
    return [node.name for node in nodes]


def test_a_value_used_elsewhere_is_an_output_here_and_an_input_there(lesson):
    first, second = crossed(lesson, trace(Chain()), "tanh outer_0_0", "relu")
    equal(
        (names(first.outputs), names(second.inputs)),
        (["outer_0_0"], ["outer_0_0"]),
        cause="one end of the crossing was forgotten, or a value was passed that stays inside",
        hint="record both ends at once, wherever maker and user differ",
    )


def test_an_input_knows_the_partition_that_makes_it(lesson):
    first, second = crossed(lesson, trace(Chain()), "tanh outer_0_0", "relu")
    holds(
        list(second.inputs.values()) == [first] and list(second.dependencies) == ["0"],
        "submod_1 to depend on submod_0",
        got=second.inputs,
        cause="the input was recorded without its maker",
        hint="inputs maps each value to the partition that makes it",
    )


def test_an_output_knows_every_partition_that_uses_it_and_no_other_user(lesson):
    def shared(x):
        once = x + 1
        return once.relu(), once.tanh(), once

    first, *_ = crossed(lesson, trace(shared), "add", "relu", "tanh")
    equal(
        [[user and user.name for user in users] for users in first.outputs.values()],
        [["1", "2"]],
        cause="a partition that takes the value is missing, or the graph's output was listed",
        hint="append each partition that takes the value; the output is no partition",
    )


def test_an_output_knows_the_partitions_that_use_it(lesson):
    m = trace(lambda x: (x + 1).relu() * (x - 1))
    first, second, third = crossed(lesson, m, "add", "relu sub", "mul")
    equal(
        (list(first.dependents), list(second.dependents), list(third.dependents)),
        (["1"], ["2"], []),
        cause="the users of an output were not recorded",
        hint="outputs maps each value to the list of partitions that use it",
    )


def test_a_placeholder_is_an_input_that_nobody_makes(lesson):
    first, _ = crossed(lesson, trace(Chain()), "tanh outer_0_0", "relu")
    equal(
        {value.name: maker for value, maker in first.inputs.items()},
        {"x": None},
        cause="the model's own input is not passed on to the partition that needs it",
        hint="placeholders and parameters live in no partition: their maker is None",
    )


def test_a_parameter_is_an_input(lesson):
    m = trace(TwoBranches())
    (only,) = crossed(lesson, m, " ".join(names(calls(m.graph))))
    equal(
        names(only.inputs),
        ["x", "param", "y"],
        cause="get_attr nodes were left out, or inputs come in another order than their use",
        hint="a get_attr of a tensor is passed in like a placeholder",
    )


def test_a_value_used_by_the_output_alone_goes_out(lesson):
    first, second = crossed(lesson, trace(lambda x: (x + 1, x * 2)), "add", "mul")
    equal(
        (names(first.outputs), names(second.outputs)),
        (["add"], ["mul"]),
        cause="only the uses in other partitions were looked at",
        hint="the graph's output is a user too, one that lives in no partition",
    )


def test_a_keyword_argument_crosses_too(lesson):
    m = trace(lambda x: torch.add(x, other=torch.relu(x)))
    _, second = crossed(lesson, m, "relu", "add")
    equal(
        names(second.inputs),
        ["x", "relu"],
        cause="only node.args was searched for values",
        hint="node.all_input_nodes has those in kwargs too",
    )


def test_a_value_deep_in_an_argument_crosses_too(lesson):
    m = trace(lambda x: torch.cat([x, torch.relu(x)])[: x.size(0)])
    _, second = crossed(lesson, m, "relu size", "cat getitem")
    equal(
        names(second.inputs),
        ["x", "relu", "size"],
        cause="a list, a dict or a slice in an argument was not searched",
        hint="node.all_input_nodes looks at any depth",
    )


def test_inputs_and_outputs_come_in_the_order_of_first_use(lesson):
    m = trace(lambda x, y: (x + 1, y * 2))
    add, mul = calls(m.graph)
    with m.graph.inserting_after(mul):
        m.graph.call_function(torch.sub, (mul, add))
    first, second = crossed(lesson, m, "add mul", "sub")
    equal(
        (names(first.outputs), names(second.inputs)),
        (["mul", "add"], ["mul", "add"]),
        cause="the values were sorted, or taken in the order in which they are made",
        hint="walk through the users, and note a value when it is first used",
    )


def test_a_value_is_passed_once_however_often_it_is_used(lesson):
    def twice(x):
        once = torch.relu(x)
        return once * 2 + once

    first, second = crossed(lesson, trace(twice), "relu", "mul add")
    holds(
        list(first.outputs.values()) == [[second]] and names(second.inputs) == ["relu"],
        "one input, and one user of the output",
        got=first.outputs,
        cause="a second use was recorded as a second crossing",
        hint="look whether the user has the value already",
    )


def test_a_partition_shows_what_it_holds(lesson):
    _, second = crossed(lesson, trace(Chain()), "tanh outer_0_0", "relu")
    equal(
        repr(second).split("\n"),
        [
            "name: 1",
            "  nodes: relu",
            "  inputs: outer_0_0",
            "  outputs: relu",
            "  partitions depended on: 0",
            "  partition dependents: -",
        ],
        cause="a step filled in something else than nodes",
        hint="inputs and outputs map nodes to partitions",
    )
    equal(second.number, None, cause="nobody has asked the callback yet")


class WithBody(nn.Module):
    """A graph that passes a module to a function, as control flow operators do."""

    def __init__(self):
        super().__init__()
        self.deep = nn.Module()
        self.deep.body = nn.Linear(3, 3)


def apply_module(module, x):
    return module(x)


def graph_with_body() -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    body = graph.get_attr("deep.body")
    first = graph.call_function(apply_module, (body, relu))
    graph.output(graph.call_function(apply_module, (body, first)))
    return GraphModule(WithBody(), graph)


@pytest.mark.stretch
def test_a_module_is_read_inside_and_not_passed_in(lesson):
    _, second = crossed(lesson, graph_with_body(), "relu", "apply_module apply_module_1")
    equal(
        (names(second.inputs), names(second.attributes)),
        (["relu"], ["deep_body"]),
        cause="the get_attr of a module was made an input",
        hint="is_module tells; such a node goes to attributes",
    )


# Step 3: order


def test_a_partition_runs_after_those_it_depends_on(lesson):
    tanh, outer, relu = calls(trace(Chain()).graph)
    third = lesson.Partition("3", nodes=[relu], inputs={})
    first = lesson.Partition("1", nodes=[tanh])
    second = lesson.Partition("2", nodes=[outer], inputs={tanh: first})
    third.inputs = {outer: second}
    equal(
        [partition.name for partition in lesson.order_partitions([third, second, first])],
        ["1", "2", "3"],
        cause="the partitions were left as they came, or sorted the wrong way round",
        hint="TopologicalSorter takes, for each name, the names it depends on",
    )


@pytest.mark.parametrize("seed", range(5))
def test_each_of_many_partitions_runs_after_those_it_depends_on(lesson, seed):
    chance, graph = random.Random(seed), Graph()
    partitions = [lesson.Partition(f"p{number}") for number in range(30)]
    for number, partition in enumerate(partitions[1:], start=1):
        makers = chance.sample(partitions[:number], k=min(number, 2))
        partition.inputs = {graph.call_function(torch.rand, (1,)): maker for maker in makers}
    chance.shuffle(partitions)
    ordered = lesson.order_partitions(list(partitions))
    done = [
        set(partition.dependencies) <= set(ran(ordered[:at]))
        for at, partition in enumerate(ordered)
    ]
    holds(
        all(done) and sorted(ran(ordered)) == sorted(ran(partitions)),
        "each of 30 partitions once, and after all that it depends on",
        got=ran(ordered),
        cause="a partition runs before one it depends on, is missing, or runs twice",
        hint="a partition is ready when all of its dependencies have run, not when one has",
    )


def ran(partitions) -> list[str]:
    return [partition.name for partition in partitions]


@pytest.mark.parametrize(
    ("needed", "expected"),
    [("one", ["one", "last", "two"]), ("two", ["one", "two", "last"])],
)
def test_of_several_ready_partitions_the_first_in_the_graph_runs_first(lesson, needed, expected):
    relu = calls(trace(Chain()).graph)[0]
    last, one, two = (lesson.Partition(name) for name in ("last", "one", "two"))
    last.inputs = {relu: {"one": one, "two": two}[needed]}
    equal(
        [partition.name for partition in lesson.order_partitions([last, one, two])],
        expected,
        cause="the partitions became ready in another order than the graph reaches them",
        hint="collect all that are ready, take the one that stands first in the list",
    )


def test_a_cycle_is_refused_with_its_partitions_and_one_value(lesson):
    m = trace(Chain())
    tanh, outer, relu = calls(m.graph)
    one, two = lesson.Partition("17", nodes=[tanh, relu]), lesson.Partition("4", nodes=[outer])
    one.inputs, two.inputs = {outer: two}, {tanh: one}
    with refuses(
        RuntimeError,
        "submod_17",
        "submod_4",
        "needs",
        cause="the cycle was not found, or its message does not help to mend it",
        hint="name the partitions by submod_name, and a value that goes between two",
    ):
        lesson.order_partitions([one, two])


def test_a_cycle_may_lead_through_many_partitions(lesson):
    nodes = calls(trace(Chain()).graph)
    circle = [lesson.Partition(name) for name in ("one", "two", "three")]
    for user, value, maker in zip(circle, nodes, [circle[-1], *circle]):
        user.inputs = {value: maker}
    with refuses(
        RuntimeError,
        *("submod_one", "submod_two", "submod_three"),
        cause="only pairs that wait for each other were looked for",
        hint="follow the dependencies until a partition comes up again",
    ):
        lesson.order_partitions(circle)


def test_the_value_that_the_error_of_a_cycle_names_goes_from_one_to_another(lesson):
    graph = Graph()
    outside, *between = (
        graph.create_node("call_function", torch.rand, (3,), name=name)
        for name in ("outside", "between_1", "between_2", "between_3")
    )
    free, *circle = (lesson.Partition(name) for name in ("free", "one", "two", "three"))
    for user, value, maker in zip(circle, between, [circle[-1], *circle]):
        user.inputs = {outside: free, value: maker}
    with refuses(
        RuntimeError,
        "between_",
        cause="no value is named, or one that comes from outside of the cycle",
        hint="of the inputs of one partition, name the one that the next in the circle makes",
    ):
        lesson.order_partitions([free, *circle])


def test_a_partition_outside_the_cycle_is_not_accused(lesson):
    tanh, outer, _ = calls(trace(Chain()).graph)
    free, one, two = (lesson.Partition(name) for name in ("free", "one", "two"))
    one.inputs, two.inputs = {outer: two, tanh: free}, {tanh: one}
    try:
        lesson.order_partitions([free, one, two])
    except NotImplementedError:
        raise
    except RuntimeError as error:
        message = str(error)
    holds(
        "submod_free" not in message and "submod_one" in message,
        "the message to name the partitions of the cycle only",
        got=message,
        cause="everything that was left over when the sort got stuck was named",
        hint="CycleError carries the cycle itself",
    )


def test_the_original_order_can_be_kept(lesson):
    relu = calls(trace(Chain()).graph)[0]
    last, one = lesson.Partition("last"), lesson.Partition("one")
    last.inputs = {relu: one}
    free = lesson.Partition("free")
    ordered = lesson.order_partitions([one, free, last], keep_original_order=True)
    equal(
        [partition.name for partition in ordered],
        ["one", "free", "last"],
        cause="the partitions were sorted all the same",
        hint="return them as they came",
    )


def test_the_original_order_is_refused_where_a_partition_would_run_too_early(lesson):
    relu = calls(trace(Chain()).graph)[0]
    early, late = lesson.Partition("early"), lesson.Partition("late")
    early.inputs = {relu: late}
    with refuses(
        RuntimeError,
        "submod_early",
        "submod_late",
        cause="a partition would be called before the one whose value it needs",
        hint="look whether every maker comes before its users; name both if not",
    ):
        lesson.order_partitions([early, late], keep_original_order=True)


# Step 4: build


class AlikePaths(nn.Module):
    """Three modules whose paths become equal when the dots go; one is called twice."""

    def __init__(self):
        super().__init__()
        self.a, self.a_b = nn.Module(), nn.Module()
        self.a.b_c = nn.Linear(3, 3)
        self.a_b.c = nn.Linear(3, 3)
        self.a.b = nn.Module()
        self.a.b.c = nn.Linear(3, 3)

    def forward(self, x):
        return self.a_b.c(self.a.b.c(self.a_b.c(self.a.b_c(x))))


def built(lesson, m: GraphModule, inputs: str, body: str, outputs: str, **options):
    """The submodule of the calls in ``body``, and its partition."""
    nodes = named(m.graph)
    partition = lesson.Partition(
        "0",
        nodes=[nodes[name] for name in body.split()],
        inputs={nodes[name]: None for name in inputs.split()},
        outputs={nodes[name]: [] for name in outputs.split()},
    )
    return lesson.build_submodule(partition, m, **options), partition


def test_a_submodule_takes_its_inputs_and_returns_its_output(lesson):
    submodule, _ = built(lesson, trace(Chain()), "tanh", "outer_0_0 relu", "relu")
    equal(
        [(node.op, node.name) for node in submodule.graph.nodes],
        [
            ("placeholder", "tanh"),
            ("call_module", "outer_0_0"),
            ("call_function", "relu"),
            ("output", "output"),
        ],
        cause="an input has no placeholder, or a node was not copied",
        hint="placeholders first, then the nodes, then the output",
    )


def test_copies_use_the_nodes_of_their_own_graph(lesson):
    m = trace(lambda x: torch.cat([torch.relu(x), x], dim=x.size(0)))
    submodule, _ = built(lesson, m, "x", "relu size cat", "cat")
    foreign = [
        value
        for node in submodule.graph.nodes
        for value in node.all_input_nodes
        if value.graph is not submodule.graph
    ]
    holds(
        not foreign,
        "arguments that point to nodes of the submodule's own graph",
        got=foreign,
        cause="the arguments still are the original's nodes",
        hint="map_arg(node.args, environment.__getitem__), and the same for kwargs",
    )


def test_defaults_are_not_copied_into_a_submodule(lesson):
    m = trace(lambda x, *, scale=2.0: torch.relu(x) * scale)
    submodule, _ = built(lesson, m, "relu scale", "mul", "mul")
    equal(
        [node.args for node in submodule.graph.find_nodes(op="placeholder")],
        [(), ()],
        cause="the placeholder was copied with the default that it has in the model",
        hint="a submodule is always given all of its inputs: make new placeholders",
    )


def test_keyword_arguments_are_copied(lesson):
    m = trace(TwoBranches())
    submodule, _ = built(lesson, m, "linear", "clamp", "clamp")
    clamp = calls(submodule.graph)[0]
    equal(
        dict(clamp.kwargs),
        {"min": 0.0, "max": 1.0},
        cause="the copy was made without node.kwargs",
        hint="create_node takes args and kwargs: map both",
    )


def test_one_value_travels_bare_and_several_as_a_tuple(lesson):
    one, _ = built(lesson, trace(Chain()), "x", "tanh outer_0_0", "outer_0_0")
    two, _ = built(lesson, trace(Chain()), "x", "tanh outer_0_0", "outer_0_0 tanh")
    x = torch.rand(2, 3)
    holds(
        isinstance(one(x), torch.Tensor) and [type(two(x)), len(two(x))] == [tuple, 2],
        "a tensor from one output, a tuple from two",
        got=(one(x), two(x)),
        cause="the output was always wrapped, or never",
        hint="ask returns_bare",
    )


def test_a_partition_that_nobody_needs_returns_an_empty_tuple(lesson):
    submodule, _ = built(lesson, trace(Chain()), "x", "tanh", "")
    equal(
        submodule(torch.rand(2, 3)),
        (),
        cause="the graph has no output node, or returns None",
        hint="no output is a tuple of none",
    )


def test_a_nested_module_gets_a_flat_name(lesson):
    model = Chain()
    submodule, partition = built(lesson, trace(model), "tanh", "outer_0_0", "outer_0_0")
    holds(
        getattr(submodule, "outer_0_0", None) is model.outer[0][0],
        "outer.0.0 as outer_0_0 in the submodule: the module itself, not a copy",
        got=dict(submodule.named_children()),
        cause="the path was kept, or the module was copied",
        hint="replace the dots of the path, and hand over the module as it is",
    )
    equal(partition.targets, {"outer_0_0": "outer.0.0"}, cause="targets is not filled in")


def test_the_meta_of_a_copy_is_a_copy(lesson):
    m = trace(Chain())
    for node in m.graph.nodes:
        node.meta["note"] = node.name
    submodule, _ = built(lesson, m, "tanh", "outer_0_0 relu", "relu")
    tanh, outer, relu, _ = submodule.graph.nodes
    equal(
        [node.meta.get("note") for node in (tanh, outer, relu)],
        ["tanh", "outer_0_0", "relu"],
        cause="node.meta was not carried over, to placeholders or to nodes",
        hint="update the copy's meta from the original's",
    )
    holds(
        relu.meta is not named(m.graph)["relu"].meta,
        "a meta dict of its own for each copy",
        cause="original and copy share one dict: who changes one changes both",
        hint="copy the dict",
    )


def test_copies_keep_their_annotations(lesson):
    m = trace(Chain())
    for node in m.graph.nodes:
        node.type = torch.Tensor
    submodule, _ = built(lesson, m, "tanh", "outer_0_0", "outer_0_0")
    equal(
        [node.type for node in submodule.graph.nodes][:2],
        [torch.Tensor, torch.Tensor],
        cause="node.type was dropped, of placeholders or of nodes",
        hint="create_node and placeholder take type_expr",
    )


def test_copies_are_named_afresh_unless_asked(lesson):
    m = trace(lambda x: torch.relu(x + 1) + 2)
    afresh, _ = built(lesson, m, "relu", "add_1", "add_1")
    kept, _ = built(lesson, m, "relu", "add_1", "add_1", keep_original_node_name=True)
    equal(
        [calls(submodule.graph)[0].name for submodule in (afresh, kept)],
        ["add", "add_1"],
        cause="the copy has another name than asked for",
        hint="pass name=None for a fresh name, node.name to keep it",
    )


def test_a_module_that_is_gone_is_named(lesson):
    m = trace(Chain())
    del m.outer
    with refuses(
        AttributeError,
        "outer.0.0",
        type(m).__name__,
        cause="the path was followed without saying where it ends",
        hint="attribute_of has the message",
    ):
        built(lesson, m, "tanh", "outer_0_0", "outer_0_0")


@pytest.mark.stretch
def test_flat_names_that_look_alike_are_counted(lesson):
    m = trace(AlikePaths())
    submodule, partition = built(lesson, m, "x", " ".join(names(calls(m.graph))), "a_b_c_2")
    paths = {"a_b_c": "a.b_c", "a_b_c_1": "a_b.c", "a_b_c_2": "a.b.c"}
    equal(
        partition.targets,
        paths,
        cause="two paths have one flat name, or the names are counted differently",
        hint="the second of a name gets _1, the third _2; a path that comes again keeps its own",
    )
    holds(
        all(getattr(submodule, new) is m.get_submodule(old) for new, old in paths.items()),
        "each module under its own name",
        got=submodule,
        cause="the names are counted, and the modules are not",
    )


@pytest.mark.stretch
def test_inputs_can_be_named_by_their_position(lesson):
    submodule, _ = built(
        lesson, trace(TwoBranches()), "x param", "add", "add", keep_original_input_name=False
    )
    equal(
        [node.name for node in submodule.graph.find_nodes(op="placeholder")],
        ["arg_0", "arg_1"],
        cause="the placeholders keep the names of the values",
        hint="count them: arg_0, arg_1, ...",
    )


@pytest.mark.stretch
def test_a_single_value_can_be_returned_in_a_tuple(lesson):
    submodule, _ = built(lesson, trace(Chain()), "x", "tanh", "tanh", tuple_return=True)
    holds(
        isinstance(submodule(torch.rand(3)), tuple),
        "a tuple of one value",
        got=submodule.code,
        cause="tuple_return was not looked at",
        hint="pass it to returns_bare",
    )


@pytest.mark.stretch
def test_a_module_read_inside_keeps_its_path(lesson):
    m = graph_with_body()
    nodes = named(m.graph)
    partition = lesson.Partition(
        "0",
        nodes=[nodes["apply_module"]],
        inputs={nodes["relu"]: None},
        outputs={nodes["apply_module"]: []},
        attributes={nodes["deep_body"]: None},
    )
    submodule = lesson.build_submodule(partition, m)
    holds(
        submodule.get_submodule("deep.body") is m.deep.body,
        "deep.body in the submodule, read by a get_attr after the placeholders",
        got=submodule.code,
        cause="partition.attributes was not looked at, or the path was made flat",
        hint="copy each as a node, between the placeholders and the body",
    )


# Step 5: stitch


def layers() -> nn.Module:
    """Its argument is called `input`, which is taken: the placeholder's name is `input_1`."""
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))


def stitched(lesson, m: GraphModule, *partitions, **options):
    """The outer module around stand-ins for the submodules."""
    return lesson.stitch_graph(m, dict.fromkeys(partitions, trace(Chain())), **options)


def stage(lesson, number: str, inputs, outputs):
    return lesson.Partition(
        number, inputs=dict.fromkeys(inputs), outputs={node: [] for node in outputs}
    )


def test_the_outer_graph_calls_the_submodules_in_turn(lesson):
    m = trace(Chain())
    x, tanh, _, relu, _ = m.graph.nodes
    split = stitched(lesson, m, stage(lesson, "0", [x], [tanh]), stage(lesson, "1", [tanh], [relu]))
    equal(
        [str(row) for row in rows(split.graph)],
        [
            "x = placeholder x()",
            "submod_0 = call_module submod_0(x)",
            "submod_1 = call_module submod_1(submod_0)",
            "output = output output(submod_1)",
        ],
        cause="a call, or one of its inputs, is missing",
        hint="one call_module a partition, with the new nodes of its inputs",
    )


def test_several_outputs_are_taken_from_the_tuple(lesson):
    m = trace(lambda x: (x + 1, x * 2))
    x, add, mul, _ = m.graph.nodes
    split = stitched(lesson, m, stage(lesson, "0", [x], [mul, add]))
    equal(
        [str(row) for row in rows(split.graph)][2:],
        [
            "getitem = call_function getitem(submod_0, 0)",
            "getitem_1 = call_function getitem(submod_0, 1)",
            "output = output output((getitem_1, getitem))",
        ],
        cause="the tuple was passed on whole, or its places were mixed up",
        hint="one operator.getitem an output, in the order of partition.outputs",
    )


def test_placeholders_keep_defaults_and_annotations(lesson):
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, scale: float = 2.0):
            return x * scale

    m = trace(Model())
    x, scale, mul, _ = m.graph.nodes
    split = stitched(lesson, m, stage(lesson, "0", [x, scale], [mul]))
    equal(
        rows(split.graph)[:2],
        rows(m.graph)[:2],
        cause="a default or an annotation of the signature was dropped",
        hint="a placeholder's default is in its args, its annotation in its type",
    )


def test_the_meta_of_the_outer_graph_is_its_own(lesson):
    m = trace(TwoBranches())
    nodes = named(m.graph)
    for node in (nodes["x"], nodes["param"]):
        node.meta["note"] = node.name
    inputs = [nodes["x"], nodes["param"]]
    split = stitched(lesson, m, stage(lesson, "0", inputs, [nodes["add_1"]]))
    new = named(split.graph)
    equal(
        [new[name].meta.get("note") for name in ("x", "param")],
        ["x", "param"],
        cause="the meta of a placeholder or of a get_attr was not carried over",
        hint="update the new node's meta from the old one's",
    )
    holds(
        new["x"].meta is not nodes["x"].meta and new["param"].meta is not nodes["param"].meta,
        "a meta dict of its own for each node",
        cause="old and new node share one dict: who changes one changes both",
        hint="copy the dict",
    )


def test_parameters_are_shared_and_not_copied(lesson):
    m = trace(TwoBranches())
    nodes = named(m.graph)
    inputs = [nodes["x"], nodes["param"]]
    split = stitched(lesson, m, stage(lesson, "0", inputs, [nodes["add_1"]]))
    holds(
        split.param is m.param,
        "the parameter itself in the outer module",
        got=list(dict(split.named_parameters())),
        cause="the parameter was copied: training one would leave the other behind",
        hint="hand over what attribute_of finds",
    )


def test_the_output_keeps_its_structure(lesson):
    m = trace(lambda x: {"both": [x, x + 1]})
    x, add, _ = m.graph.nodes
    split = stitched(lesson, m, stage(lesson, "0", [x], [add]))
    equal(
        str(rows(split.graph)[-1]),
        "output = output output({'both': [x, submod_0]})",
        cause="the output was flattened, or a placeholder in it was lost",
        hint="map_arg keeps lists, tuples and dicts, and maps the nodes in them",
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["x", "y", "param", "submod_0", "submod_1", "output"]),
        ({"keep_original_order": True}, ["x", "y", "submod_0", "param", "submod_1", "output"]),
    ],
    ids=["any order", "original order"],
)
def test_a_parameter_waits_for_its_partition_in_the_original_order(lesson, options, expected):
    m = trace(TwoBranches())
    nodes = named(m.graph)
    first = stage(lesson, "0", [nodes["y"]], [nodes["linear"]])
    second = stage(lesson, "1", [nodes["linear"], nodes["param"]], [nodes["add_1"]])
    split = stitched(lesson, m, first, second, **options)
    equal(
        [node.name for node in split.graph.nodes],
        expected,
        cause="get_attr nodes were written first where they should wait, or the other way round",
        hint="with keep_original_order, and only then, read a parameter when it is first needed",
    )


def test_the_outer_arguments_have_the_names_of_nodes_if_asked(lesson):
    m = trace(layers())
    value, *_, last, _ = m.graph.nodes
    only = stage(lesson, "0", [value], [last])
    usual = stitched(lesson, m, only)
    named_by_nodes = stitched(lesson, m, only, keep_original_node_name=True)
    equal(
        [next(iter(split.graph.nodes)).target for split in (usual, named_by_nodes)],
        ["input", "input_1"],
        cause="the placeholder's target is the argument's name; its node has another",
        hint="keep node.target, unless keep_original_node_name asks for node.name",
    )


# The whole: split_module, beside torch's own


def test_the_example_comes_out_as_printed(lesson):
    model, round_robin = TwoBranches(), itertools.cycle([0, 1, 2])
    split = lesson.split_module(trace(model), model, lambda node: next(round_robin))
    equal(
        split.code.strip(),
        SEED_CODE,
        cause="inputs or outputs of a submodule come in another order",
        hint="run the tests of the steps first: they look at one thing each",
    )


def test_the_example_has_the_modules_as_printed(lesson):
    model, round_robin = TwoBranches(), itertools.cycle([0, 1, 2])
    split = lesson.split_module(trace(model), model, lambda node: next(round_robin))
    holds(
        [name for name, _ in split.named_modules(remove_duplicate=False)]
        == ["", "submod_0", "submod_0.linear", "submod_1", "submod_1.linear", "submod_2"],
        "linear in submod_0 and in submod_1, nothing in submod_2",
        got=list(split.named_modules(remove_duplicate=False)),
        cause="a submodule holds more than its nodes call",
        hint="give each graph the modules of its own targets",
    )


def test_what_a_star_import_brings_is_enough_to_cut(lesson):
    brought = star_import(lesson)
    holds(all(map(callable, vars(brought).values())), "functions and classes", got=brought)
    model = TwoBranches()
    m = trace(model)
    same_split(
        brought.split_module(m, model, in_stages(m, 2)),
        torch_split_module(m, model, in_stages(m, 2)),
    )


@pytest.mark.parametrize("make", [TwoBranches, layers])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_every_graph_is_the_one_torch_makes(lesson, stages, make):
    model = make()
    m = trace(model)
    same_split(
        lesson.split_module(m, model, in_stages(m, stages)),
        torch_split_module(m, model, in_stages(m, stages)),
        hint="run the tests of the steps first: they look at one thing each",
    )


class UsesAParameterLate(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(3))

    def forward(self, x):
        return torch.tanh(torch.relu(x)) * self.scale


@pytest.mark.parametrize("make", [TwoBranches, layers, UsesAParameterLate])
@pytest.mark.parametrize("option", ["keep_original_order", "keep_original_node_name"])
def test_every_option_gives_the_graphs_that_torch_gives(lesson, option, make):
    model = make()
    m = trace(model)
    same_split(
        lesson.split_module(m, model, in_stages(m, 3), **{option: True}),
        torch_split_module(m, model, in_stages(m, 3), **{option: True}),
        hint=f"see what {option} asks for in the docstrings of build and stitch",
    )


@pytest.mark.stretch
@pytest.mark.parametrize(
    "options",
    [
        {"keep_original_input_name": False},
        pytest.param({"tuple_return": True}, marks=TUPLE_RETURN),
        {"partition_affix": "pp"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_every_later_option_gives_the_graphs_that_torch_gives(lesson, options):
    model = TwoBranches()
    m = trace(model)
    same_split(
        lesson.split_module(m, model, in_stages(m, 3), **options),
        torch_split_module(m, model, in_stages(m, 3), **options),
        hint=f"see what {next(iter(options))} asks for in the docstrings of the steps",
    )


def test_qualname_map_says_where_each_module_came_from(lesson):
    model, old_path = Chain(), {"kept": "kept"}
    m = trace(model)
    lesson.split_module(m, model, in_stages(m, 3), old_path)
    equal(
        old_path,
        {"kept": "kept", "submod_1.outer_0_0": "outer.0.0"},
        cause="the map was replaced, or a path is wrong",
        hint="the environment of a partition knows the new node of each old one",
    )


@pytest.mark.since("2.13", "split_module names its partitions in meta")
def test_the_result_names_its_partitions_in_meta(lesson):
    model = TwoBranches()
    m = trace(model)
    split = lesson.split_module(m, model, in_stages(m, 2))
    equal(
        split.meta.get("partition_names"),
        {"submod_0", "submod_1"},
        cause="the meta of the outer module was left empty",
        hint="stitch_graph sets meta to the set of submod_name",
    )


def test_the_original_is_left_as_it_was(lesson):
    model = TwoBranches()
    m = trace(model)
    before, code = rows(m.graph), m.code
    metas = [dict(node.meta) for node in m.graph.nodes]
    lesson.split_module(m, model, in_stages(m, 3))
    equal(
        [dict(node.meta) for node in m.graph.nodes],
        metas,
        cause="a note was left in node.meta of the model given",
        hint="what a step finds out belongs to the partition",
    )
    holds(
        rows(m.graph) == before and m.code == code,
        "the graph and the code of the model given to be unchanged",
        got=m.code,
        cause="a step edits the original's nodes",
        hint="create new nodes in new graphs, and only read the old ones",
    )


def test_the_parameters_of_the_result_are_those_of_the_model(lesson):
    model = TwoBranches()
    m = trace(model)
    split = lesson.split_module(m, model, in_stages(m, 3))
    equal(
        {id(parameter) for parameter in split.parameters()},
        {id(parameter) for parameter in model.parameters()},
        cause="modules or parameters were copied on the way",
        hint="a pipeline that trains copies trains nothing: hand over the originals",
    )


def test_layers_stay_in_the_mode_in_which_they_are(lesson):
    model = nn.Sequential(nn.Dropout().eval(), nn.Dropout())
    m = trace(model)
    lesson.split_module(m, model, in_stages(m, 2))
    equal(
        [layer.training for layer in model],
        [False, True],
        cause="a submodule was put into training or evaluation, and its layers with it",
        hint="the layers are the model's own: leave them alone",
    )


def test_the_result_computes_with_its_submodules(lesson):
    model, ran = TwoBranches(), []
    m = trace(model)
    split = lesson.split_module(m, model, in_stages(m, 3))
    for name, submodule in split.named_children():
        submodule.register_forward_hook(lambda *_, name=name: ran.append(name))
    split(torch.rand(3, 4), torch.rand(3, 4))
    equal(
        ran,
        ["submod_0", "submod_1", "submod_2"],
        cause="the model itself was run, and the submodules stand beside it",
        hint="the outer module runs its own graph",
    )


def test_buffers_are_shared_too(lesson):
    model = nn.Module()
    model.register_buffer("offset", torch.ones(3))
    graph = Graph()
    x, offset = graph.placeholder("x"), graph.get_attr("offset")
    graph.output(graph.call_function(torch.add, (x, offset)))
    split = lesson.split_module(GraphModule(model, graph), model, lambda node: 0)
    holds(
        dict(split.named_buffers()).get("offset") is model.offset,
        "the buffer itself, registered under its name",
        got=dict(split.named_buffers()),
        cause="the buffer was copied, or became a plain attribute",
        hint="give GraphModule the value that attribute_of finds",
    )


def test_a_placeholder_can_go_straight_to_the_output(lesson):
    m = trace(lambda x, y: (y, torch.relu(x)))
    split = lesson.split_module(m, m, lambda node: 0)
    x, y = torch.rand(3), torch.rand(3)
    same_numbers(
        split(x, y),
        m(x, y),
        cause="an output that no partition makes was lost",
        hint="the new placeholder stands for the old one in the output as well",
    )


def test_a_graph_without_a_call_is_cut_into_nothing(lesson):
    m = trace(lambda x: x)
    split = lesson.split_module(m, m, lambda node: 0, keep_original_order=True)
    same_graph(
        split.graph,
        m.graph,
        cause="no partition, no placeholder",
        hint="placeholders come first, always",
    )


def test_an_unused_call_stays_in_its_partition(lesson):
    def with_leftover(x):
        used = torch.relu(x)
        torch.tanh(used)
        return used

    m = trace(with_leftover)
    same_split(
        lesson.split_module(m, m, numbered(relu=0, tanh=1)),
        torch_split_module(m, m, numbered(relu=0, tanh=1)),
        hint="a partition without outputs is still called: its nodes may have effects",
    )


def test_what_nobody_uses_is_not_lost(lesson):
    graph = Graph()
    x, *_ = (graph.placeholder(name) for name in ("x", "unused", "optional", "last"))
    graph.get_attr("weight")
    graph.output(graph.call_function(torch.relu, (x,)))
    m = GraphModule(Parts(), graph)
    same_split(
        lesson.split_module(m, m, lambda node: 0),
        torch_split_module(m, m, lambda node: 0),
        hint="whoever calls the model passes all of its arguments; nothing is cleaned up",
    )


def test_a_model_that_takes_any_number_of_arguments_can_be_cut(lesson):
    class Sum(nn.Module):
        def forward(self, *terms):
            return torch.relu(terms[0]) + terms[1]

    m = trace(Sum())
    split = lesson.split_module(m, m, in_stages(m, 2))
    x, y = torch.rand(3), torch.rand(3)
    same_numbers(
        split(x, y),
        m(x, y),
        cause="the star of *terms was lost with the placeholder's target",
        hint="keep node.target: the name alone has no star",
    )


def test_a_cycle_between_partitions_is_refused(lesson):
    m = trace(Chain())
    with refuses(
        RuntimeError,
        "cycle",
        cause="partitions that wait for each other cannot run in any order",
        hint="TopologicalSorter raises CycleError: turn it into a RuntimeError",
    ):
        lesson.split_module(m, m, numbered(tanh=17, outer_0_0=4, relu=17))


def test_a_split_model_can_be_split_again(lesson):
    model = TwoBranches()
    m = trace(model)
    split = lesson.split_module(m, model, in_stages(m, 3))
    again = lesson.split_module(split, split, in_stages(split, 2))
    x, y = torch.rand(3, 4), torch.rand(3, 4)
    same_numbers(again(x, y), model(x, y), cause="submodules are modules like any other")


@pytest.mark.parametrize("deep", [False, True])
def test_a_module_with_the_name_of_a_submodule_keeps_its_parameters(lesson, deep):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.submod_0 = nn.Sequential(nn.Linear(3, 3)) if deep else nn.Linear(3, 3)

        def forward(self, x):
            return torch.relu(x) + (self.submod_0[0] if deep else self.submod_0).weight

    m = trace(Model())
    split = lesson.split_module(m, m, lambda node: 0)
    x = torch.rand(3, 3)
    same_numbers(
        split(x),
        m(x),
        cause="the submodule took the place of the module that holds the parameter",
        hint="a parameter below submod_0 has to be set on the new submod_0",
    )


@pytest.mark.stretch
@pytest.mark.since("2.13", "split_module reads a module where it is used")
def test_modules_in_the_graph_are_read_where_they_are_used(lesson):
    m = graph_with_body()
    callback = numbered(relu=0, apply_module=1, apply_module_1=2)
    same_split(
        lesson.split_module(m, m, callback),
        torch_split_module(m, m, callback),
        hint="a get_attr of a module is no input: see attributes in partition.py",
    )


@pytest.mark.stretch
@pytest.mark.since("2.12", "split_module makes lazy modules")
def test_code_is_generated_late_where_the_caller_asks_for_that(lesson):
    m = trace(Chain())
    with _use_lazy_graph_module(True):
        split = lesson.split_module(m, m, in_stages(m, 2))
    holds(
        isinstance(split, _LazyGraphModule) and isinstance(split.submod_0, _LazyGraphModule),
        "lazy modules inside _use_lazy_graph_module",
        got=type(split).__mro__,
        cause="GraphModule was called directly",
        hint="torch.fx._lazy_graph_module has _make_graph_module",
    )


# Better than torch


@pytest.mark.beyond("asks up to four times a node where autocast or gradients are switched")
def test_the_callback_is_asked_once_a_node_whatever_the_graph_holds(lesson):
    m, asked = autocast_graph(), Counter()

    def callback(node):
        asked.update([node.name])
        return 0

    lesson.split_module(m, m, callback)
    equal(
        dict(asked),
        {node.name: 1 for node in calls(m.graph)},
        cause="the callback was asked again where its answer was needed again",
        hint="the partition keeps the callback's answer as its number",
    )


@pytest.mark.beyond("leaves _fx_partition on every node")
def test_nothing_is_left_on_the_nodes(lesson):
    m = trace(TwoBranches())
    before = {node: set(vars(node)) for node in m.graph.nodes}
    lesson.split_module(m, m, in_stages(m, 2))
    equal(
        {node: set(vars(node)) - names for node, names in before.items()},
        {node: set() for node in before},
        cause="the partition was noted on the node itself",
        hint="keep a dict from nodes to partitions",
    )


@pytest.mark.beyond("takes the partition that became ready last")
def test_independent_partitions_keep_the_order_of_the_graph(lesson):
    m = trace(lambda x: (torch.relu(x), torch.tanh(x), torch.sigmoid(x)))
    split = lesson.split_module(m, m, numbered(relu=2, tanh=0, sigmoid=1))
    equal(
        list(submodules(split)),
        ["submod_2", "submod_0", "submod_1"],
        cause="partitions that depend on nothing were reordered",
        hint="of all that are ready, the first in the graph goes first",
    )


@pytest.mark.beyond("says only that a cycle exists")
def test_the_error_of_a_cycle_names_submodules_and_a_value(lesson):
    m = trace(Chain())
    with refuses(
        RuntimeError,
        "submod_17",
        "submod_4",
        "`",
        cause="the message does not say which partitions wait for each other",
        hint="name them by submod_name, and one value that goes between two",
    ):
        lesson.split_module(m, m, numbered(tanh=17, outer_0_0=4, relu=17))


@pytest.mark.beyond("runs one of the two modules twice")
def test_paths_that_look_alike_stay_apart(lesson):
    m = trace(AlikePaths())
    x = torch.rand(2, 3)
    same_numbers(
        lesson.split_module(m, m, lambda node: 0)(x),
        m(x),
        cause="a.b_c and a_b.c both became a_b_c: the second replaced the first",
        hint="a flat name that is taken by another path needs a suffix",
    )


@pytest.mark.beyond("drops the star: the model takes one argument")
def test_any_number_of_arguments_and_original_names_go_together(lesson):
    class Sum(nn.Module):
        def forward(self, *terms):
            return torch.relu(terms[0]) + terms[1]

    m = trace(Sum())
    split = lesson.split_module(m, m, in_stages(m, 2), keep_original_node_name=True)
    x, y = torch.rand(3), torch.rand(3)
    same_numbers(
        split(x, y),
        m(x, y),
        cause="the placeholder's target became its name, which has no star",
        hint="put the stars of the target back",
    )


@pytest.mark.beyond("fails with KeyError")
def test_a_parameter_that_only_the_output_uses_keeps_its_place_in_the_original_order(lesson):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.rand(3))

        def forward(self, x):
            return torch.relu(x), self.scale

    m = trace(Model())
    split = lesson.split_module(m, m, lambda node: 0, keep_original_order=True)
    x = torch.rand(3)
    same_numbers(
        split(x),
        m(x),
        cause="no partition takes the parameter, so it was never read",
        hint="read what is still missing before the output",
    )


@pytest.mark.beyond("fails with KeyError")
def test_an_original_order_that_cannot_run_is_refused(lesson):
    m = trace(lambda x: torch.relu(x) + torch.tanh(torch.sigmoid(x)))
    with refuses(
        RuntimeError,
        "submod_0",
        "submod_1",
        cause="submod_0 comes first in the graph, but needs a value of submod_1",
        hint="find it in order_partitions, before anything is built",
    ):
        callback = numbered(relu=0, sigmoid=1, tanh=1, add=0)
        lesson.split_module(m, m, callback, keep_original_order=True)


@pytest.mark.beyond("fails with KeyError, without a word of what is missing")
def test_an_attribute_with_the_name_of_a_submodule_is_refused(lesson):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.submod_0 = nn.Parameter(torch.rand(3))

        def forward(self, x):
            return torch.relu(x) + self.submod_0

    m = trace(Model())
    with refuses(
        RuntimeError,
        "submod_0",
        "partition_affix",
        cause="the submodule took the parameter's place",
        hint="look for the names in the attributes before you put submodules in",
    ):
        lesson.split_module(m, m, lambda node: 0)


# Step 6 (stretch): regions


def autocast_graph() -> GraphModule:
    """x @ x inside autocast, three times, in a row."""
    graph = Graph()
    x = graph.placeholder("x")
    enter = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, True, None))
    first = graph.call_function(torch.mm, (x, x))
    second = graph.call_function(torch.mm, (first, x))
    third = graph.call_function(torch.mm, (second, x))
    graph.call_function(_exit_autocast, (enter,))
    graph.output(graph.call_function(torch.mul, (third, 2.0)))
    return GraphModule(nn.Module(), graph)


def nested_autocast_graph() -> GraphModule:
    """bfloat16 around float32 around one product."""
    graph = Graph()
    x = graph.placeholder("x")
    outer = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, True, None))
    first = graph.call_function(torch.mm, (x, x))
    inner = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, False, None))
    second = graph.call_function(torch.mm, (x, x))
    graph.call_function(_exit_autocast, (inner,))
    third = graph.call_function(torch.mm, (x, x))
    graph.call_function(_exit_autocast, (outer,))
    graph.output((first, second, third))
    return GraphModule(nn.Module(), graph)


def grad_graph() -> GraphModule:
    """Gradients off for one product, and on again."""
    graph = Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.mul, (x, 2))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    second = graph.call_function(torch.mul, (first, 3))
    third = graph.call_function(torch.mul, (second, 4))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    fourth = graph.call_function(torch.mul, (first, third))
    graph.output((fourth, third, first))
    return GraphModule(nn.Module(), graph)


@pytest.fixture
def gradients_on():
    """A test that switches gradients leaves them on, whatever became of it."""
    yield
    torch.set_grad_enabled(True)


def mixed_graph() -> GraphModule:
    """Autocast while gradients are off."""
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    enter = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, True, None))
    first = graph.call_function(torch.mm, (x, x))
    second = graph.call_function(torch.mm, (first, x))
    graph.call_function(_exit_autocast, (enter,))
    third = graph.call_function(torch.mul, (x, 2.0))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output((second, third, graph.call_function(torch.mul, (x, 3.0))))
    return GraphModule(nn.Module(), graph)


def crossed_autocast_graph() -> GraphModule:
    """The autocast that is entered first is left first: to be cut, and better not to be run."""
    graph = Graph()
    x = graph.placeholder("x")
    one = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, True, None))
    two = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, False, None))
    first = graph.call_function(torch.mm, (x, x))
    graph.call_function(_exit_autocast, (one,))
    second = graph.call_function(torch.mm, (first, x))
    graph.call_function(_exit_autocast, (two,))
    graph.output(graph.call_function(torch.mul, (second, 2.0)))
    return GraphModule(nn.Module(), graph)


REGIONS = {
    "autocast": autocast_graph,
    "nested": nested_autocast_graph,
    "gradients": grad_graph,
    "mixed": mixed_graph,
}


@pytest.mark.stretch
def test_a_partition_resumes_and_suspends_what_reaches_beyond_it(lesson):
    graph = nested_autocast_graph().graph
    nodes = named(graph)
    outer, leave_outer = nodes["_enter_autocast"], nodes["_exit_autocast_1"]
    inner, leave_inner = nodes["_enter_autocast_1"], nodes["_exit_autocast"]
    groups = [
        [outer, nodes["mm"], inner],
        [nodes["mm_1"]],
        [leave_inner, nodes["mm_2"], leave_outer],
    ]
    partitions = [lesson.Partition(str(at), at, group) for at, group in enumerate(groups)]
    lesson.follow_regions(graph, partitions)
    equal(
        [(partition.resumed, partition.suspended) for partition in partitions],
        [
            ([], [leave_outer, leave_inner]),
            ([outer, inner], [leave_outer, leave_inner]),
            ([outer, inner], []),
        ],
        cause="a switch is missing, or stands in the wrong order",
        hint="the first partition enters by itself, the last leaves by itself",
    )


@pytest.mark.stretch
def test_autocast_regions_are_resumed_before_gradient_regions(lesson):
    graph = mixed_graph().graph
    nodes = named(graph)
    off, enter = nodes["_set_grad_enabled"], nodes["_enter_autocast"]
    first = lesson.Partition("0", 0, [off, enter])
    rest = [node for node in calls(graph) if node not in first.nodes]
    second = lesson.Partition("1", 1, rest)
    lesson.follow_regions(graph, [first, second])
    equal(
        names(second.resumed),
        ["_enter_autocast", "_set_grad_enabled"],
        cause="both kinds were listed together, or the gradients first",
        hint="all autocast regions, then all gradient regions",
    )


@pytest.mark.stretch
def test_an_exit_leaves_the_autocast_that_it_names(lesson):
    graph = crossed_autocast_graph().graph
    one, two, first, leave_one, second, leave_two, last = calls(graph)
    groups = [[one, two, first], [leave_one, second], [leave_two, last]]
    partitions = [lesson.Partition(str(at), at, group) for at, group in enumerate(groups)]
    lesson.follow_regions(graph, partitions)
    equal(
        [(names(partition.resumed), names(partition.suspended)) for partition in partitions],
        [
            ([], [leave_one.name, leave_two.name]),
            ([one.name, two.name], [leave_two.name]),
            ([two.name], []),
        ],
        cause="an exit was taken to end the region that was entered last",
        hint="an exit has its enter as argument: ask it which one it means",
    )


@pytest.mark.stretch
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_crossed_regions_are_cut_as_torch_cuts_them(lesson, stages):
    m = crossed_autocast_graph()
    same_submodules(
        lesson.split_module(m, m, in_stages(m, stages)),
        torch_split_module(m, m, in_stages(m, stages)),
        hint="see what follow_regions asks for",
    )


@pytest.mark.stretch
def test_nothing_crosses_from_a_switch(lesson):
    m = autocast_graph()
    first, second = crossed(lesson, m, "_enter_autocast mm", "mm_1 mm_2 _exit_autocast mul")
    equal(
        (names(first.outputs), names(second.inputs)),
        (["mm"], ["mm", "x"]),
        cause="_exit_autocast takes the node of _enter_autocast, and this was passed on",
        hint="leave out what is_switch tells: follow_regions brings it along",
    )


@pytest.mark.stretch
def test_switches_are_copied_before_the_inputs_and_after_the_nodes(lesson):
    m = nested_autocast_graph()
    nodes = named(m.graph)
    enters = [nodes["_enter_autocast"], nodes["_enter_autocast_1"]]
    leaves = [nodes["_exit_autocast_1"], nodes["_exit_autocast"]]
    partition = lesson.Partition(
        "1",
        nodes=[nodes["mm_1"]],
        resumed=enters,
        suspended=leaves,
        inputs={nodes["x"]: None},
        outputs={nodes["mm_1"]: []},
    )
    submodule = lesson.build_submodule(partition, m)
    equal(
        [str(row).partition(" = ")[2] for row in rows(submodule.graph)][2:],
        [
            "placeholder x()",
            "call_function mm(x, x)",
            "call_function _exit_autocast(_enter_autocast_1)",
            "call_function _exit_autocast(_enter_autocast)",
            "output output(mm)",
        ],
        cause="resumed or suspended was not looked at, or stands at another place",
        hint="copy what is resumed first; before the output what is suspended, the last first",
    )


@pytest.mark.stretch
@pytest.mark.parametrize("stages", [2, 3, 4, 8])
@pytest.mark.parametrize("region", REGIONS)
def test_regions_are_cut_as_torch_cuts_them(lesson, region, stages):
    m = REGIONS[region]()
    callback = in_stages(m, min(stages, len(calls(m.graph))))
    same_submodules(
        lesson.split_module(m, m, callback),
        torch_split_module(m, m, callback),
        hint="see what follow_regions asks for",
    )


@pytest.mark.stretch
@pytest.mark.parametrize("region", REGIONS)
def test_a_cut_region_computes_what_the_whole_computes(lesson, region, gradients_on):
    m = REGIONS[region]()
    split = lesson.split_module(m, m, in_stages(m, 3))
    x = torch.rand(3, 3, requires_grad=True)
    ours, theirs = split(x), m(x)
    same_numbers(ours, theirs, cause="a partition runs without the switch before it")
    equal(
        [value.requires_grad for value in pytree_leaves(ours)],
        [value.requires_grad for value in pytree_leaves(theirs)],
        cause="gradients are on where they were off, or the other way round",
        hint="repeat the switch at the start of every partition that its region reaches",
    )


def pytree_leaves(value):
    return torch.utils._pytree.tree_leaves(value)


@pytest.mark.beyond("fails with KeyError: it looks for the partition without its affix")
@pytest.mark.parametrize("region", REGIONS)
def test_an_affix_and_a_region_go_together(lesson, region):
    m = REGIONS[region]()
    split = lesson.split_module(m, m, in_stages(m, 3), partition_affix="pp")
    equal(
        list(submodules(split)),
        ["submod_pp_0", "submod_pp_1", "submod_pp_2"],
        cause="partitions were looked up by number, but are named with the affix",
        hint="keep the partitions themselves, not their numbers",
    )


@pytest.mark.beyond("runs what comes before the switch after it")
def test_nothing_moves_behind_a_switch(lesson, gradients_on):
    graph = Graph()
    x = graph.placeholder("x")
    before = graph.call_function(torch.relu, (x,))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    after = graph.call_function(torch.tanh, (x,))
    graph.output((before, after))
    m = GraphModule(nn.Module(), graph)
    split = lesson.split_module(m, m, numbered(relu=0, _set_grad_enabled=1, tanh=1))
    value, _ = split(torch.rand(3, requires_grad=True))
    holds(
        value.requires_grad,
        "relu, before gradients are switched off, to run with gradients",
        got=split.code,
        cause="the partition with the switch was called first",
        hint="of all that are ready, the first in the graph goes first",
    )


@pytest.mark.beyond("an AssertionError")
def test_numbers_that_go_down_are_refused_where_something_is_switched(lesson):
    m = autocast_graph()
    callback = numbered(_enter_autocast=1, mm=1, mm_1=0, mm_2=1, _exit_autocast=1, mul=1)
    with refuses(
        RuntimeError,
        "mm_1",
        "submod_0",
        cause="mm_1 would run in a partition before the switch, or in none of the region's",
        hint="compare the number of each call with the highest so far, and name the node",
    ):
        lesson.split_module(m, m, callback)


@pytest.mark.beyond("an AssertionError that names nothing")
def test_an_autocast_without_an_end_is_refused(lesson):
    m = autocast_graph()
    leave = named(m.graph)["_exit_autocast"]
    m.graph.erase_node(leave)
    with refuses(
        RuntimeError,
        "_enter_autocast",
        cause="a region without an end would reach into whatever runs next",
        hint="when the graph ends, no autocast may be open",
    ):
        lesson.split_module(m, m, lambda node: 0)


@pytest.mark.beyond("fails with KeyError")
@pytest.mark.parametrize("named_enter", ["_enter_autocast", None])
def test_an_autocast_that_ends_twice_is_refused(lesson, named_enter):
    m = autocast_graph()
    nodes = named(m.graph)
    with m.graph.inserting_after(nodes["_exit_autocast"]):
        m.graph.call_function(_exit_autocast, (nodes[named_enter],) if named_enter else ())
    with refuses(
        RuntimeError,
        "_exit_autocast_1",
        cause="the second exit has nothing to leave",
        hint="an exit closes the region of its argument; then it is no longer open",
    ):
        lesson.split_module(m, m, lambda node: 0)


@pytest.mark.beyond("an AssertionError")
def test_a_switch_that_the_graph_computes_is_refused(lesson):
    graph = Graph()
    mode = graph.placeholder("mode")
    graph.call_function(torch._C._set_grad_enabled, (mode,))
    graph.output(mode)
    m = GraphModule(nn.Module(), graph)
    with refuses(
        RuntimeError,
        "_set_grad_enabled",
        "mode",
        cause="a partition that repeats the call would have to get its setting first",
        hint="the arguments of a switch are constants: refuse nodes",
    ):
        lesson.split_module(m, m, lambda node: 0)


# Symbolic sizes (stretch)


def symbolic_graph(*, size_first: bool) -> GraphModule:
    """relu, then add, of a tensor whose first size is symbolic."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        fake = torch.empty(mode.shape_env.create_unbacked_symint(), 3)
    graph = Graph()
    size = graph.placeholder("size") if size_first else None
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    late = size or graph.call_method("size", (relu, 0))
    add = graph.call_function(torch.add, (relu, 1))
    late.meta["example_value"] = fake.shape[0]
    for node in (x, relu, add):
        node.meta["example_value"] = fake
    graph.output(add)
    return GraphModule(nn.Module(), graph)


@pytest.mark.stretch
def test_a_tensor_brings_its_symbolic_size_along(lesson):
    m = symbolic_graph(size_first=True)
    callback = numbered(relu=0, add=1)
    same_split(
        lesson.split_module(m, m, callback),
        torch_split_module(m, m, callback),
        hint="the node that bound the symbol comes in right after the tensor",
    )


def sizes_graph() -> GraphModule:
    """Three symbols, held by more placeholders than there are; two belong to the tensor."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        first, second, other = (mode.shape_env.create_unbacked_symint() for _ in range(3))
        fake = torch.empty(second, first)
    held = {"b": second, "other": other, "a": first, "b_again": second, "text": "3"}
    held |= {"twice": first * 2, "x": fake}
    graph = Graph()
    for name, value in held.items():
        graph.placeholder(name).meta["example_value"] = value
    x = named(graph)["x"]
    relu = graph.call_function(torch.relu, (x,))
    relu.meta["example_value"] = fake
    graph.output(graph.call_function(torch.add, (relu, 1)))
    return GraphModule(nn.Module(), graph)


@pytest.mark.stretch
def test_a_tensor_brings_the_first_holder_of_each_of_its_sizes(lesson):
    m = sizes_graph()
    callback = numbered(relu=0, add=1)
    same_split(
        lesson.split_module(m, m, callback),
        torch_split_module(m, m, callback),
        hint="the free symbols of this tensor alone, sorted by name; the first node that is one",
    )


RAW_SIZES = {
    "argument": lambda size: ((size,), {}),
    "list": lambda size: (([1, (size,)],), {}),
    "keyword": lambda size: ((1,), {"size": size}),
    "dict": lambda size: ((1,), {"sizes": {"first": [size]}}),
    "none": lambda size: ((1, [2]), {"sizes": {"first": 3}}),
}


def graph_with_a_raw_size(place: str) -> GraphModule:
    """One call with a symbolic size among its arguments, which no node holds."""
    graph = Graph()
    arguments, options = RAW_SIZES[place](ShapeEnv().create_unbacked_symint())
    call = graph.create_node(
        "call_function", torch.full, arguments, options, name="filled", type_expr=torch.Tensor
    )
    graph.output(call)
    return GraphModule(nn.Module(), graph)


def heard_from(split_module, m: GraphModule) -> tuple[GraphModule, list[str]]:
    """The split model, and what was warned of meanwhile."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        split = split_module(m, m, lambda node: 0, keep_original_node_name=True)
    return split, [str(warning.message) for warning in heard]


@pytest.mark.stretch
@pytest.mark.filterwarnings("ignore:Raw SymInt")
@pytest.mark.parametrize("place", RAW_SIZES)
def test_a_symbolic_size_that_no_node_holds_is_kept_and_warned_of(lesson, place):
    m = graph_with_a_raw_size(place)
    ours, our_words = heard_from(lesson.split_module, m)
    theirs, their_words = heard_from(torch_split_module, m)
    same_split(ours, theirs)
    equal(
        our_words,
        their_words,
        cause="torch warns wherever a node with such an argument is created",
        hint="create the copy together with its arguments",
    )


@pytest.mark.stretch
def test_a_tensor_that_stays_inside_brings_nothing_along(lesson):
    m = sizes_graph()
    del named(m.graph)["x"].meta["example_value"]
    same_split(
        lesson.split_module(m, m, lambda node: 0),
        torch_split_module(m, m, lambda node: 0),
        hint="sizes come with the tensors that come in",
    )


@pytest.mark.beyond("makes the partition depend on itself: a cycle")
def test_a_size_taken_in_the_partition_itself_does_not_come_in(lesson):
    m = symbolic_graph(size_first=False)
    split = lesson.split_module(m, m, numbered(relu=0, size=1, add=1))
    equal(
        [node.name for node in split.submod_1.graph.find_nodes(op="placeholder")],
        ["relu"],
        cause="the node that binds the symbol lives in this very partition",
        hint="only what was bound before, and elsewhere, can come in",
    )


@pytest.mark.beyond("fails with KeyError")
def test_a_size_that_no_node_holds_does_not_come_in(lesson):
    m = symbolic_graph(size_first=True)
    del named(m.graph)["size"].meta["example_value"]
    split = lesson.split_module(m, m, numbered(relu=0, add=1))
    equal(
        [node.name for node in split.submod_1.graph.find_nodes(op="placeholder")],
        ["relu"],
        cause="a symbol was looked up that no node of the graph has bound",
        hint="leave it out: the tensor itself carries its size",
    )


# Random graphs


OPERATIONS = ("add", "method", "module", "list", "getitem")


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3))
        self.register_buffer("offset", torch.rand(3))
        self.deep = nn.Sequential(nn.Sequential(nn.Linear(3, 3)))


def random_graph(draw) -> GraphModule:
    """Up to twelve calls, each of values made before it; up to three of them go out."""
    graph = Graph()
    values = [graph.placeholder("x"), graph.placeholder("y"), graph.get_attr("weight")]
    values.append(graph.get_attr("offset"))
    for operation in draw(st.lists(st.sampled_from(OPERATIONS), max_size=12)):
        a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        values.append(random_call(graph, operation, a, b))
    graph.output(tuple(draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))))
    return GraphModule(Parts(), graph)


def random_call(graph: Graph, operation: str, a: Node, b: Node) -> Node:
    if operation == "method":
        return graph.call_method("add", (a,), {"other": b})
    if operation == "module":
        return graph.call_module("deep.0.0", (a,))
    if operation == "list":
        return graph.call_function(torch.einsum, ("i,i->i", [a, b]))
    if operation == "getitem":
        return graph.call_function(operator.getitem, (a, (slice(None, None), None, 0)[:1]))
    return graph.call_function(torch.add, (a, b), {"alpha": 0.5})


@st.composite
def cuts(draw):
    """A graph, and a number for each of its calls: any, along the graph, or one each."""
    m = random_graph(draw)
    nodes = calls(m.graph)
    numbers = draw(st.lists(st.integers(0, 3), min_size=len(nodes), max_size=len(nodes)))
    shape = draw(st.sampled_from(["any", "along the graph", "one each"]))
    if shape == "along the graph":
        numbers.sort()
    elif shape == "one each":
        numbers = list(range(len(nodes)))
    return Cut(m, dict(zip(nodes, numbers, strict=True)).__getitem__)


class Cut(NamedTuple):
    m: GraphModule
    callback: Callable[[Node], int]


def outcome(split_module, *arguments, **options):
    """The split model, or None where the cut is refused for a cycle."""
    try:
        return split_module(*arguments, **options)
    except NotImplementedError:
        raise
    except RuntimeError:
        return None


MANY = 60
SOME_AND_MANY = pytest.mark.parametrize("examples", [20, asking_more(MANY)])


def for_any_cut(check, examples: int = MANY, **strategies) -> None:
    """Call ``check`` with so many graphs and cuts, the same ones every time."""
    always_the_same = settings(
        max_examples=examples, deadline=None, database=None, derandomize=True
    )
    always_the_same(given(cut=cuts(), **strategies)(check))()


@SOME_AND_MANY
def test_whatever_torch_can_cut_has_the_same_submodules(lesson, examples):
    def check(cut):
        ours = outcome(lesson.split_module, cut.m, cut.m, cut.callback)
        theirs = outcome(torch_split_module, cut.m, cut.m, cut.callback)
        holds(
            (ours is None) == (theirs is None),
            "a cut to be refused exactly where torch refuses it",
            got=(ours, theirs),
            cause="a dependency between partitions is missing, or there is one too many",
            hint="depend on the partition that makes the value, and on no other",
        )
        if theirs is not None:
            same_submodules(ours, theirs)

    for_any_cut(check, examples)


@pytest.mark.stretch
@TUPLE_RETURN
def test_with_any_options_the_submodules_are_those_of_torch(lesson):
    def check(cut, named, positional, wrapped):
        options = {
            "keep_original_node_name": named,
            "keep_original_input_name": not positional,
            "tuple_return": wrapped,
        }
        our_paths, their_paths = {}, {}
        ours = outcome(lesson.split_module, cut.m, cut.m, cut.callback, our_paths, **options)
        theirs = outcome(torch_split_module, cut.m, cut.m, cut.callback, their_paths, **options)
        if theirs is not None:
            same_submodules(ours, theirs, hint=f"the options are {options}")
            equal(our_paths, their_paths, cause="qualname_map", hint=f"the options are {options}")

    yes_or_no = st.booleans()
    for_any_cut(check, named=yes_or_no, positional=yes_or_no, wrapped=yes_or_no)


@SOME_AND_MANY
def test_whatever_is_cut_computes_the_same_numbers_and_gradients(lesson, examples):
    def check(cut):
        split = outcome(lesson.split_module, cut.m, cut.m, cut.callback)
        if split is None:
            return
        inputs = [torch.rand(3, requires_grad=True), torch.rand(3)]
        same_numbers(
            numbers_and_gradients(split, cut.m, inputs),
            numbers_and_gradients(cut.m, cut.m, inputs),
            cause="a value was passed to the wrong place",
            hint="compare split.code with the code of the model",
        )

    for_any_cut(check, examples)


def numbers_and_gradients(run, model: nn.Module, inputs):
    """What ``run`` returns, and the gradients of the model's parameters and the inputs."""
    result = run(*inputs)
    total = sum(value.sum() for value in pytree_leaves(result))
    leaves = [leaf for leaf in (*inputs, *model.parameters()) if leaf.requires_grad]
    if not total.requires_grad:
        return result, ()
    return result, torch.autograd.grad(total, leaves, allow_unused=True)


# Real models


MODELS = {
    "resnet18": lambda: (torchvision.models.resnet18(), 64),
    "resnet50": lambda: (torchvision.models.resnet50(), 64),
    "vit_b_16": lambda: (torchvision.models.vit_b_16(image_size=32), 32),
    "convnext_tiny": lambda: (torchvision.models.convnext_tiny(), 32),
}


def model_and_image(name: str):
    torch.manual_seed(0)
    model, size = MODELS[name]()
    return model.eval(), torch.rand(1, 3, size, size)


def test_resnet18_is_cut_as_torch_cuts_it(lesson):
    model, _ = model_and_image("resnet18")
    m = trace(model)
    same_split(
        lesson.split_module(m, model, in_stages(m, 4)),
        torch_split_module(m, model, in_stages(m, 4)),
        hint="run the tests of the steps first: they look at one thing each",
    )


def test_resnet18_can_be_cut_by_its_layers(lesson):
    model, image = model_and_image("resnet18")
    m = trace(model)
    stages = {"layer1": 1, "layer2": 2, "layer3": 3, "layer4": 4, "avgpool": 5, "fc": 5, "": 5}

    def by_layer(node):
        outermost = next(iter(node.meta.get("nn_module_stack", {})), "")
        return stages.get(outermost.split(".")[0], 0)

    split = lesson.split_module(m, model, by_layer)
    equal(list(submodules(split)), [f"submod_{number}" for number in range(6)])
    same_numbers(split(image), model(image), cause="a value was passed to the wrong place")


@pytest.mark.stretch
@pytest.mark.parametrize("seed", random_models.SEEDS)
def test_a_random_tree_is_cut_as_torch_cuts_it(lesson, seed):
    specimen = random_models.tree(seed)
    m = trace(specimen.model)
    split = lesson.split_module(m, specimen.model, in_stages(m, 5))
    theirs = torch_split_module(m, specimen.model, in_stages(m, 5))
    # Which of two independent partitions goes first is another test's business.
    same_submodules(split, theirs)
    equal(Counter(targets_of(split)), Counter(targets_of(theirs)))
    same_numbers(split(*specimen.inputs), specimen.eager(), cause="a value went elsewhere")


@pytest.mark.stretch
@pytest.mark.parametrize("seed", random_models.SEEDS)
def test_a_random_tree_in_scattered_pieces_computes_the_same(lesson, seed):
    specimen = random_models.tree(seed)
    m = trace(specimen.model)
    numbers = growing_numbers(m.graph, random.Random(seed))
    split = lesson.split_module(m, specimen.model, numbers.__getitem__)
    same_submodules(split, torch_split_module(m, specimen.model, numbers.__getitem__))
    same_numbers(split(*specimen.inputs), specimen.eager(), cause="a value went elsewhere")


def growing_numbers(graph: Graph, chance: random.Random) -> dict[Node, int]:
    """Partitions in any order along the graph, but never before one that a node needs."""
    numbers: dict[Node, int] = {}
    for node in calls(graph):
        least = max((numbers.get(needed, 0) for needed in node.all_input_nodes), default=0)
        numbers[node] = least + chance.choice([0, 0, 0, 1, 2])
    return numbers


@pytest.mark.stretch
@pytest.mark.parametrize("seed", range(20))
def test_a_random_tree_in_any_pieces_is_a_cycle_where_it_is_one_for_torch(lesson, seed):
    m = trace(random_models.tree(seed).model)
    chance = random.Random(seed)
    numbers = {node: chance.randrange(2) for node in calls(m.graph)}
    try:
        torch_split_module(m, m, numbers.__getitem__)
    except RuntimeError:
        with refuses(RuntimeError, "ycle", cause="a cycle wasn't noticed"):
            lesson.split_module(m, m, numbers.__getitem__)
    else:
        lesson.split_module(m, m, numbers.__getitem__)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_computes_the_same_numbers_and_gradients(lesson, name):
    model, image = model_and_image(name)
    m = trace(model)
    splits = {
        stages: lesson.split_module(m, model, in_stages(m, stages))
        for stages in (2, 4, 8, len(calls(m.graph)))
    }
    expected = numbers_and_gradients(model, model, [image])
    for stages, split in splits.items():
        same_numbers(
            numbers_and_gradients(split, model, [image]),
            expected,
            cause=f"in {stages} stages, a value was passed to the wrong place",
            hint="try a small model first: the tests above print whole graphs",
        )


@pytest.mark.stretch
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_pipeline_front_of_torch_takes_it_in_place_of_its_own(lesson, monkeypatch):
    def cut_at_the_second():
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(3)))
        places = {"1": SplitPoint.BEGINNING}
        return pipeline(model, (torch.rand(2, 3),), split_spec=places).split_gm

    theirs = cut_at_the_second()
    monkeypatch.setattr("torch.distributed.pipelining._IR.split_module", lesson.split_module)
    same_split(cut_at_the_second(), theirs, hint="it cuts with partition_affix='pp'")


@pytest.mark.stretch
@pytest.mark.parametrize("partitions", [lambda nodes: 4, lambda nodes: nodes], ids=["few", "many"])
def test_the_work_is_linear_in_the_nodes_and_in_the_partitions(lesson, partitions):
    def work(nodes: int) -> Callable[[], object]:
        gm = trace(nn.Sequential(*(nn.ReLU() for _ in range(nodes))))
        return lambda: lesson.split_module(gm, gm, in_stages(gm, partitions(nodes)))

    factor = growth(work, 30)
    holds(
        factor < LINEAR,
        "twice the steps for twice the nodes",
        got=f"{factor:.1f} times the steps",
        cause="each partition, or each value, goes through the whole graph",
        hint="walk the graph once, and remember for each node its partition",
    )
