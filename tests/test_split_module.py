"""Cutting a graph into partitions: each step alone, then the whole function beside torch's."""

import re
from collections import Counter

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace as torch_symbolic_trace
from torch.fx.passes.split_module import split_module as torch_split_module

from tests import zoo
from tests.models.split_module import (
    Chain,
    TwoViews,
    calls,
    copied,
    crossed,
    fused,
    in_order,
    in_stages,
    layers,
    named,
    names,
    numbered,
    numbers_and_gradients,
    outcome,
    part,
    random_cut,
    same_classes,
    same_split,
    same_submodules,
    stitched,
    submodules,
    untouched,
    uses_tensors_late,
)
from tests.suite import equal, holds, is_value, noting, refuses, rows, same_graph, same_numbers
from tests.suite.chance import by_chance, showing
from tests.suite.engine import new_graph, symbolic_trace

# --- Step 1: assign_nodes


def test_each_call_goes_to_the_partition_that_the_callback_names(lesson):
    graph = symbolic_trace(Chain()).graph
    numbers = {"tanh": 7, "outer_0_0": 3, "relu": "7"}
    partitions = lesson.assign_nodes(graph, lambda node: numbers.get(node.name, 0))
    equal(
        [(partition.name, names(partition.nodes)) for partition in partitions],
        [("7", ["tanh", "relu"]), ("3", ["outer_0_0"])],
        cause=[
            (is_value([("3", ["outer_0_0"]), ("7", ["tanh", "relu"])]), "they were sorted"),
            (lambda got: "0" in dict(got), "the callback was asked about a node that isn't a call"),
            (lambda got: len(got) == 3, 'the answers 7 and "7" have the same text'),
        ],
    )


def test_the_callback_is_called_once_for_each_call(lesson):
    m, asked = symbolic_trace(TwoViews()), Counter()
    with untouched(m):
        lesson.assign_nodes(m.graph, lambda node: asked.update([node.name]) or 0)
    others = {node.name: 1 for node in calls(m.graph) if node.op != "call_method"}
    equal(
        dict(asked),
        {node.name: 1 for node in calls(m.graph)},
        cause=[
            (lambda got: max(got.values()) > 1, "the callback was called again for a node"),
            (is_value(others), "a `call_method` node is a call, too"),
        ],
    )


def test_the_partitions_are_of_the_class_that_is_asked_for(lesson):
    class Kernel(lesson.Partition):
        pass

    (kernel,) = lesson.assign_nodes(symbolic_trace(Chain()).graph, lambda node: 0, Kernel)
    equal(type(kernel), Kernel, hint="make the partitions with `kind`")


# --- Step 2: collect_crossings


def nested(x):
    return torch.add(torch.cat([x, torch.relu(x)])[: x.size(0)], other=torch.tanh(x))


def crossing(x):
    a, b, c = torch.relu(x), torch.tanh(x), torch.neg(x)
    return (b + 1) * (a - c) - b


# A model, the calls of its partitions, and for each its inputs and its outputs.
CROSSINGS = {
    "the graph's output is a user too": (
        lambda x: (x + 1) * 2,
        ["add", "mul"],
        [("x", "add"), ("add", "mul")],
    ),
    "values may be in a list, a slice or a keyword argument: `node.all_input_nodes`": (
        nested,
        ["relu size tanh", "cat getitem add"],
        [("x", "relu size tanh"), ("x relu size tanh", "add")],
    ),
    "a value that nothing uses doesn't leave": (
        lambda x: (torch.tanh(x), torch.relu(x))[1],
        ["tanh", "relu"],
        [("x", ""), ("x", "relu")],
    ),
    "a value used elsewhere is an output there and an input here": (
        Chain,
        ["tanh outer_0_0", "relu"],
        [("x", "outer_0_0"), ("outer_0_0", "relu")],
    ),
    "each partition that uses a value takes it": (
        lambda x: ((once := x + 1).relu(), once.tanh()),
        ["add", "relu", "tanh"],
        [("x", "add"), ("add", "relu"), ("add", "tanh")],
    ),
    "the get_attr node of a parameter is passed in like a placeholder": (
        TwoViews,
        ["mul encoder encoder_1 softmax softmax_1 maximum"],
        [("left scale right", "maximum")],
    ),
    "in the order of first use: go through the graph's nodes, not partition by partition": (
        crossing,
        ["relu tanh", "neg sub", "add mul sub_1"],
        [("x", "tanh relu"), ("x relu", "sub"), ("tanh sub", "sub_1")],
    ),
}


