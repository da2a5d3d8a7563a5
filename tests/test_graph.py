"""``graph``: the same edits leave your graph and torch's in the same state."""

from __future__ import annotations

import copy
import operator
import warnings
from contextlib import suppress
from itertools import islice

import pytest
import torch
from torch import fx

from tests import zoo
from tests.models import graph as cases
from tests.models.graph import diamond, same_edits, same_script, same_state
from tests.suite import equal, holds, is_value, refuses
from tests.suite.chance import by_chance

# --- step 1: names --------------------------------------------------------------------------------


@pytest.mark.parametrize("candidates", cases.CANDIDATES.values(), ids=cases.CANDIDATES)
def test_names_are_legal_and_unique(lesson, candidates):
    theirs = fx.graph._Namespace()
    namespace = lesson.Namespace()
    for candidate in candidates:
        got, expected = namespace.create_name(candidate), theirs.create_name(candidate, None)
        holds(got == expected, f"{expected!r} for {candidate!r} of {candidates}", got=got)


# --- step 2: arguments and users ------------------------------------------------------------------


def nodes(lesson, *names):
    """Nodes that are in no list yet: they can have arguments and users all the same."""
    graph = lesson.Graph()
    return [lesson.Node(graph, name, "placeholder", name, (), {}) for name in names]


def users_of(*nodes):
    return [[user.name for user in node.users] for node in nodes]


def test_a_node_is_a_user_of_its_inputs(lesson):
    w, x, y, z = nodes(lesson, "w", "x", "y", "z")
    z.args, z.kwargs = (y, x, y), {"other": w}
    equal(users_of(w, x, y, z), [["z"], ["z"], ["z"], []])
    cause = [
        (lambda got: got == [w, y, x], "positional arguments come first"),
        (lambda got: got.count(y) == 2, "`y` is listed for each of its two uses"),
    ]
    equal(z.all_input_nodes, [y, x, w], cause=cause)


def test_inputs_are_found_at_any_depth(lesson):
    a, b, c, d, user = nodes(lesson, "a", "b", "c", "d", "user")
    user.args = ([a, (1, b)], {"key": slice(None, c)}, zoo.Pair(d, 2))
    equal(user.all_input_nodes, [a, b, c, d])
    missed = (lambda users: [] in users, "a node inside a container doesn't know its user")
    equal(users_of(a, b, c, d), [["user"]] * 4, cause=missed)


def test_an_argument_that_is_removed_loses_its_user(lesson):
    x, y, z = nodes(lesson, "x", "y", "z")
    z.args = (x, y)
    z.args = (y, 1)
    gone = (lambda users: users[0] == ["z"], "the node is still a user of its old arguments")
    equal(users_of(x, y), [[], ["z"]], cause=gone)
    equal(z.all_input_nodes, [y])


def test_a_value_that_is_used_again_comes_last_among_the_users(lesson):
    x, y, z = nodes(lesson, "x", "y", "z")
    y.args = z.args = (x,)
    y.args = (x, 1)
    kept = (lambda users: users == [["y", "z"]], "the node kept its old place among the users")
    equal(users_of(x), [["z", "y"]], cause=kept, hint="remove the node from all users first")


def test_a_list_that_changes_later_does_not_change_the_node(lesson):
    _, y, z = nodes(lesson, "x", "y", "z")
    parts = [1]
    z.args, z.kwargs = (parts,), {"key": parts}
    parts.append(y)
    for kept in (z.args[0], z.kwargs["key"]):
        stale = (lambda kept: len(kept) == 2, "the node holds the caller's own list")
        equal(list(kept), [1], cause=stale, hint="`map_arg` makes new containers")


def test_an_input_is_replaced_wherever_it_is_by_any_argument(lesson):
    x, y, z = nodes(lesson, "x", "y", "z")
    z.args, z.kwargs = (x, [x, 1]), {"key": (x,)}
    z.replace_input_with(x, y)
    equal(repr((z.args, dict(z.kwargs))), "((y, [y, 1]), {'key': (y,)})")
    equal(users_of(x, y), [[], ["z"]])
    z.args, z.kwargs = (x, 1), {}
    z.replace_input_with(x, (y, [2]))
    equal((repr(z.args), users_of(x, y)), ("((y, [2]), 1)", [[], ["z"]]))


