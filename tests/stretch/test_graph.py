"""``graph``: what torch's graph does besides, and where ours holds up better."""

from __future__ import annotations

import copy
import functools
import operator
import pickle

import pytest
import torch
from torch import fx, nn

from kata.torchvision_compat import torchvision
from tests import zoo
from tests.models import graph as cases
from tests.models.graph import (
    Owner,
    chain,
    copied,
    diamond,
    rebuilt,
    same_edits,
    same_print,
    same_script,
    state,
    swapped,
    unused,
)
from tests.suite import equal, growth, holds, refuses, warns_of

NUMBERED_AGAIN = pytest.mark.since("2.12", "a name's number goes on from the last one of its base")


def placeholders(lesson, names: str):
    graph = lesson.Graph()
    return [graph, *map(graph.placeholder, names)]


# --- names ----------------------------------------------------------------------------------------


def numbered_as_by_torch(lesson, candidates):
    ours, theirs = lesson.Namespace(), fx.graph._Namespace()
    expected = [theirs.create_name(each, None) for each in candidates]
    equal([ours.create_name(each) for each in candidates], expected)


@pytest.mark.parametrize("candidates", cases.NUMBERED.values(), ids=cases.NUMBERED)
def test_names_are_numbered_as_torch_numbers_them(lesson, candidates):
    numbered_as_by_torch(lesson, candidates)


@NUMBERED_AGAIN
@pytest.mark.parametrize("candidates", cases.NUMBERED_AGAIN.values(), ids=cases.NUMBERED_AGAIN)
def test_a_number_that_was_asked_for_twice_goes_on_from_the_last(lesson, candidates):
    numbered_as_by_torch(lesson, candidates)


@pytest.mark.parametrize(
    "target", [pytest.param("x_3", marks=NUMBERED_AGAIN), *cases.METHODS, *cases.FUNCTIONS]
)
def test_a_target_is_called_in_snake_case(lesson, target):
    op = "call_method" if isinstance(target, str) else "call_function"
    same_edits(lesson, lambda graph: [graph.create_node(op, target).name for _ in range(2)])


def test_a_name_can_belong_to_an_object(lesson):
    namespace = lesson.Graph()._graph_namespace
    objects = (max, min, max, None)
    equal([namespace.create_name("m", each) for each in objects], ["m", "m_1", "m", "m_2"])


@pytest.mark.beyond("it stays in the name, and the code can't be compiled")
def test_a_newline_at_the_end_is_no_part_of_a_name(lesson):
    holds(lesson.Graph().create_node("placeholder", "x", name="x\n").name.isidentifier(), "a name")


@pytest.mark.beyond("it is taken for a name that is free")
def test_none_is_a_name_of_something_else(lesson):
    equal(lesson.Graph().create_node("placeholder", "x", name="None").name, "None_1")


@pytest.mark.beyond("the name is handed out before the target is looked at")
def test_a_node_that_is_refused_takes_no_name(lesson):
    graph = lesson.Graph()
    with refuses(ValueError):
        graph.call_function("relu")
    equal(graph.call_method("relu").name, "relu")


@pytest.mark.beyond("`__name__` is taken for granted")
def test_a_function_without_a_name_can_be_called(lesson):
    line = lesson.Graph().call_function(functools.partial(max, 1)).format_node()
    holds("functools.partial" in line, "the line names its class", got=line)


@pytest.mark.beyond("as the line of source on which it stands")
def test_a_lambda_is_printed_as_one(lesson):
    line = lesson.Graph().call_function(lambda x: x).format_node()
    holds(f"target={__name__}.<lambda>]" in line, "the module, and <lambda>", got=line)


# --- creating -------------------------------------------------------------------------------------


