"""Find a pattern in a graph, and put another graph in its place.

A pattern is a small graph. The node whose value it returns is its *anchor*. To find the pattern,
compare the anchor with every node of the large graph, then the arguments of both, and so on, back
to the placeholders of the pattern, which match anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from given.rewriting import can_fuse, uses_of_modules

from .code import GraphModule
from .graph import Graph, Node
from .tracer import Tracer


class Match(NamedTuple):  # given
    """One place where a pattern was found. In torch: ``torch.fx.subgraph_rewriter.Match``.

    Attributes:
        anchor: The node whose value the pattern returns.
        nodes_map: What each node of the pattern matches: a node, or for a placeholder any argument.
    """

    anchor: Node
    nodes_map: dict[Node, Any]


def match(pattern: Callable[..., Any], graph: Graph) -> list[Match]:  # step 3
    """Find the places where a pattern occurs in a graph and can be replaced.

    Erasing ``relu(a + b)`` would break a graph that uses the sum elsewhere, so a match counts only
    if it ``is_contained``. If two matches share a node, only the first counts. What a placeholder
    matches isn't part of the match, so two matches may have the same input.

    Args:
        pattern: A function or module that uses all its inputs, and returns one value it computes.
        graph: The graph to search.

    Returns:
        The matches, in the order of the graph.

    In torch: ``SubgraphMatcher(pattern).match(graph)``.

    >>> import torch
    >>> from lessons.tracer import symbolic_trace
    >>> graph = symbolic_trace(lambda a, b: torch.relu(a + 1) * torch.relu(b)).graph
    >>> [found.nodes_map for found in match(lambda x: torch.relu(x), graph)]
    [{relu: relu, x: add}, {relu: relu_1, x: b}]
    """
    raise NotImplementedError("rewriting: match")


def traced_like(graph: Graph, function: Callable[..., Any]) -> Graph:  # given
    """Return the graph of a function or module, with the same class as another graph.

    That class is yours or torch's. A pattern has to be compared with a graph of its own class, and
    a replacement has to be copied into one.
    """

    class LikeTracer(Tracer):
        def new_graph(self) -> Graph:
            return type(graph)()

    tracer = LikeTracer()
    result = tracer.trace(function)
    result.owning_module = tracer.root
    return result


class Matcher:
    """Compares nodes of a pattern with nodes of a graph."""

    def match_node(self, expected: Node, actual: Any, nodes_map: dict[Node, Any]) -> bool:  # step 1
        """Return whether a pattern's node, with all that it is computed from, matches a value.

        The graphs may be yours or torch's: ``is_node`` of the lesson ``graph`` knows the nodes of
        both. A placeholder matches anything. Any other node matches a node that makes the same call
        (``match_call``). But ``x + relu(x)`` must not match ``a + relu(b)``: once a node of the
        pattern matches a value, it matches only that (``same_value``). And ``relu(x) * relu(y)``
        must not match ``b * b`` with ``b = relu(a)``: two nodes of the pattern, placeholders
        included, never match the same node.

        Args:
            expected: The node of the pattern.
            actual: The argument at the same position in the graph: a node, or any other value.
            nodes_map: What the nodes of the pattern match so far. Add the new pair to it.

        >>> from lessons.tracer import symbolic_trace
        >>> pattern = symbolic_trace(lambda x: x + x).graph
        >>> x, add, _ = pattern.nodes
        >>> Matcher().match_node(add, add, nodes_map := {}), nodes_map
        (True, {add: add, x: x})
        """
        raise NotImplementedError("rewriting: Matcher.match_node")

    def match_value(self, expected: Any, actual: Any, nodes_map: dict[Node, Any]) -> bool:  # step 1
        """Return whether an argument in the pattern matches an argument in the graph.

        An argument is a node, a list or tuple of arguments, or a literal. Nodes are left to
        ``match_node``, and literals to ``same_value``.

        >>> compare = Matcher().match_value
        >>> compare([1, "a"], (1, "a"), {}), compare([1], [1, 2], {}), compare(1, 1.0, {})
        (True, False, False)
        """
        raise NotImplementedError("rewriting: Matcher.match_value")

    def match_call(self, expected: Node, actual: Node, nodes_map: dict[Node, Any]) -> bool:  # given
        """Return whether two nodes make the same call: the lists that ``call_of`` returns match."""
        return self.match_value(self.call_of(expected), self.call_of(actual), nodes_map)

    def call_of(self, node: Node) -> list[Any]:  # given
        """Return what a node calls (for a module, its type), and with which arguments."""
        target = type(module_of(node)) if node.op == "call_module" else node.target
        return [node.op, target, node.args, sorted(node.kwargs.items())]


def same_value(expected: Any, actual: Any) -> bool:  # given
    """Return whether two values are equal and of the same type: ``1`` and ``1.0`` are not."""
    return type(expected) is type(actual) and expected == actual


def module_of(node: Node) -> Any:  # given
    """Return the module that a node calls."""
    return node.graph.owning_module.get_submodule(node.target)


def nodes_inside(found: Match) -> list[Node]:  # given
    """Return the nodes that a match consists of, the anchor's the last."""
    pattern = found.anchor.graph.nodes
    return [found.nodes_map[each] for each in pattern if each.op not in ("placeholder", "output")]


