"""Graphs to search, models to fuse, and the checks of both."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

from tests.suite import equal, holds, noting, same_numbers
from tests.suite.engine import graph_module, new_graph, symbolic_trace
from tests.zoo import Model

# --- functions ---------------------------------------------------------------------------------


def relu(x):
    return torch.relu(x)


def tanh(x):
    return torch.tanh(x)


def twice(new):
    def function(a):
        y = new(a)
        return y * y

    return function


# --- graphs ---------------------------------------------------------------------------------------


NOTHING = "nothing"  # what an input matches that isn't in the `nodes_map`


def skip_on_torch(lesson: Any, reason: str) -> None:
    """Skip the test where torch's own code is judged."""
    if lesson.fuse.__module__.startswith("torch."):
        pytest.skip(reason)


def matched(lesson: Any, pattern: Any, function: Any, trace: Any = None) -> list[str] | None:
    """Return what the pattern's inputs match, from its anchor and the function's result on."""
    graphs = [(trace or symbolic_trace)(each).graph for each in (pattern, function)]
    anchor, result = (graph.output_node().args[0] for graph in graphs)
    nodes_map: dict[Node, Any] = {}
    if not lesson.Matcher().match_node(anchor, result, nodes_map):
        return None
    return [str(nodes_map.get(each, NOTHING)) for each in graphs[0].find_nodes(op="placeholder")]


def places(lesson: Any, pattern: Any, function: Callable) -> list[str]:
    """The names of the nodes at which the pattern is found in the function's graph."""
    found = lesson.match(pattern, symbolic_trace(function).graph)
    of_graph = [each.anchor for each in found if each.anchor in each.nodes_map.values()]
    equal(of_graph, [], cause=(bool, "the `anchor` is a node of the graph, not of the pattern"))
    return [str(each.nodes_map[each.anchor]) for each in found]


def calls(graph: Graph) -> list[str]:
    """Return what a graph's nodes call, in order, besides inputs and output."""
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    return [getattr(node.target, "__name__", node.target) for node in nodes]


def replaced(lesson: Any, function: Callable, pattern: Any, replacement: Any) -> GraphModule:
    """The function's module after the replacement; its graph is sound."""
    gm = symbolic_trace(function)
    lesson.replace_pattern(gm, pattern, replacement)
    nodes = set(gm.graph.nodes)
    lost = [each for node in nodes for each in node.all_input_nodes if each not in nodes]
    erased = (bool, "a node that was erased with an earlier match is an input of a later one")
    equal(lost, [], cause=erased, hint="replace the last match first")
    gm.graph.lint()
    return gm


def becomes(
    lesson: Any,
    function: Callable,
    pattern: Any,
    replacement: Any,
    expected: Callable,
    *,
    hint: str = "",
) -> None:
    """Fail unless the replacement turns one function into the other: calls and numbers."""
    gm = replaced(lesson, function, pattern, replacement)
    old, wanted = (sorted(calls(symbolic_trace(each).graph)) for each in (pattern, expected))
    is_left = lambda got: (Counter(got) - Counter(wanted)) & Counter(old)
    left = (is_left, "calls of the pattern are still there")
    equal(sorted(calls(gm.graph)), wanted, cause=left, hint=hint)
    inputs = [torch.rand(3, 3) for _ in gm.graph.find_nodes(op="placeholder")]
    same_numbers(gm(*inputs), expected(*inputs), cause=stale(gm), hint=hint)


def stale(gm: GraphModule) -> tuple[Callable[[Any], bool], str]:
    """A cause: the code of a module isn't that of its graph."""
    is_stale = lambda got: type(gm)(gm, gm.graph).code != gm.code
    return is_stale, "the module has the code of the old graph: recompile it"


# --- models to fuse -------------------------------------------------------------------------------


IMAGES = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def pair(**options: Any) -> list[nn.Module]:
    """A convolution that keeps the shape of an image, and a batch norm."""
    return [nn.Conv2d(3, 3, 3, padding=1, **options), nn.BatchNorm2d(3)]


def paired(function: Callable[[Any, Tensor], Tensor]) -> Model:
    """A function of a model with such a pair, and another batch norm."""
    conv, norm = pair()
    return Model(function, conv=conv, norm=norm, other=nn.BatchNorm2d(3))