def test_each_kind_of_node_has_its_shortcut(lesson):
    def edit(graph):
        x, y = graph.placeholder("x", int), graph.placeholder("y", default_value=None)
        graph.call_module("linear", (x,), {"key": y}, torch.Tensor)
        graph.call_method("relu", (x,), {"y": y}, int)
        graph.call_function(max, (x, y), {}, int, "y.Z")
        graph.output(graph.get_attr("linear.weight", torch.Tensor), tuple)

    same_edits(lesson, edit)


@pytest.mark.parametrize(
    ("op", "target"), [("call", "x"), ("call_function", "relu"), ("call_method", torch.relu)]
)
def test_a_node_that_cannot_be_is_refused(lesson, op, target):
    graph = lesson.Graph()
    with refuses((AssertionError, ValueError), cause="the node was created"):
        graph.create_node(op, target, name="x")
    equal(len(graph.nodes), 0)


@pytest.mark.parametrize("where", ["inserting_before", "inserting_after"])
def test_new_nodes_go_to_the_beginning_or_the_end(lesson, where):
    def edit(graph):
        with getattr(diamond(graph), where)():
            graph.get_attr("first"), graph.get_attr("second")
        graph.get_attr("afterwards")

    same_edits(lesson, edit)


def test_an_insertion_point_without_a_block_stays(lesson):
    def edit(graph):
        graph.inserting_before(graph.placeholder("x"))
        graph.get_attr("first"), graph.get_attr("second")

    same_edits(lesson, edit)


def test_the_output_is_the_last_node(lesson):
    graph = diamond(lesson.Graph())
    equal(graph.output_node().name, "output")
    graph.get_attr("after")
    with refuses((AssertionError, RuntimeError), cause="something else was returned"):
        graph.output_node()


def test_a_node_that_no_graph_created_is_checked_too(lesson):
    with refuses(ValueError, "relu", cause="the node was created"):
        lesson.Node(lesson.Graph(), "n", "call_function", "relu", (), {})


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [lambda args: args[0].append(1), lambda args: args[1].update(key=2)]
)
def test_a_container_in_the_arguments_cannot_be_changed(lesson, change):
    graph, x = placeholders(lesson, "x")
    node = graph.call_function(max, ([x], {"key": x}))
    with refuses((TypeError, NotImplementedError), cause="the users don't know of it"):
        change(node.args)


def test_one_argument_is_set(lesson):
    def edit(graph):
        x, y = graph.placeholder("x"), graph.placeholder("y")
        node = graph.call_function(max, (x, 1), {"key": x})
        node.update_arg(1, [y])
        node.update_kwarg("key", y)
        node.insert_arg(2, y)

    same_edits(lesson, edit)


@pytest.mark.parametrize("place", [-1, 3])
def test_an_argument_has_no_place_behind_the_end(lesson, place):
    graph, x = placeholders(lesson, "x")
    with refuses((AssertionError, IndexError)):
        graph.call_function(max, (x, 1)).insert_arg(place, x)


@pytest.mark.beyond(
    "`insert_arg` writes the inputs itself: the new one comes last, and a list stays the caller's"
)
def test_an_argument_that_is_inserted_is_like_any_other(lesson):
    graph, x, y = placeholders(lesson, "xy")
    node, parts = graph.call_function(max, (y,)), [x]
    node.insert_arg(0, parts)
    parts.append(1)
    equal((node.all_input_nodes, repr(node.args)), ([x, y], "([x], y)"))


@pytest.mark.parametrize("args", [{"args": [1]}, {"kwargs": [1]}, {"args": "ab"}], ids=str)
def test_arguments_of_another_type_are_refused(lesson, args):
    with refuses((AssertionError, TypeError)):
        lesson.Graph().create_node("call_function", max, **args)