def test_all_users_use_the_new_node(lesson):
    x, y, one, other, user = nodes(lesson, "x", "y", "one", "other", "user")
    one.args, other.args, user.args = (x,), (1, x), (y,)
    equal(x.replace_all_uses_with(y), [one, other], hint="the users that changed are returned")
    equal(users_of(x, y), [[], ["user", "one", "other"]])
    y.replace_all_uses_with(one)
    equal(users_of(y, one), [[], ["user", "one", "other"]], hint="a user may become its own")


# --- step 3: the list -----------------------------------------------------------------------------


def test_a_node_is_placed_before_another(lesson):
    x, y = nodes(lesson, "x", "y")
    y.prepend(x)
    equal([x.next, y.prev], [y, x], hint="each neighbour refers to the other")


def test_nodes_are_in_the_order_in_which_they_were_created(lesson):
    graph = diamond(lesson.Graph())
    names = ["x", "relu", "tanh", "add", "output"]
    equal([node.name for node in graph.nodes], names)
    equal([node.name for node in reversed(graph.nodes)], names[::-1])
    equal([node.graph for node in graph.nodes], [graph] * 5)


def test_a_node_has_a_name_and_the_parts_that_it_was_created_with(lesson):
    def edit(graph):
        x, y = graph.placeholder("x", int), graph.placeholder("y", default_value=None)
        graph.call_module("linear", (x,), {"key": y}, type_expr=torch.Tensor)
        top = graph.call_function(max, (x, y), name="y.Z")
        graph.output((graph.get_attr("linear.weight"), top), tuple)
        graph.call_method("Conv", (x,)), graph.call_method("Conv", (x,))

    same_edits(lesson, edit)


@pytest.mark.parametrize("method", ["prepend", "append"])
@pytest.mark.parametrize("place", [3, 0, 1, 2, 4])
@pytest.mark.parametrize("moved", range(5))
def test_a_node_moves_next_to_another(lesson, method, place, moved):
    def edit(graph):
        nodes = list(diamond(graph).nodes)
        getattr(nodes[place], method)(nodes[moved])

    linked = is_value("x again, after output, add, x, tanh")  # where `x` moved before `add`
    same_edits(lesson, edit, cause=(linked, "its old neighbours become neighbours of each other"))


MOVE = {"next": "append", "prev": "prepend"}


def replace_the_neighbour(graph, node, side):
    graph.erase_node(getattr(node, side))
    getattr(node, MOVE[side])(graph.placeholder("new"))


def erase_it_and_its_neighbour(graph, node, side):
    for each in (node, getattr(node, side)):
        graph.erase_node(each)


def move_it_past_its_neighbour(graph, node, side):
    getattr(getattr(node, side), MOVE[side])(node)


