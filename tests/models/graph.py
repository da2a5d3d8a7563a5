"""Edits to make on two graphs, fixed and random ones, and how the graphs are compared."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from random import Random
from typing import Any

import torch
from torch import fx, nn

from tests import zoo
from tests.suite import holds
from tests.suite.chance import several, showing
from tests.suite.expect import Cause, Words

# The errors of a refused edit; some of torch's are `AssertionError`s.
REFUSALS = (AssertionError, RuntimeError, ValueError)


# --- what is compared -----------------------------------------------------------------------------


def state(graph: Any, cause: Cause = "") -> dict[str, Any]:
    """Everything visible of a graph, by names, so that two graphs can be compared."""
    nodes, backwards = (met_once(each, cause) for each in (graph.nodes, reversed(graph.nodes)))
    return {
        "the names, in order": [node.name for node in nodes],
        "the names, backwards": [node.name for node in backwards],
        "the number of nodes": len(graph.nodes),
        "the steps": {node.name: (node.op, node.target, node.type) for node in nodes},
        "the arguments": {node.name: f"{node.args}, {dict(node.kwargs)}" for node in nodes},
        "the inputs": {node.name: [each.name for each in node.all_input_nodes] for node in nodes},
        "the users": {node.name: [each.name for each in node.users] for node in nodes},
    }


def met_once(nodes: Iterable[Any], cause: Cause) -> list[Any]:
    """The nodes of an iteration; fail if one comes twice, since the loop would never end."""
    met: dict[Any, None] = {}
    for node in nodes:
        if node in met:
            again = f"{node} again, after {', '.join(map(str, met))}"
            holds(False, "an iteration visits each node once", got=again, cause=cause)
        met[node] = None
    return list(met)


def same_state(ours: Any, theirs: Any, after: str = "", **words: Any) -> None:
    """Fail with the first aspect in which two graphs differ."""
    expected, got = state(theirs), state(ours, words.get("cause", ""))
    for aspect, value in expected.items():
        different = differing(got[aspect], value)
        what = f"{aspect}{' after ' * bool(after)}{after}: {different[1]}"
        holds(got[aspect] == value, what, got=different[0], **words)


def differing(got: Any, expected: Any) -> tuple[Any, Any]:
    """The parts in which two values differ: of dicts the first item."""
    if not isinstance(expected, dict) or [*got] != [*expected]:
        return got, expected
    parts = ((f"{key}: {got[key]}", f"{key}: {expected[key]}") for key in expected)
    return next(((ours, theirs) for ours, theirs in parts if ours != theirs), (got, expected))


def same_edits(lesson: Any, edit: Callable[[Any], Any], **words: Any) -> None:
    """Run a function on a new graph of the lesson and on one of torch, and compare all of it."""
    ours, theirs = lesson.Graph(), fx.Graph()
    got, expected = outcome(edit, ours), outcome(edit, theirs)
    same_state(ours, theirs, **words)
    holds(got == expected, f"it returns {expected}", got=Words(got), **words)


def outcome(edit: Callable[[Any], Any], graph: Any) -> str:
    try:
        return repr(edit(graph))
    except NotImplementedError:
        raise
    except REFUSALS:
        return "an error"


# --- names ----------------------------------------------------------------------------------------

CANDIDATES = {
    "twice": ["x", "x", "x"],
    "numbered": ["x_1", "x", "x", "x_1", "x_2", "x", "y_1_1", "y_1_1"],
    "illegal": ["Layer1.0.conv1", "a--b", "1x", "é"],
    "reserved": ["list", "for", "torch", "list_1", "list", "inf", "nan", "device"],
    "underscores": ["_", "_", "__", "_1", "_1", "a_", "a_"],
}
NUMBERED = (["x_7", "x", "x", "x_2", "x", "x"], ["", ""], ["NoneType", "pytree", "fx_pytree"])
NUMBERED_SINCE_2_12 = (["x_7", "x", "x", "x_7", "x_2", "x"], ["x_007", "x", "x_007"], ["a__3"] * 2)
METHODS = ("avgPool2d", "__call__", "layer1.0")


# --- graphs ---------------------------------------------------------------------------------------

MODELS = {**zoo.SMALL, "ResNet18": zoo.resnet18}


def diamond(graph: Any) -> Any:
    """Build ``x``, two nodes that use it, their sum, and the output; return the graph."""
    x = graph.placeholder("x")
    left, right = graph.call_method("relu", (x,)), graph.call_function(torch.tanh, (x,))
    graph.output(graph.call_function(operator.add, (left, right)))
    return graph


def chain(graph: Any, count: int) -> Any:
    """Build ``count`` nodes, each of which uses the one before it and the input."""
    last = x = graph.placeholder("x")
    for _ in range(count):
        last = graph.call_function(operator.add, (last, x))
    graph.output(last)
    return graph


def rebuilt(graph: Any) -> Any:
    """Replace each call by another one, as a transform does."""
    for node in [node for node in graph.nodes if node.op == "call_function"]:
        with graph.inserting_after(node):
            new = graph.call_method("add", node.args)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    return graph


def swapped(graph: Any) -> None:
    """Let the users of the first node, which are all the others, use a new one instead."""
    x = next(iter(graph.nodes))
    with graph.inserting_before(x):
        x.replace_all_uses_with(graph.placeholder("new"))


def unused(graph: Any) -> Any:
    """Let the output use nothing: then only the input and the output aren't dead code."""
    *_, output = graph.nodes
    output.args = (None,)
    return graph