@pytest.mark.parametrize("only_kwargs", [False, True])
def test_arguments_get_the_names_of_the_signature(lesson, only_kwargs):
    def edit(graph):
        x = graph.placeholder("x")
        calls = [
            graph.call_function(nn.functional.relu, (x,)),
            graph.call_function(nn.functional.relu, (x,), {"inplace": True}),
            graph.call_module("linear", (x,)),
            graph.call_module("linear", (), {"input": x}),
            graph.call_method("relu", (x,)),
        ]
        words = {"normalize_to_only_use_kwargs": only_kwargs}
        return [node.normalized_arguments(Owner(), **words) for node in calls]

    same_edits(lesson, edit)


def test_overloads_are_told_apart_by_types(lesson):
    def edit(graph):
        node = graph.call_function(torch.add, (graph.placeholder("x"), 1))
        return node.normalized_arguments(nn.Module(), (torch.Tensor, int), {})

    same_edits(lesson, edit)


def test_overloads_are_told_apart_by_types_of_keywords(lesson):
    def edit(graph):
        x, y = graph.placeholder("x"), graph.placeholder("y")
        node = graph.call_function(torch.add, (x,), {"other": y})
        types = (torch.Tensor,), {"other": torch.Tensor}
        return [node.normalized_arguments(nn.Module(), *each) for each in (types, ())]

    same_edits(lesson, edit)


def test_a_stack_trace_is_metadata(lesson):
    _, x = placeholders(lesson, "x")
    equal(x.stack_trace, None)
    x.stack_trace = "a line"
    equal((x.meta, x.stack_trace), ({"stack_trace": "a line"}, "a line"))


# --- replacing ------------------------------------------------------------------------------------


def test_an_input_may_be_replaced_by_a_value(lesson):
    def edit(graph):
        x, y = graph.placeholder("x"), graph.placeholder("y")
        node = graph.call_function(max, (x, y))
        node.replace_input_with(y, (x, 1))

    same_edits(lesson, edit)


def test_a_user_may_be_left_out(lesson):
    def edit(graph):
        x = graph.placeholder("x")
        wrapped = graph.call_method("wrap", (x,))
        graph.output([x, wrapped])
        return x.replace_all_uses_with(wrapped, lambda user: user is not wrapped)

    same_edits(lesson, edit)


def test_metadata_can_go_along(lesson):
    _, x, y = placeholders(lesson, "xy")
    x.meta["note"] = 1
    x.replace_all_uses_with(y)
    equal(y.meta, {})
    x.replace_all_uses_with(y, propagate_meta=True)
    equal(y.meta, {"note": 1})
    with refuses((AssertionError, ValueError)):
        x.replace_all_uses_with(y, propagate_meta=True)


def hooked(lesson, kind: str):
    """A graph in a module with a hook, and the list of what it heard."""
    heard, owner = [], nn.Module()
    hook = [lambda *args, **kwargs: heard.append((*map(str, args), *map(str, kwargs.values())))]
    object.__setattr__(owner, kind, hook)
    return lesson.Graph(owner), heard


def test_hooks_hear_of_nodes_that_come(lesson):
    graph, heard = hooked(lesson, "_create_node_hooks")
    graph.placeholder("x"), graph.call_method("relu")
    equal(heard, [("x",), ("relu",)])


def test_hooks_hear_of_nodes_that_go(lesson):
    graph, heard = hooked(lesson, "_erase_node_hooks")
    graph.erase_node(graph.placeholder("x"))
    equal(heard, [("x",)])


def test_hooks_hear_of_replacements_and_names(lesson):
    graph, heard = hooked(lesson, "_replace_hooks")
    x, y = graph.placeholder("x"), graph.placeholder("y")
    user = graph.call_method("relu", (x,))
    x.replace_all_uses_with(y)
    user.replace_input_with(y, x)
    x.name = "z"
    equal(heard, [("x", "y", "relu"), ("y", "x", "relu"), ("x", "z", "relu")])


# --- order ----------------------------------------------------------------------------------------


def test_nodes_are_compared_by_their_order(lesson):
    _, x, y = placeholders(lesson, "xy")
    equal((x < y, y < x, x <= x, y > x, x >= y), (True, False, True, True, False))
    equal((x < x, x > x), (False, False))
    y.append(x)
    equal((x < y, sorted([x, y])), (False, [y, x]))