def is_contained(inside: list[Node]) -> bool:  # step 2
    """Return whether the nodes of a match can be erased once the users of the last one are gone.

    A value that is computed inside, and used outside, would be missing. ``inside`` has the nodes of
    a match, in the order of ``nodes_inside``.

    >>> import torch
    >>> from lessons.tracer import symbolic_trace
    >>> graph = symbolic_trace(lambda a, b: torch.relu(a + b) * 2).graph
    >>> a, b, add, relu, mul, output = graph.nodes
    >>> is_contained([add, relu]), is_contained([add, mul])
    (True, False)
    """
    raise NotImplementedError("rewriting: is_contained")


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any], replacement: Callable[..., Any]
) -> list[Match]:  # step 4
    """Replace a pattern wherever it occurs, and recompile the module.

    The result of one match may be the input of the next: both are replaced.

    Args:
        gm: The module whose graph is edited.
        pattern: What to look for, as for ``match``.
        replacement: What to put there. It takes as many inputs as the pattern, in the same order,
            and returns one value. Attributes and modules that it uses are those of ``gm``.

    In torch: ``torch.fx.replace_pattern``.
    """
    raise NotImplementedError("rewriting: replace_pattern")


def replace_match(found: Match, replacement: Graph) -> None:  # step 4
    """Replace one match with a copy of a graph.

    The copy takes what the pattern's placeholders match, in their order, and its result takes the
    place of the match's last node. It has to be inserted where all these inputs exist: right before
    that node. No node of the match is left afterwards.
    """
    raise NotImplementedError("rewriting: replace_match")


CONV_BN = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))  # given


def fuse(model: nn.Module) -> GraphModule:  # step 5
    """Fuse each convolution with the batch norm that follows it.

    In eval mode, a batch norm multiplies each channel by a number and adds another. A convolution
    is linear, so a convolution with other parameters can do both:
    ``torch.nn.utils.fuse_conv_bn_eval(conv, bn)`` returns it. ``CONV_BN`` is the pattern.

    A pair is left alone if its convolution is used anywhere else (``uses_of_modules``, which counts
    by ``id(module)``), or if one layer couldn't compute the same (``can_fuse``).

    Args:
        model: A model in eval mode. It isn't changed.

    Returns:
        A module that computes the same with fewer nodes, and shares no parameters with the model. A
        fused convolution keeps the path of the old one. The batch norms are gone: a new graph
        module of the edited one has only what its graph names.

    In torch: ``torch.fx.experimental.optimization.fuse``.

    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    >>> fused = fuse(model)
    >>> [node.target for node in fused.graph.nodes], list(fused.state_dict())
    (['input', '0', '2', 'output'], ['0.weight', '0.bias'])
    """
    raise NotImplementedError("rewriting: fuse")