@pytest.mark.parametrize("case", CROSSINGS)
def test_the_values_that_cross_are_outputs_here_and_inputs_there(lesson, case):
    model, groups, expected = CROSSINGS[case]
    m = symbolic_trace(model() if isinstance(model, type) else model)
    partitions = crossed(lesson, m, *groups)
    got = [(" ".join(names(p.inputs)), " ".join(names(p.outputs))) for p in partitions]
    itself = any({*each.inputs} & {*each.nodes} for each in partitions)
    inside = any({*value.users} <= {*each.nodes} for each in partitions for value in each.outputs)
    unordered = lambda pairs: [[{*text.split()} for text in pair] for pair in pairs]
    missed = "a value in a list, a slice or a keyword argument was missed"
    cause = [
        (itself, "a value that a partition makes is its input"),
        (inside, "a value that is used nowhere else is an output"),
        (
            unordered(got) == unordered(expected),
            "the order isn't that in which the graph's nodes first use the values",
        ),
        (is_value([("", "add"), ("add", "mul")]), "placeholders enter too, with None as the maker"),
        (is_value([("x", "add"), ("add", "")]), "the graph's output is a user too"),
        (is_value([("left right", "maximum")]), "the get_attr node of a parameter enters too"),
        (lambda got: got[1:] in ([("", "add")], [("x relu size", "add")]), missed),
    ]
    equal(got, expected, cause=cause)


def test_an_input_is_mapped_to_the_partition_that_makes_it(lesson):
    first, second = crossed(lesson, symbolic_trace(Chain()), "tanh outer_0_0", "relu")
    equal(
        [[*first.inputs.values()], [*second.inputs.values()]],
        [[None], [first]],
        hint="`inputs` maps a value to its maker, which is None for placeholders and parameters",
    )


# --- Step 3: order_partitions


def partitions_called(lesson, *called: str):
    return [lesson.Partition(name) for name in called]


@by_chance(10)
def test_each_of_many_partitions_runs_after_those_it_depends_on(lesson, chance):
    graph, count = new_graph(), chance.randint(2, 30)
    *partitions, free = every = partitions_called(lesson, *map(str, range(count)))
    for number, partition in enumerate(partitions[1:], start=1):
        makers = chance.sample(partitions[:number], k=min(number, 2))
        partition.inputs = {graph.call_function(torch.rand, (1,)): maker for maker in makers}
    chance.shuffle(every)
    ordered = lesson.order_partitions(list(every))
    early = [one for at, one in enumerate(ordered) if not set(one.dependencies) <= {*ordered[:at]}]
    holds(
        not early and Counter(ordered) == Counter(every),
        f"each of {count} partitions once, and after all that it depends on",
        got=[partition.name for partition in ordered],
        cause=(free not in ordered, "a partition without dependencies is missing"),
    )


@pytest.mark.parametrize(
    ("listed", "needed", "expected"),
    [
        ("user one two", "one", ["one", "user", "two"]),
        ("user one two", "two", ["one", "two", "user"]),
        ("one two user", "one", ["one", "two", "user"]),
    ],
)
def test_of_several_ready_partitions_the_first_in_the_list_runs_first(
    lesson, listed, needed, expected
):
    partitions = {each.name: each for each in partitions_called(lesson, *listed.split())}
    relu = calls(symbolic_trace(Chain()).graph)[0]
    partitions["user"].inputs = {relu: partitions[needed]}
    ordered = lesson.order_partitions(list(partitions.values()))
    equal([partition.name for partition in ordered], expected)