@pytest.mark.parametrize("where", ["inserting_before", "inserting_after"])
def test_the_order_holds_between_any_two(lesson, where):
    graph, x, y = placeholders(lesson, "xy")
    for node in (y if where == "inserting_before" else x, None):
        with getattr(graph, where)(node):
            for _ in range(100):
                graph.placeholder("new")
    equal(sorted(reversed(graph.nodes)), list(graph.nodes))


def test_nodes_are_found_by_opcode_and_target(lesson):
    def edit(graph):
        x, relu, tanh, *_ = diamond(graph).nodes
        relu.prepend(graph.call_function(torch.tanh, (x,)))
        tanh.target = torch.relu
        wanted = [("placeholder", None), ("call_function", torch.tanh), ("call_method", "relu")]
        wanted += [("call_function", torch.relu), ("get_attr", None), ("call_method", "tanh")]
        return [graph.find_nodes(op=op, target=target) for op, target in wanted]

    same_edits(lesson, edit)


@pytest.mark.beyond("an `AssertionError`")
def test_all_functions_are_found_without_a_target(lesson):
    equal(len(chain(lesson.Graph(), 5).find_nodes(op="call_function")), 5)


# --- what was erased, or is elsewhere -------------------------------------------------------------


@pytest.mark.parametrize("edit", [lambda x, y: x.prepend(y), lambda x, y: x.graph.erase_node(y)])
def test_a_node_of_another_graph_is_left_alone(lesson, edit):
    x, y = (lesson.Graph().placeholder(name) for name in "xy")
    with refuses((AssertionError, RuntimeError, ValueError), cause="the other graph lost a node"):
        edit(x, y)


@pytest.mark.parametrize(("direction", "neighbour"), [(iter, "d"), (reversed, "b")])
def test_an_iteration_skips_nodes_that_were_erased(lesson, direction, neighbour):
    def edit(graph):
        nodes = {name: graph.placeholder(name) for name in "abcde"}
        seen = []
        for node in direction(graph.nodes):
            seen.append(node.name)
            if node.name == "c":
                graph.erase_node(node)
                graph.erase_node(nodes[neighbour])
        return seen

    same_edits(lesson, edit)


def test_erasing_twice_is_worth_a_warning(lesson):
    graph, x = placeholders(lesson, "x")
    graph.erase_node(x)
    with warns_of("x", "erased"):
        graph.erase_node(x)
    equal(len(graph.nodes), 0)


def forwards_and_back(graph):
    return len(list(graph.nodes)), len(list(reversed(graph.nodes)))


@pytest.mark.beyond("the list loses the nodes that took its place")
def test_an_erased_node_does_not_come_back(lesson):
    graph = diamond(lesson.Graph())
    *_, add, output = graph.nodes
    graph.erase_node(output)
    graph.call_method("new", (add,))
    with refuses(RuntimeError, "output", "erased"):
        add.append(output)
    equal(forwards_and_back(graph), (5, 5))


@pytest.mark.beyond("the new node is in the list in one direction")
def test_nothing_is_inserted_at_an_erased_node(lesson):
    graph = diamond(lesson.Graph())
    *_, output = graph.nodes
    with graph.inserting_before(output):
        graph.erase_node(output)
        with refuses(RuntimeError, "output", "erased"):
            graph.call_method("new")
    equal(forwards_and_back(graph), (4, 4))


@pytest.mark.beyond("node and users")
def test_the_error_of_a_node_that_is_used_says_the_way_out(lesson):
    graph = diamond(lesson.Graph())
    with refuses(RuntimeError, "x", "relu", "tanh", "replace_all_uses_with"):
        graph.erase_node(next(iter(graph.nodes)))


# --- copies ---------------------------------------------------------------------------------------


