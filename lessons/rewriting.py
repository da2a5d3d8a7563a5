"""Find a pattern in a graph, and put another graph in its place.

A pattern is a small graph. The node that it returns is its *anchor*. To find the pattern, try the
anchor on every node of the large graph: follow the arguments backwards through both graphs at
once, from the anchor to the placeholders. The calls must be the same, and so must be literals; a
placeholder stands for whatever it meets. Nothing is searched, for an argument has one place in its
call: each node of the pattern can only meet one node of the graph.

To replace what was found, copy another graph to where the anchor is, let the anchor's users use the
copy, and erase the nodes that were matched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn
from torch.fx import Graph, GraphModule, Node

from .tracer import symbolic_trace

if TYPE_CHECKING:
    from collections.abc import Callable

    Pattern = Callable[..., Any] | Graph


class Match(NamedTuple):  # given
    """One place where a pattern was found. In torch: ``torch.fx.subgraph_rewriter.Match``.

    Attributes:
        anchor: The node that the pattern returns.
        nodes_map: For each node of the pattern what it stands for in the graph: a node or, for a
            placeholder, any argument.
    """

    anchor: Node
    nodes_map: dict[Node, Any]


def graph_of(pattern: Pattern) -> Graph:  # given
    """Return the graph of a function or module; a graph is returned as it is."""
    return pattern if isinstance(pattern, Graph) else symbolic_trace(pattern).graph


def nodes_inside(found: Match) -> list[Node]:  # given
    """Return the nodes that a match covers, the anchor's last: not what a placeholder stands for.

    >>> import torch
    >>> graph = graph_of(lambda a, b: torch.relu(a + b) * 2)
    >>> [found] = match(lambda x, y: torch.relu(x + y), graph)
    >>> nodes_inside(found)
    [add, relu]
    """
    pattern = found.anchor.graph.nodes
    inside = [each for each in pattern if each.op not in ("placeholder", "output")]
    return [found.nodes_map[each] for each in inside]


def match(pattern: Pattern, graph: Graph) -> list[Match]:  # given
    """Find the places where a pattern occurs in a graph.

    In torch: ``SubgraphMatcher(pattern).match(graph)``.

    Args:
        pattern: What to look for. It uses all its inputs, and returns one value that it computes.
        graph: Where to look.

    Returns:
        The matches in the order of the graph. Of two that overlap it is the first.

    >>> import torch
    >>> graph = graph_of(lambda a, b: torch.relu(a + 1) * torch.relu(b))
    >>> [found.nodes_map for found in match(lambda x: torch.relu(x), graph)]
    [{relu: relu, x: add}, {relu: relu_1, x: b}]
    """
    return Matcher(pattern).match(graph)


class Matcher:
    """Finds one pattern in graphs.

    Args:
        pattern: What to look for.

    Attributes:
        anchor: The node that the pattern returns.
    """

    def __init__(self, pattern: Pattern) -> None:
        raise NotImplementedError("rewriting: write Matcher.__init__")

    def match(self, graph: Graph) -> list[Match]:
        """Try the anchor on every node; keep what matches, is contained, and doesn't overlap.

        Two matches overlap if a node is inside both. What their placeholders stand for may be the
        same, or be inside the other.

        Args:
            graph: Where to look.

        Returns:
            The matches in the order of the graph. Of two that overlap it is the first.
        """
        raise NotImplementedError(
            "rewriting: try the anchor on every node; keep what matches, is contained, and doesn't overlap"
        )

    def match_node(self, expected: Node, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Tell whether a node of the pattern, and all that it is computed from, meets its like.

        - A node of the pattern that has met something meets the same again.
        - Two nodes of the pattern don't meet one node of the graph.
        - A placeholder may meet anything: a node, a literal, a list.
        - Any other node meets a node of the same call (see ``call_of``) and matching arguments.

        Args:
            expected: The node of the pattern.
            actual: The argument that stands in its place in the graph.
            nodes_map: What the nodes of the pattern have met so far; whatever is met is entered.
        """
        raise NotImplementedError(
            "rewriting: tell whether a node of the pattern, and all that it is computed from, meets its like"
        )

    def match_value(self, expected: Any, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Tell whether an argument of the pattern meets its like.

        A node is for ``match_node``. A list or tuple meets one of the same length with matching
        elements. All else is a literal, and meets an equal one of the same type: not ``1`` and
        ``1.0``, which compute different things.

        Args:
            expected: The argument in the pattern.
            actual: The argument that stands in its place in the graph.
            nodes_map: As for ``match_node``.
        """
        raise NotImplementedError(
            "rewriting: tell whether an argument of the pattern meets its like"
        )

    def call_of(self, node: Node) -> object:  # given
        """Return what a node calls. Nodes match if that is equal, whatever they are called."""
        return node.op, node.target

    def arguments_of(self, node: Node) -> list[Any]:  # given
        """Return the arguments of a node: the positional ones, then the others with names."""
        return [node.args, sorted(node.kwargs.items())]


def same_value(expected: Any, actual: Any) -> bool:  # given
    """Tell whether two values are equal and of the same type."""
    return type(expected) is type(actual) and expected == actual


def is_contained(inside: list[Node]) -> bool:
    """Tell whether the nodes of a match may be erased once the last one, the anchor, is replaced.

    They may not be if one of the others has a user outside, whose argument it would be.

    Args:
        inside: The nodes that a match covers, the anchor's last.

    >>> import torch
    >>> graph = graph_of(lambda a, b: torch.relu(a + b) * 2)
    >>> a, b, add, relu, mul, output = graph.nodes
    >>> is_contained([add, relu]), is_contained([add, mul])
    (True, False)
    """
    raise NotImplementedError(
        "rewriting: tell whether the nodes of a match may be erased once the last one, the anchor, is replaced"
    )


def replace_pattern(gm: GraphModule, pattern: Pattern, replacement: Pattern) -> list[Match]:
    """Replace a pattern wherever it occurs, and recompile the module.

    In torch: ``torch.fx.replace_pattern``.

    Args:
        gm: The module whose graph is edited.
        pattern: What to look for, as for ``match``.
        replacement: What to put there. It takes as many inputs as the pattern, in the same order,
            and returns one value. Attributes and modules that it uses are those of ``gm``.

    Returns:
        The matches.

    >>> import torch
    >>> gm = symbolic_trace(lambda a, b: torch.relu(a + b) * 2)
    >>> found = replace_pattern(gm, lambda x, y: torch.relu(x + y), lambda x, y: torch.max(x, -y))
    >>> print(gm.code.strip())
    def forward(self, a, b):
        neg = -b;  b = None
        max_1 = torch.max(a, neg);  a = neg = None
        mul = max_1 * 2;  max_1 = None
        return mul
    """
    raise NotImplementedError(
        "rewriting: replace a pattern wherever it occurs, and recompile the module"
    )


def replace_match(found: Match, replacement: Graph) -> None:
    """Put a copy of a graph in the place of one match.

    The copy stands before the anchor, its inputs are what the pattern's placeholders stand for, and
    its result goes to the anchor's users. What the match covers is erased, users before inputs.

    Args:
        found: The match.
        replacement: The graph to copy.
    """
    raise NotImplementedError("rewriting: put a copy of a graph in the place of one match")


class ModuleMatcher(Matcher):  # given
    """Finds a pattern of modules: two calls are the same if the modules are of the same type."""

    def call_of(self, node: Node) -> object:
        """Return the type of the module that a node calls."""
        return type(module_of(node)) if node.op == "call_module" else super().call_of(node)


def module_of(node: Node) -> Any:  # given
    """Return the module that a node calls."""
    return node.graph.owning_module.get_submodule(str(node.target))  # type: ignore[union-attr]


CONV_BN = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))  # given


def fuse(model: nn.Module) -> GraphModule:
    """Fuse each convolution with the batch norm that follows it.

    In eval mode, a batch norm multiplies each channel by a number and adds another. A convolution
    is linear, so its weight and bias can do that: ``torch.nn.utils.fuse_conv_bn_eval`` returns the
    convolution of a pair.

    In torch: ``torch.fx.experimental.optimization.fuse``.

    Args:
        model: A model in eval mode that calls no convolution twice. It isn't changed.

    Returns:
        A module that computes the same with fewer nodes. The fused convolutions are where the
        convolutions were; the batch norms are gone.

    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    >>> fused = fuse(model)
    >>> [node.target for node in fused.graph.nodes], list(fused.state_dict())
    (['input', '0', '2', 'output'], ['0.weight', '0.bias'])
    """
    raise NotImplementedError(
        "rewriting: fuse each convolution with the batch norm that follows it"
    )