@pytest.mark.parametrize("called", [("17", "4"), ("1", "2", "3")], ids=["of two", "of three"])
def test_a_cycle_is_refused_and_only_its_partitions_are_named(lesson, called):
    nodes = calls(symbolic_trace(Chain()).graph)
    cycle = partitions_called(lesson, *called)
    for user, value, maker in zip(cycle, nodes, [cycle[-1], *cycle]):
        user.inputs = {value: maker}
    before, after = partitions_called(lesson, "before", "after")
    cycle[0].inputs[nodes[-1]], after.inputs = before, {nodes[0]: cycle[0]}
    with refuses(
        RuntimeError,
        *(partition.submod_name for partition in cycle),
        cause=[
            (lambda error: error is None, "the cycle was not found"),
            (
                lambda error: "Partition(" in str(error),
                "the message has the text of the partitions, which isn't their submod_name",
            ),
            (lambda error: "submod_" in str(error), "not all partitions of the cycle are named"),
        ],
        hint="args[1] of the CycleError is the cycle: name each partition by its submod_name",
    ):
        try:
            lesson.order_partitions([before, *cycle, after])
        except RuntimeError as error:
            strangers = re.findall("submod_(?:before|after)", str(error))
            equal(strangers, [], cause=(bool, "a partition that isn't in the cycle was named"))
            raise


# --- Step 4: copy_nodes, build_graph, build_submodule


def test_copies_use_the_nodes_of_their_own_graph(lesson):
    m = symbolic_trace(lambda x, dim: torch.cat([torch.relu(x), x], dim=dim))
    graph = copied(lesson, m, "x dim", "relu cat")
    equal(
        [str(row) for row in rows(graph)],
        [
            "new_x = placeholder new_x()",
            "new_dim = placeholder new_dim()",
            "relu = call_function relu(new_x)",
            "cat = call_function cat([relu, new_x], dim=new_dim)",
        ],
        cause=[
            (lambda got: "(x)" in got[2], "an argument is a node of the original graph"),
            (lambda got: "dim" not in got[-1], "the copy was made without node.kwargs"),
        ],
        hint="map_arg(node.args, environment.__getitem__), and the same for kwargs",
    )


def test_a_copy_has_the_type_and_a_copy_of_the_meta(lesson):
    m = symbolic_trace(lambda x: torch.relu(torch.tanh(x)))
    tanh = calls(m.graph)[0]
    tanh.type, tanh.meta["note"] = torch.Tensor, "a note"
    (call,) = calls(copied(lesson, m, "x", "tanh"))
    placeholder, *_ = lesson.build_graph(part(lesson, m, "tanh", "relu", "relu")).nodes
    hint = "create_node and placeholder take the type; copy the meta afterwards"
    for copy in (call, placeholder):
        equal((copy.type, copy.meta.get("note")), (torch.Tensor, "a note"), hint=hint)
        shared = (copy.meta is tanh.meta, "original and copy share one dict")
        holds(copy.meta is not tanh.meta, "a meta dict of its own for each copy", cause=shared)


def test_copies_get_new_names_unless_they_should_keep_theirs(lesson):
    m = symbolic_trace(lambda x: torch.relu(x + 1) + 2)
    fresh = copied(lesson, m, "relu", "add_1")
    kept = copied(lesson, m, "relu", "add_1", keep_original_node_name=True)
    submodule = lesson.build_submodule(part(lesson, m, "relu", "add_1", "add_1"), m, True)
    equal(
        [calls(graph)[0].name for graph in (fresh, kept, submodule.graph)],
        ["add", "add_1", "add_1"],
        cause=[
            (lambda got: got[1] == "add", "keep_original_node_name has no effect in `copy_nodes`"),
            (lambda got: got[0] == "add_1", "names are kept without keep_original_node_name"),
            (lambda got: got[2] == "add", "build_submodule or build_graph loses the option"),
            (lambda got: got[2] == "relu", "an input was copied as a call: make a placeholder"),
        ],
    )


def test_a_single_value_is_returned_as_it_is_and_otherwise_a_tuple(lesson):
    m = symbolic_trace(Chain())
    parts = [
        part(lesson, m, "x", "tanh outer_0_0", outputs)
        for outputs in ("tanh", "", "outer_0_0 tanh")
    ]
    equal(
        [str(rows(lesson.build_graph(each))[-1]) for each in parts],
        [
            "output = output output(tanh)",
            "output = output output(())",
            "output = output output((outer_0_0, tanh))",
        ],
        cause=(lambda got: "(tanh,)" in got[0], "a single value is wrapped in a tuple"),
        hint="ask partition.returns_single; without outputs, return an empty tuple",
    )


def test_placeholders_have_the_names_of_the_values_and_no_defaults(lesson):
    m = symbolic_trace(lambda input, *, scale=2.0: torch.relu(input) * scale)
    graph = lesson.build_graph(part(lesson, m, "input_1 scale", "relu mul", "mul"))
    equal(
        [(node.target, node.args) for node in graph.find_nodes(op="placeholder")],
        [("input_1", ()), ("scale", ())],
        hint="a partition always gets all of its inputs: make new placeholders",
    )