CHANGES = {  # with the nodes visited if the next one is chosen too early, or may be erased
    replace_the_neighbour: ["abce", "abcde"],
    erase_it_and_its_neighbour: ["abc", "abcde"],
    move_it_past_its_neighbour: ["abcde"],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("side", ["next", "prev"])
def test_an_iteration_continues_from_where_the_current_node_is(lesson, change, side):
    def edit(graph):
        for name in "abcde"[:: 1 if side == "next" else -1]:
            graph.placeholder(name)
        seen = []
        for node in islice(graph.nodes if side == "next" else reversed(graph.nodes), 9):
            seen.append(node.name)
            if node.name == "c":
                change(graph, node, side)
        return seen

    wrong = lambda got: got in [f"{[*each]}" for each in CHANGES[change]]
    words = "choose the next node when it is requested, and one that isn't erased"
    same_edits(lesson, edit, cause=(wrong, words))


def test_a_new_node_goes_to_the_insertion_point(lesson):
    def edit(graph):
        graph._insert = next(iter(diamond(graph).nodes)).append
        graph.placeholder("y")

    same_edits(lesson, edit)


# --- step 4: inserting and erasing ----------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize("where", ["inserting_before", "inserting_after"])
def test_new_nodes_go_to_the_insertion_point(lesson, where, place):
    def edit(graph):
        node = list(diamond(graph).nodes)[place]
        with getattr(graph, where)(node):
            graph.get_attr("first"), graph.get_attr("second")
        graph.get_attr("afterwards")

    stayed = lambda names: [*names].index("afterwards") + 1 < len(names)
    after = where == "inserting_after"
    turned = lambda names: after and names[place + 1 : place + 3] == ["first", "second"]
    cause = [
        (stayed, "the insertion point wasn't restored after its block"),
        (turned, "each new node goes directly after the given one, so the last comes first"),
    ]
    same_edits(lesson, edit, cause=cause)


def test_insertion_points_can_be_nested_and_end_with_an_error(lesson):
    def edit(graph):
        x, *_, output = diamond(graph).nodes
        with suppress(KeyError), graph.inserting_before(output):
            with graph.inserting_after(x):
                graph.get_attr("inner")
            graph.get_attr("outer")
            raise KeyError
        graph.get_attr("last")

    stayed = (
        lambda names: names[-3:] == ["outer", "last", "output"],
        "after the error in the block its insertion point stayed: `try` needs a `finally`",
    )
    same_edits(lesson, edit, cause=stayed)


def test_a_node_that_is_used_is_not_erased(lesson):
    graph = diamond(lesson.Graph())
    x = next(iter(graph.nodes))
    with refuses(RuntimeError, "x", "relu", "tanh", cause="its users were left without it"):
        graph.erase_node(x)
    equal(len(graph.nodes), 5)


def test_a_node_that_is_erased_is_gone(lesson):
    graph = diamond(lesson.Graph())
    *_, add, output = graph.nodes
    graph.erase_node(output)
    linked = (lambda nodes: output in nodes, "the list still leads to the node that was erased")
    equal(list(graph.nodes)[3:], [add], cause=linked)
    using = (lambda users: users == [output], "the node that was erased still uses its inputs")
    equal(list(add.users), [], cause=using)
    for node in reversed(graph.nodes):
        graph.erase_node(node)
    equal((len(graph.nodes), list(graph.nodes)), (0, []))


def test_a_node_that_is_erased_again_takes_no_other_out_of_the_list(lesson):
    graph = lesson.Graph()
    a, b, c = (graph.placeholder(name) for name in "abc")
    graph.erase_node(b)
    with graph.inserting_before(c):
        new = graph.placeholder("new")
    with suppress(RuntimeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns
        graph.erase_node(b)
    lost = (lambda nodes: new not in nodes, "the old neighbours of `b` were linked once more")
    for direction in (iter, reversed):
        equal(set(direction(graph.nodes)), {a, new, c}, cause=lost)


# --- step 5: whole graphs -------------------------------------------------------------------------


def test_a_copied_node_has_all_parts_of_the_original(lesson):
    graph, other = lesson.Graph(), lesson.Graph()
    x, y = graph.placeholder("x"), other.placeholder("x")
    node = graph.call_module("linear", (x, [x]), {"key": x}, type_expr=torch.Tensor)
    node.name = "mine"
    node.meta["note"] = [1]
    twin = other.node_copy(node, lambda each: y)
    equal((twin.name, twin.op, twin.target), ("mine", "call_module", "linear"))
    equal((repr((twin.args, twin.kwargs)), twin.type), ("((x, [x]), {'key': x})", torch.Tensor))
    equal((twin.all_input_nodes, twin.meta), ([y], {"note": [1]}))
    holds(twin.meta["note"] is node.meta["note"], "the copy of the metadata is shallow")
    shared = (twin.meta is node.meta, "both nodes have the same dict")
    twin.meta["note"] = 2
    equal(node.meta, {"note": [1]}, cause=shared)


def test_a_graph_is_copied_to_the_insertion_point_of_another(lesson):
    def edit(graph):
        source = diamond(type(graph)())
        x = graph.placeholder("input")
        table = {next(iter(source.nodes)): x}
        with graph.inserting_before(graph.output(x)):
            result = graph.graph_copy(source, table)
        return result, [f"{old} becomes {new}" for old, new in table.items()]

    same_edits(lesson, edit)


def test_a_node_may_become_none_in_the_copy_and_an_output_is_not_needed(lesson):
    def edit(graph):
        source = type(graph)()
        x = source.placeholder("x")
        source.call_method("relu", (x,))
        return graph.graph_copy(source, {x: None})

    same_edits(lesson, edit, cause=(is_value(["x", "relu"]), "ask whether the node is a key"))


@pytest.mark.parametrize("build", cases.MODELS.values(), ids=cases.MODELS)
def test_graphs_of_torch_are_copied(lesson, build):
    traced = fx.Tracer().trace(build().model)
    graph = lesson.Graph()
    result = graph.graph_copy(traced, {})
    graph.output(result, traced.output_node().type)
    same_state(graph, traced)
    foreign = [each for node in graph.nodes for each in node.all_input_nodes if each.graph != graph]
    holds(not foreign, "no argument is a node of torch's graph", got=foreign)
    before_output = slice(None, len(graph.nodes) - 1)
    notes = [[node.meta for node in each.nodes][before_output] for each in (graph, traced)]
    holds(notes[0] == notes[1], "each node has the metadata of the node that was copied")


def test_a_deep_copy_has_the_same_nodes(lesson):
    graph = diamond(lesson.Graph())
    graph.output_node().meta["note"], graph.output_node().type = 1, int
    twin = copy.deepcopy(graph)
    same_state(twin, graph, cause=(is_value(["x", "relu", "tanh", "add"]), "copy the output, too"))
    equal((twin.output_node().meta, type(twin)), ({"note": 1}, lesson.Graph))
    of_both = [node for node in twin.nodes if node in set(graph.nodes) or node.graph is not twin]
    equal(of_both, [], cause=(bool, "the copy has nodes of the original"))


def test_a_long_graph_can_be_copied(lesson):
    def length_of_a_copy(graph):
        try:
            return len(copy.deepcopy(graph).nodes)
        except RecursionError:
            return "a RecursionError"

    words = "a node was copied during the copy of another: write `__deepcopy__`, with a loop"
    graph = cases.chain(lesson.Graph(), 1000)
    equal(length_of_a_copy(graph), 1002, cause=(is_value("a RecursionError"), words))


def foreign(graph):
    """A node of another graph."""
    return next(iter(diamond(type(graph)()).nodes))


FAULTS = {
    "late": lambda graph: graph.output_node().append(next(iter(graph.nodes))),
    "itself": lambda graph: (add := graph.output_node().prev).replace_input_with(add.args[0], add),
    "foreign": lambda graph: graph.call_method("relu", (), {"key": [{"key": (1, foreign(graph))}]}),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_lint_finds_what_cannot_run(lesson, fault):
    graph = diamond(lesson.Graph())
    graph.lint()  # it can run
    fault(graph)
    with refuses(RuntimeError, cause="it was not found"):
        graph.lint()


def test_dead_code_is_erased_and_then_its_inputs(lesson):
    def edit(graph):
        graph.placeholder("unused")
        relu = list(diamond(graph).nodes)[2]
        with graph.inserting_after(relu):
            dead = graph.call_method("exp", (relu,))
        with graph.inserting_after(dead):
            graph.call_method("add", (dead, dead))
        return graph.eliminate_dead_code(), len(graph.nodes), graph.eliminate_dead_code()

    same_edits(lesson, edit, cause=(lambda got: "True, 7" in got, "go from last to first"))


def test_calls_with_an_effect_stay(lesson):
    def edit(graph):
        x = graph.placeholder("x")
        graph.call_function(torch._assert, (graph.call_method("all", (x,)), "no"))
        graph.call_function(operator.setitem, (x, 0, graph.call_function(torch.rand, ((2,),))))
        graph.call_function(torch.relu, (x,))
        graph.eliminate_dead_code()

    same_edits(lesson, edit, cause=(is_value(["x"]), "ask `node.is_impure()`"))


def test_the_callers_function_alone_decides_what_is_impure(lesson):
    def edit(graph):
        graph.placeholder("unused")
        graph.call_method("print_", ()), graph.call_method("relu", ())
        return graph.eliminate_dead_code(lambda node: node.name == "relu")

    same_edits(lesson, edit)


@by_chance(20)
def test_random_edits(lesson, chance):
    same_script(lesson, chance)