# --- random edits ---------------------------------------------------------------------------------

FUNCTIONS = (operator.add, torch.relu, getattr, max, torch.Tensor.__add__, nn.functional.linear)
OPCODES = (
    "placeholder",
    "get_attr",
    *["call_function"] * 3,
    "call_method",
    "call_module",
    "output",
)
NAMES = ("x", "layer1.0.conv1", "weight", "list", "add", "output")
CONSTANTS = (1, 0.5, None, "text", ..., torch.float32)
CONTAINERS = (
    tuple,
    list,
    lambda parts: dict(zip("abcd", parts, strict=False)),
    lambda parts: slice(*parts[:2], None),
    lambda parts: zoo.Pair(parts, 1),
)


class Editor:
    """Edits a graph at random; two with one chance do the same, as long as their graphs agree."""

    def __init__(self, graph: Any, chance: Random) -> None:
        self.graph, self.chance = graph, chance
        for name in ("x", "y"):
            graph.placeholder(name)

    def edits(self) -> Iterator[str]:
        """Make some edits, and yield a description after each."""
        for _ in several(self.chance, 40):
            edit = self.chance.choice(EDITS)
            try:
                yield edit(self)
            except NotImplementedError:
                raise
            except REFUSALS:
                yield f"an error in {edit.__name__}"

    def node(self) -> Any:
        return self.chance.choice(list(self.graph.nodes))

    def argument(self, depth: int = 2) -> Any:
        if not depth or self.chance.randrange(10) < 6:
            return self.node() if self.chance.randrange(10) < 7 else self.chance.choice(CONSTANTS)
        parts = [self.argument(depth - 1) for _ in range(self.chance.randrange(4))]
        return self.chance.choice(CONTAINERS)(parts)

    def args(self) -> tuple[Any, ...]:
        return tuple(self.argument() for _ in range(self.chance.randrange(4)))

    def kwargs(self) -> dict[str, Any]:
        return {key: self.argument() for key in "ab"[: self.chance.randrange(3)]}

    def create(self) -> str:
        node = self.node()
        where = self.chance.choice(("inserting_before", "inserting_after"))
        with getattr(self.graph, where)(node):
            made = [self.created() for _ in range(self.chance.randrange(1, 3))]
        return f"creating {made} with `{where}({node})`"

    def created(self) -> Any:
        op = self.chance.choice(OPCODES)
        target = self.chance.choice(FUNCTIONS if op == "call_function" else NAMES)
        name = self.chance.choice((None, None, *NAMES))
        args = (self.argument(),) if op == "output" else self.args()
        kind = self.chance.choice((None, None, int, torch.Tensor, list[int]))
        return self.graph.create_node(op, target, args, self.kwargs(), name, kind)

    def set_arguments(self) -> str:
        node = self.node()
        node.args, node.kwargs = (self.argument(), *self.args()), self.kwargs()
        return f"setting the arguments of {node}"

    def replace_input(self) -> str:
        node, new = self.node(), self.node()
        old = self.chance.choice([*node.all_input_nodes, self.node()])
        node.replace_input_with(old, new)
        return f"{node}.replace_input_with({old}, {new})"

    def replace_uses(self) -> str:
        old, new = self.node(), self.node()
        return f"{old}.replace_all_uses_with({new}), which returns {old.replace_all_uses_with(new)}"

    def move(self) -> str:
        node, other = self.node(), self.node()
        self.chance.choice((node.prepend, node.append))(other)
        return f"moving {other} next to {node}"

    def erase(self) -> str:
        unused = [node for node in self.graph.nodes if not node.users]
        node = self.chance.choice([self.node(), *unused])
        if len(self.graph.nodes) > 3:
            self.graph.erase_node(node)
        return f"erasing {node}"

    def copy(self) -> str:
        node, stand_in = self.node(), self.node()
        copied = self.graph.node_copy(node, lambda each: stand_in)
        return f"copying {node} to {copied}, with {stand_in} for its inputs"


EDITS = (Editor.create,) * 3 + (Editor.set_arguments,) * 2 + (Editor.replace_input, Editor.move)
EDITS += (Editor.replace_uses, Editor.erase, Editor.copy)


def same_script(lesson: Any, chance: Random) -> None:
    """Make the same random edits on a graph of the lesson and on one of torch."""
    script = ["placeholders x and y"]
    ours, theirs = Editor(lesson.Graph(), copy(chance)), Editor(fx.Graph(), chance)
    for got, expected in zip(ours.edits(), theirs.edits(), strict=True):
        script.append(expected)
        with showing("\n".join(script)):
            holds(got == expected, expected, got=got)
            same_state(ours.graph, theirs.graph, expected)