def test_the_partition_remembers_its_graph_and_the_copies(lesson):
    m = symbolic_trace(lambda x: torch.relu(x))
    partition = part(lesson, m, "x", "relu", "relu")
    graph = lesson.build_graph(partition)
    holds(partition.graph is graph, "the graph as partition.graph", hint="store it")
    old, new = list(m.graph.nodes)[:2], list(graph.nodes)[:2]
    hint = "store the dict that you used for the copies"
    equal([partition.environment.get(node) for node in old], new, hint=hint)


def test_a_nested_module_gets_a_flat_name(lesson):
    model = Chain()
    m = symbolic_trace(model)
    submodule = lesson.build_submodule(part(lesson, m, "tanh", "outer_0_0", "outer_0_0"), m)
    modules = dict(submodule.named_children())
    holds(
        [*modules] == ["outer_0_0"] and modules["outer_0_0"] is model.outer[0][0],
        "outer.0.0 as outer_0_0 in the submodule: the module itself, not a copy",
        got=modules,
        cause=(lambda got: [*got] == ["outer_0_0"], "the module was copied"),
        hint="replace the dots in the path, and pass on the module itself",
    )


def test_a_submodule_is_built_without_a_change_of_the_model(lesson):
    m = symbolic_trace(Chain())
    m.outer.eval()
    with untouched(m):
        lesson.build_submodule(part(lesson, m, "tanh", "outer_0_0", "outer_0_0"), m)


@pytest.mark.parametrize("trace", [symbolic_trace, torch_symbolic_trace])
def test_a_submodule_has_the_classes_of_the_given_one(lesson, trace):
    m = trace(lambda x: torch.relu(x))
    other = (
        lambda error: type(error) is AssertionError and "Graph" in str(error),
        "the graph isn't of the class of the nodes' graph",
    )
    with noting(cause=other, on=(AssertionError,)):
        same_classes(lesson.build_submodule(part(lesson, m, "x", "relu", "relu"), m), m)


# --- Step 5: with_calls, stitch_graph


def test_without_calls_the_copy_is_the_same_graph(lesson):
    class Model(nn.LayerNorm):
        def forward(self, x: torch.Tensor, scale: float = 2.0, *rest):
            _unused = x * 2
            return (self.weight * x).relu() * scale

    m = symbolic_trace(Model(3))
    weight = named(m.graph)["weight"]
    with m.graph.inserting_before(weight):
        weight.replace_all_uses_with(m.graph.create_node("get_attr", "weight", name="kept"))
    m.graph.eliminate_dead_code()  # so there is a mul_1, and no mul, and no weight
    for node in m.graph.nodes:
        node.meta["note"] = node.name
    partitions = in_order(lesson, m, lambda node: node.name)
    with untouched(m):
        graph = lesson.with_calls(m.graph, partitions, lambda *_: None)
    m.graph.output_node().meta.clear()  # the output is a new one
    same_graph(graph, m.graph, meta=("note",))


def test_a_call_replaces_the_nodes_of_its_partition(lesson):
    m, asked = symbolic_trace(lambda x, y: (x * 2).relu() + y), []
    partitions = in_order(lesson, m, fused("relu", "add"))

    def call(graph, partition, inputs):
        asked.append((partition, inputs))
        return graph.call_module("fused", inputs) if partition.name == "fused" else None

    graph = lesson.with_calls(m.graph, partitions, call)
    old = any(value.graph is m.graph for _, inputs in asked for value in inputs)
    in_turn = [partition for partition, _ in asked]
    equal(in_turn, partitions, hint="ask once for each partition, in the given order")
    equal(
        [str(row) for row in rows(graph)],
        [
            "x = placeholder x()",
            "y = placeholder y()",
            "mul = call_function mul(x, 2)",
            "fused = call_module fused(mul, y)",
            "output = output output(fused)",
        ],
        cause=(lambda got: "relu" in str(got), "nodes of the partition were copied as well"),
    )
    holds(
        not old and all(type(inputs) is tuple for _, inputs in asked),
        "tuples of nodes of the new graph",
        got=asked,
        cause=[(old, "they are nodes of the old graph"), (not old, "they aren't in a tuple")],
        hint="look each input up among the copies",
    )