def test_a_graph_can_be_copied(lesson):
    graph = diamond(lesson.Graph(tracer_cls=fx.Tracer))
    graph.output_node().meta["note"] = 1
    graph.output_node().type = int
    twin = copy.deepcopy(graph)
    equal(state(twin), state(graph))
    equal((twin.output_node().meta, twin._tracer_cls), ({"note": 1}, fx.Tracer))


@pytest.mark.beyond("a copy has no `_tracer_extras`")
def test_a_copy_has_what_the_tracer_needs(lesson):
    graph = diamond(lesson.Graph())
    graph._tracer_extras = {"key": 1}
    equal(copy.deepcopy(graph)._tracer_extras, {"key": 1})


def test_a_long_graph_can_be_copied(lesson):
    equal(len(copy.deepcopy(chain(lesson.Graph(), 3000)).nodes), 3002)


@pytest.mark.beyond("to a node of another graph")
def test_what_refers_to_a_node_refers_to_its_copy(lesson):
    graph, x = placeholders(lesson, "x")
    for node, twin in (copy.deepcopy((x, graph)), reversed(copy.deepcopy((graph, x)))):
        holds(list(twin.nodes) == [node], "the node is in the graph")


@pytest.mark.beyond("it is a `torch.fx.Graph`")
def test_a_copy_is_of_the_same_class(lesson):
    class Special(lesson.Graph):
        pass

    equal(type(copy.deepcopy(Special())), Special)


def test_the_output_is_returned_if_asked_for(lesson):
    source = diamond(lesson.Graph())
    value, output = lesson.Graph().graph_copy(source, {}, return_output_node=True)
    equal((value.name, output), ("add", source.output_node()))
    equal(lesson.Graph().graph_copy(lesson.Graph(), {}, return_output_node=True), None)


def test_a_graph_can_be_pickled(lesson):
    graph = diamond(lesson.Graph())
    graph.output_node().args = ({"key": [1, *graph.output_node().all_input_nodes]},)
    graph.output_node().meta["note"] = 1
    with graph.inserting_before():
        graph.create_node("placeholder", "scale", name="factor", type_expr=int)
    twin = pickle.loads(pickle.dumps(graph))
    equal(state(twin), state(graph))
    equal(twin.output_node().meta, {"note": 1})
    equal(twin.call_method("relu").name, "relu_1")


@pytest.mark.beyond("each node holds the next: a `RecursionError`")
def test_a_long_graph_can_be_pickled(lesson):
    equal(len(pickle.loads(pickle.dumps(chain(lesson.Graph(), 12_000))).nodes), 12_002)


# --- the module of a graph ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "target", "is_fine"),
    [
        ("get_attr", "linear.weight", True),
        ("get_attr", "linear", True),
        ("get_attr", "linear.scale", False),
        ("get_attr", "nothing", False),
        ("call_module", "linear", True),
        ("call_module", "linear.weight", False),
        ("call_module", "nowhere", False),
        ("call_method", "nowhere", True),
    ],
)
def test_lint_looks_for_the_targets(lesson, op, target, is_fine):
    graph = lesson.Graph(Owner())
    graph.create_node(op, target)
    if is_fine:
        graph.lint()
        return
    with refuses(RuntimeError, target, cause="nothing was found"):
        graph.lint()


@pytest.mark.beyond("the class of the module isn't named")
@pytest.mark.parametrize(("op", "kind"), [("get_attr", "attribute"), ("call_module", "module")])
def test_lint_says_what_the_module_lacks(lesson, op, kind):
    graph = lesson.Graph(Owner())
    graph.create_node(op, "nowhere")
    with refuses(RuntimeError, f"the Owner has no such {kind}"):
        graph.lint()