def settled(model: nn.Module) -> nn.Module:
    """The model in eval mode, with statistics and parameters that no two channels share."""
    chance = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if module.running_mean is not None:
                module.running_mean.normal_(generator=chance)
                module.running_var.uniform_(0.5, 2, generator=chance)
            for parameter in module.parameters():
                nn.init.uniform_(parameter, 0.5, 1.5, generator=chance)
    return model.eval()


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest number; 0 if there is no difference."""
    difference = (actual - expected).abs().max()
    return (difference / expected.abs().max()).item() if difference else 0.0


def fused_right(lesson: Any, model: nn.Module, x: Tensor, nodes: int | None = None) -> GraphModule:
    """Fail unless the fused model returns the same numbers, and has this many nodes."""
    unasked = (lambda error: "running_mean" in str(error), "the batch norm has no statistics")
    with noting(cause=unasked, hint="ask `can_fuse`", on=(AssertionError,)):
        fused = lesson.fuse(model)
    with torch.no_grad():
        error = relative_error(fused(x), model(x))
    norms = [each for each in fused.modules() if isinstance(each, nn.BatchNorm2d)]
    convs = [name for name, each in fused.named_modules() if isinstance(each, nn.Conv2d)]
    is_old = lambda name: torch.equal(*(each.get_submodule(name).weight for each in (model, fused)))
    causes = [
        stale(fused),
        (lambda _: len(fused.graph.nodes) < nodes, "a pair was fused that must be left alone"),
        (lambda _: not norms and any(map(is_old, convs)), "a convolution has its old weight"),
    ]
    got = f"relative error {error}"
    holds(error <= 1e-5, "the numbers of the eager model", got=got, cause=causes)
    if nodes is not None:
        causes = [
            (lambda _: nn.Identity in map(type, fused.modules()), "an `nn.Identity` is left"),
            (lambda got: norms and got > nodes, "a batch norm was not fused"),
        ]
        equal(len(fused.graph.nodes), nodes, cause=causes)
    return fused


# --- planted patterns -----------------------------------------------------------------------------


def pattern_to_plant(x: Any, y: Any) -> Any:
    """Five calls, one of a list, and a value that is used twice."""
    z = torch.relu(x + y)
    return torch.sum(torch.stack([z, torch.tanh(z)]), dim=0)


def planted(chance: Random, size: int) -> tuple[GraphModule, list[str]]:
    """A random graph that contains the pattern several times, and the names of its results.

    It also contains decoys: the pattern with a value that escapes, or with another literal.
    """
    graph = new_graph()
    values = [graph.placeholder(name) for name in "abc"]
    places = []
    while len(graph.nodes) < size:
        x, y = chance.sample(values, 2)
        kind = chance.choice(["call", "call", "pattern", "escape", "literal"])
        if kind == "call":
            function = chance.choice([torch.relu, torch.tanh, torch.sin])
            values.append(graph.call_function(function, (x,)))
            continue
        total = graph.call_function(operator.add, (x, y))
        z = graph.call_function(torch.relu, (total,))
        both = [z, graph.call_function(torch.tanh, (z,))]
        stacked = graph.call_function(torch.stack, (both,))
        dim = -3 if kind == "literal" else 0
        values.append(graph.call_function(torch.sum, (stacked,), {"dim": dim}))
        if kind == "escape":
            values.append(graph.call_function(torch.sin, (chance.choice([total, *both]),)))
        if kind == "pattern":
            places.append(values[-1].name)
    graph.output(values[-1])
    return graph_module({}, graph), places


def pattern_of(node: Node, depth: int) -> Graph:
    """A pattern cut out of a graph: a node and its arguments, to this depth."""
    pattern = Graph(owning_module=node.graph.owning_module)
    copies: dict[Node, Node] = {}

    def copied(each: Node, depth: int) -> Node:
        if each not in copies:
            if depth < 0 or each.op == "placeholder":
                copies[each] = pattern.placeholder(each.name)
            else:
                for source in each.all_input_nodes:
                    copied(source, depth - 1)
                copies[each] = pattern.node_copy(each, copies.__getitem__)
        return copies[each]

    pattern.output(copied(node, depth))
    return pattern