def test_several_values_of_a_call_are_taken_out_of_its_tuple(lesson):
    m = symbolic_trace(lambda x: x.relu() + x.tanh())

    def call(graph, partition, inputs):
        return graph.call_module("pair", inputs) if partition.name == "fused" else None

    partitions = in_order(lesson, m, fused("relu", "tanh"))
    graph = lesson.with_calls(m.graph, partitions, call)
    equal(
        [str(row) for row in rows(graph)][2:-1],
        [
            "getitem = call_function getitem(pair, 0)",
            "getitem_1 = call_function getitem(pair, 1)",
            "add = call_function add(getitem, getitem_1)",
        ],
        cause=(lambda got: len(got) == 1, "the tuple itself was taken for both of its values"),
        hint="`values_of` returns a node for each",
    )


@pytest.mark.parametrize("saved", [True, False])
def test_a_buffer_is_saved_if_it_was_before(lesson, saved):
    m = symbolic_trace(
        zoo.Model(lambda model, x: model.table * x.neg(), table=nn.Buffer(torch.ones(2)))
    )
    m.register_buffer("table", m.table, persistent=saved)
    split = stitched(lesson, m, "0: x table -> mul")
    equal("table" in split.state_dict(), saved, hint="`keep_persistence` sees to it")
    holds("table" in dict(split.named_buffers()), "the buffer itself")


@pytest.mark.parametrize("trace", [symbolic_trace, torch_symbolic_trace])
def test_each_submodule_is_called_in_the_given_order(lesson, trace):
    m = trace(TwoViews())
    split = stitched(lesson, m, "1: left ->", "0: right -> maximum")
    equal(
        [str(row) for row in rows(split.graph) if row.op == "call_module"],
        ["submod_1 = call_module submod_1(left)", "submod_0 = call_module submod_0(right)"],
        hint="call every submodule, even if nothing uses its result",
    )
    equal(split.meta.get("partition_names"), {"submod_0", "submod_1"}, hint="see `Returns`")
    equal(m.meta.get("partition_names"), None, hint="`split` has a `meta` of its own")
    same_classes(split, m)


def test_parameters_at_any_depth_are_shared_not_copied(lesson):
    m = symbolic_trace(model := nn.Sequential(uses_tensors_late()))
    split = stitched(lesson, m, "0: input_1 _0_scale _0_offset -> add")
    found, owned = split.state_dict(keep_vars=True), model.state_dict(keep_vars=True)
    equal(
        [name for name, tensor in owned.items() if found.get(name) is tensor],
        ["0.scale", "0.offset"],
        cause=[
            (not owned.keys() <= found.keys(), "the outer module lacks one of these paths"),
            (lambda got: len(got) < 2, "a parameter was copied: training it leaves the original"),
        ],
    )


def test_the_output_keeps_its_structure_and_not_its_annotation(lesson):
    m = symbolic_trace(TwoViews())
    nodes = named(m.graph)
    nodes["output"].args = ({"both": [nodes["scale"], nodes["maximum"]]},)
    nodes["output"].type = torch.Tensor
    output = stitched(lesson, m, "0: left -> maximum").graph.output_node()
    equal(
        str(rows(output.graph)[-1]),
        "output = output output({'both': [scale, submod_0]})",
        cause=[
            (lambda got: "None" in got, "a value that only the output uses is None"),
        ],
        hint="map_arg keeps lists, tuples and dicts, and maps the nodes in them",
    )
    equal(output.type, None, hint="make a new output with Graph.output, from the value alone")


@pytest.mark.parametrize(("keep", "position"), [(False, 2), (True, 3)])
def test_keep_original_order_reads_a_parameter_right_before_its_first_use(lesson, keep, position):
    stages = "0: right -> encoder", "1: encoder scale -> maximum"
    split = stitched(lesson, symbolic_trace(TwoViews()), *stages, keep_original_order=keep)
    expected = ["left", "right", "submod_0", "submod_1", "output"]
    expected.insert(position, "scale")
    equal(
        names(split.graph.nodes),
        expected,
        hint="with keep_original_order, and only then, read a parameter when it is first needed",
    )