@pytest.mark.parametrize("path", ["nowhere", "linear.nowhere"])
def test_an_attribute_that_is_missing_is_worth_a_warning(lesson, path):
    with warns_of("get_attr" if lesson.Graph is fx.Graph else path):
        lesson.Graph(Owner()).get_attr(path)
    lesson.Graph(Owner()).get_attr("linear.weight")
    lesson.Graph().get_attr(path)


@pytest.mark.beyond("an `AttributeError`, where a warning was meant")
def test_a_module_that_is_missing_is_worth_a_warning(lesson):
    with warns_of("nowhere", "Owner"):
        lesson.Graph(Owner()).call_module("nowhere")


IMPURE = [torch._assert, operator.setitem, torch.rand, torch.ops.aten.add_.Tensor]
PURE = [torch.add, torch.relu, operator.add, torch.ops.aten.add.Tensor, getattr]


def test_functions_with_an_effect_are_not_dead(lesson):
    def edit(graph):
        x = graph.placeholder("x")
        graph.call_function(torch._assert, (graph.call_method("all", (x,)), "no"))
        for each in [*IMPURE, *PURE]:
            graph.call_function(each, (x,))
        graph.eliminate_dead_code()

    same_edits(lesson, edit)


def test_a_random_number_may_be_dead(lesson):
    node = lesson.Graph().call_function(torch.ops.aten.rand.default, ((2,),))
    equal((node.is_impure(), node.is_impure(impure_random=False)), (True, False))


def test_a_module_says_that_it_has_an_effect(lesson):
    owner = Owner()
    graph = lesson.Graph(owner)
    graph.call_module("linear", (graph.placeholder("x"),)), graph.call_module("noisy")
    equal(graph.eliminate_dead_code(), True)
    equal([node.name for node in graph.nodes], ["x", "noisy"])


@pytest.mark.beyond("an `AssertionError`")
def test_modules_may_be_dead_in_a_graph_without_a_module(lesson):
    graph, x = placeholders(lesson, "x")
    graph.call_module("relu", (x,))
    equal(graph.eliminate_dead_code(), True)


class Child(fx.GraphModule):
    """A graph module that takes a graph of any class."""

    graph = recompiled = None

    def __init__(self, graph):
        nn.Module.__init__(self)
        self.graph = graph

    def recompile(self):
        self.recompiled = True


def test_dead_code_of_subgraphs_goes_as_well(lesson):
    owner = nn.Module()
    owner.named, owner.unnamed = (Child(chain(lesson.Graph(), 2)) for _ in range(2))
    for child in (owner.named, owner.unnamed):
        child.graph.output_node().args = ()
    graph = lesson.Graph(owner)
    graph.output(graph.get_attr("named"))
    equal((graph.eliminate_dead_code(), graph.eliminate_dead_code()), (True, False))
    equal([len(child.graph.nodes) for child in (owner.named, owner.unnamed)], [2, 4])
    holds(owner.named.recompiled, "it is recompiled")


def test_dead_code_of_the_graph_counts_where_a_subgraph_has_none(lesson):
    owner = nn.Module()
    owner.named = Child(chain(lesson.Graph(), 2))
    graph = lesson.Graph(owner)
    graph.call_method("dead")
    graph.output(graph.get_attr("named"))
    equal(graph.eliminate_dead_code(), True)


def test_lint_finds_two_nodes_of_one_name(lesson):
    graph = diamond(lesson.Graph())
    graph.placeholder("y").name = "x"
    with refuses(RuntimeError, "x", cause="it was not found"):
        graph.lint()


# --- showing, and code ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*zoo.SMALL, "ResNet18"])
def test_graphs_of_models_are_printed_as_torch_prints_them(lesson, name):
    model = torchvision.models.resnet18() if name == "ResNet18" else zoo.SMALL[name]().model
    traced = fx.Tracer().trace(model)
    same_print(copied(lesson, traced), traced)