def test_keep_original_node_name_names_the_arguments_after_their_nodes(lesson):
    m = symbolic_trace(layers())
    with untouched(m):
        named_by_nodes = stitched(lesson, m, "0: input_1 -> _2", keep_original_node_name=True)
    usual = stitched(lesson, m, "0: input_1 -> _2")
    equal(
        [next(iter(split.graph.nodes)).target for split in (usual, named_by_nodes)],
        ["input", "input_1"],
        hint="with keep_original_node_name, and only then, call `rename_arguments`",
    )


# --- Step 6: split_module, beside torch's own


def test_a_graph_without_calls_has_no_partitions(lesson):
    m = symbolic_trace(lambda x: x)
    split = lesson.split_module(m, m, lambda node: 0, keep_original_order=True)
    same_graph(split.graph, m.graph, hint="placeholders always come first")


@pytest.mark.parametrize("make", [TwoViews, layers, uses_tensors_late])
@pytest.mark.parametrize(
    ("stages", "option"),
    [(1, None), (2, None), (3, None), (3, "keep_original_order"), (2, "keep_original_node_name")],
)
def test_every_graph_is_the_same_as_torchs(lesson, stages, option, make):
    model, options = make(), {option: True} if option else {}
    m, theirs = symbolic_trace(model), torch_symbolic_trace(model)
    same_split(
        lesson.split_module(m, model, in_stages(m, stages), **options),
        torch_split_module(theirs, model, in_stages(theirs, stages), **options),
        hint=f"pass {option} on to each function that takes it" if option else "",
    )


@pytest.mark.parametrize("keep", [False, True], ids=["any order", "original order"])
def test_a_cut_that_makes_a_cycle_is_refused(lesson, keep):
    m = symbolic_trace(lambda x: x.relu().tanh().relu())
    missed, hint = "the cycle was not found", "order_partitions finds it; call it in any case"
    with (
        refuses(RuntimeError, cause=missed, hint=hint),
        noting(cause=(True, missed), on=(KeyError,)),
    ):
        lesson.split_module(m, m, numbered(relu=0, tanh=1, relu_1=0), keep_original_order=keep)


def test_a_partition_may_need_one_that_the_graph_reaches_later(lesson):
    m = symbolic_trace(lambda x: x.relu() + x.tanh())
    with noting(cause=(True, "a partition ran before one that it needs"), on=(KeyError,)):
        split = lesson.split_module(m, m, numbered(relu=0, tanh=1, add=0))
    equal(list(submodules(split)), ["submod_1", "submod_0"])


def test_qualname_map_has_the_old_path_of_each_module(lesson):
    model, old_path = Chain(), {}
    m = symbolic_trace(model)
    for stages in (3, 1):
        lesson.split_module(m, model, in_stages(m, stages), old_path)
    equal(
        old_path,
        {"submod_1.outer_0_0": "outer.0.0", "submod_0.outer_0_0": "outer.0.0"},
        cause=(lambda got: not got, "an empty dict was treated like None"),
        hint="update the map with the `old_paths` of each partition, once it has its submodule",
    )


def test_the_original_is_not_changed(lesson):
    m = symbolic_trace(model := Chain())
    for mode in (True, False):  # the layers have a mode of their own
        model.outer.train(mode)
        with untouched(m):
            lesson.split_module(m, model, in_stages(m, 3))


def test_resnet18_is_cut_as_torch_cuts_it(lesson):
    model = zoo.resnet18().model
    m, theirs = symbolic_trace(model), torch_symbolic_trace(model)
    same_split(
        lesson.split_module(m, model, in_stages(m, 4)),
        torch_split_module(theirs, model, in_stages(theirs, 4)),
        meta=("nn_module_stack",),
    )


@by_chance(12)
def test_random_graphs_are_cut_as_torch_cuts_them(lesson, chance):
    m, callback, words = random_cut(chance)
    theirs = outcome(torch_split_module, m, m, callback)
    with showing(words):
        if theirs is None:
            with refuses(RuntimeError, cause="a cycle was not found", hint="see step 3"):
                lesson.split_module(m, m, callback)
            return
        split = lesson.split_module(m, m, callback)
        same_submodules(split, theirs)
        inputs = [torch.rand(3, requires_grad=True), torch.rand(3)]
        ours, whole = (numbers_and_gradients(module, m, inputs) for module in (split, m))
        same_numbers(ours, whole, hint="compare split.code with the code of the model")