@pytest.mark.parametrize(
    "target", [torch.ops.aten.add.Tensor, torch.Tensor.split], ids=["operator", "method"]
)
def test_a_target_is_printed_with_its_public_name(lesson, target):
    same_edits(lesson, lambda graph: graph.call_function(target).format_node())


def test_annotations_and_defaults_are_printed(lesson):
    def edit(graph):
        x, y = graph.placeholder("x", int), graph.placeholder("y", list[int], default_value=None)
        graph.call_function(torch.Tensor.__add__, (x, [y, (x,)]), {"key": {"a": x}}, torch.Tensor)
        graph.output((x, y), tuple)
        return str(graph)

    same_edits(lesson, edit)


@pytest.mark.beyond("only with the package `tabulate`")
def test_a_graph_is_printed_as_a_table(lesson, capsys):
    graph, x = placeholders(lesson, "x")
    graph.output([x])
    graph.print_tabular()
    expected = """
opcode       name    target  args    kwargs
-----------  ------  ------  ------  ------
placeholder  x       x       ()      {}
output       output  output  ([x],)  {}
"""
    equal(capsys.readouterr().out, expected.lstrip())


class Reversing(fx.graph.CodeGen):
    def process_inputs(self, *args):
        return args[::-1]

    def process_outputs(self, out):
        return [out]


def test_inputs_and_results_go_through_the_code_generator(lesson):
    graph = lesson.Graph()
    equal((graph.process_inputs(1, 2), graph.process_outputs(3)), ((1, 2), 3))
    graph.set_codegen(Reversing())
    for each in (graph, copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        equal((each.process_inputs(1, 2), each.process_outputs(3)), ((2, 1), [3]))


# --- at length ------------------------------------------------------------------------------------


def reverse(graph):
    for node in list(graph.nodes):
        next(iter(graph.nodes)).prepend(node)


def insert(node, count):
    with node.graph.inserting_before(node):
        for _ in range(count):
            node.graph.placeholder("new")


def compare(graph):
    for node in list(graph.nodes):
        insert(node, 2)
        assert node.prev.prev < node.prev < node


WORK = {
    "building": lambda graph, count: lambda: chain(graph, count),
    "dead code": lambda graph, count: unused(chain(graph, count)).eliminate_dead_code,
    "replacing": lambda graph, count: functools.partial(rebuilt, chain(graph, count)),
    "copying": lambda graph, count: lambda: type(graph)().graph_copy(chain(graph, count), {}),
    "linting": lambda graph, count: chain(graph, count).lint,
    "printing": lambda graph, count: chain(graph, count).__str__,
    "pickling": lambda graph, count: lambda: pickle.dumps(chain(graph, count)),
    "users": lambda graph, count: functools.partial(swapped, chain(graph, count)),
    "moving": lambda graph, count: functools.partial(reverse, chain(graph, count)),
    "inserting": lambda graph, count: functools.partial(insert, graph.placeholder("x"), count),
    "comparing": lambda graph, count: functools.partial(compare, chain(graph, count)),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_the_work_grows_with_the_number_of_nodes(lesson, work):
    def sized(count):
        return work(lesson.Graph(), count)

    grown = growth(sized, 100)
    holds(grown < 2.2, "twice the nodes, twice the lines of Python that run", got=grown)


AT_LENGTH = [100, *(pytest.param(first, marks=pytest.mark.slow) for first in range(200, 1100, 100))]


@NUMBERED_AGAIN
@pytest.mark.parametrize("first", AT_LENGTH)
def test_edits_by_chance_at_length(lesson, first):
    for seed in range(first, first + 10):
        same_script(lesson, seed, 60, cases.OddEditor)


# --- dead code ------------------------------------------------------------------------------------


def test_dead_code_of_a_graph_that_cannot_run_is_refused(lesson):
    graph = diamond(lesson.Graph())
    first, second, *_ = graph.nodes
    second.append(first)
    with refuses(RuntimeError, cause="code was removed from a graph that can't run"):
        graph.eliminate_dead_code()
