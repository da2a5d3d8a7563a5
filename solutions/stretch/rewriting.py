"""Unlike the core: patterns of any shape, replacements that bring their own parts, and reasons.

- A pattern may return several values, read attributes, and have arguments in dicts and slices; an
  argument may be passed by position or by name. ``SubgraphMatcher`` has torch's options, and
  ``replace_pattern_with_filters`` torch's filters, callback and result.
- A replacement brings the modules and tensors that it uses. A value that is used between the nodes
  of a match gets the new one as well: its users move behind the copy.
- ``fuse`` takes linear layers and transposed convolutions too, and leaves alone what it would get
  wrong: a convolution that is called twice or whose weight is read elsewhere, and hooks.
- ``explain`` shows why a pattern was not found: the nearest miss, node beside node.
"""

from __future__ import annotations

import copy
import inspect
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.fx.operator_schemas import get_signature_for_torch_op
from torch.overrides import resolve_name
from torch.utils._pytree import tree_leaves

from .. import rewriting as core
from ..rewriting import Match, ModuleMatcher, is_contained, module_of, nodes_inside
from .tracer import symbolic_trace

__all__ = [
    "Explanation",
    "InternalMatch",
    "Match",
    "Matcher",
    "ReplacedPatterns",
    "SubgraphMatcher",
    "explain",
    "fuse",
    "fuse_conv_bn_eval",
    "is_contained",
    "match",
    "replace_pattern",
    "replace_pattern_with_filters",
]

Pattern = Callable[..., Any] | Graph
MatchFilter = Callable[["InternalMatch", Graph, Graph], bool]


# --- finding --------------------------------------------------------------------------------------


@dataclass
class InternalMatch:
    """One place where a pattern was found. In torch: a class of the same name.

    Attributes:
        anchors: The nodes that the pattern returns and doesn't use itself.
        nodes_map: For each node of the pattern what it stands for.
        placeholder_nodes: What the pattern's placeholders stand for, in their order.
        returning_nodes: What the nodes that the pattern returns stand for.
        name_node_map: Always empty.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Any] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    @property
    def anchor(self) -> Node:
        """The first anchor."""
        return self.anchors[0]


def graph_of(pattern: Pattern) -> Graph:
    """Return the graph of a function or module; that of a ``GraphModule`` isn't traced again."""
    return core.graph_of(pattern.graph if isinstance(pattern, GraphModule) else pattern)


def match(pattern: Pattern, graph: Graph) -> list[Match]:
    """Find the places where a pattern occurs in a graph.

    In torch: ``SubgraphMatcher(pattern).match(graph)``.

    Args:
        pattern: What to look for.
        graph: Where to look.

    Returns:
        The matches in the order of the graph. Of two that overlap it is the first.

    Raises:
        ValueError: The pattern computes nothing, or something that it doesn't return.
    """
    found = SubgraphMatcher(graph_of(pattern)).match(graph)
    return [Match(each.anchor, each.nodes_map) for each in found]


class SubgraphMatcher(core.Matcher):
    """Finds a pattern of any number of results. In torch: a class of the same name.

    Args:
        pattern: What to look for.
        match_output: Whether the pattern's output must meet the graph's output.
        match_placeholder: Whether placeholders must meet placeholders; else they meet anything.
        remove_overlapping_matches: Whether, of two matches that overlap, only the first counts.
        ignore_literals: Whether a literal of the pattern meets anything.

    Raises:
        ValueError: The pattern computes nothing, or something that it doesn't return.

    >>> pattern = graph_of(lambda x: (x + 1, x * 2))
    >>> graph = graph_of(lambda a: (a * 2) / (a + 1))
    >>> [found.returning_nodes for found in SubgraphMatcher(pattern).match(graph)]
    [[add, mul]]
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        check_pattern(pattern)
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        self.node_name_match = ""
        output = pattern.output_node()
        self.returned = output.all_input_nodes
        sinks = [each for each in self.returned if list(each.users) == [output]]
        self.anchors = [output] if match_output else sinks
        self.anchor = self.anchors[0]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:  # type: ignore[override]
        """Find the pattern in a graph.

        Args:
            graph: Where to look.
            node_name_match: If it isn't empty, an anchor also meets a node of another call that
                has this in its name.

        Returns:
            The matches, in the order of the nodes that the first anchor meets.
        """
        found = self.occurrences(graph, node_name_match)
        return [*(without_overlaps(found) if self.remove_overlapping_matches else found)]

    def occurrences(self, graph: Graph, node_name_match: str = "") -> Iterator[InternalMatch]:
        """Yield all matches that could be replaced; they may overlap."""
        self.node_name_match = node_name_match
        for nodes_map in self.complete(self.anchors, {}, graph):
            returning = [nodes_map[each] for each in self.returned]
            inputs = [nodes_map[each] for each in self.pattern.find_nodes(op="placeholder")]
            found = InternalMatch(self.anchors, nodes_map, inputs, returning)
            if is_self_contained(found) and not depends_on_itself(found):
                yield found

    def complete(
        self, anchors: Sequence[Node], nodes_map: dict[Node, Any], graph: Graph
    ) -> Iterator[dict[Node, Any]]:
        """Yield each way in which these anchors can be matched too."""
        if not anchors:
            yield nodes_map
            return
        for node in self.candidates(anchors[0], nodes_map, graph):
            attempt = dict(nodes_map)
            if self.match_node(anchors[0], node, attempt):
                yield from self.complete(anchors[1:], attempt, graph)

    def candidates(
        self, anchor: Node, nodes_map: dict[Node, Any], graph: Graph
    ) -> Sequence[Node] | Any:
        """Return the nodes that an anchor may meet, in the order of the graph.

        If it is computed from a node that has met one already, they are found from there.
        """
        known, *path = path_from_known(anchor, nodes_map) or [anchor]
        start = nodes_map.get(known)
        if not isinstance(start, Node) or self.node_name_match:
            return graph.nodes
        reached = {start}
        for step in path:
            users = (user for node in reached for user in node.users)
            reached = {user for user in users if self.call_of(user) == self.call_of(step)}
        return sorted(reached)

    def match_node(self, expected: Node, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Tell whether a node of the pattern meets its like; two options say otherwise."""
        must_be_one = expected.op == "placeholder" and self.match_placeholder
        if must_be_one and not (isinstance(actual, Node) and actual.op == "placeholder"):
            return False
        if self.is_named(expected, actual) and self.call_of(expected) != self.call_of(actual):
            nodes_map[expected] = actual
            ours, theirs = self.arguments_of(expected), self.arguments_of(actual)
            return self.match_value(ours, theirs, nodes_map)
        return super().match_node(expected, actual, nodes_map)

    def is_named(self, expected: Node, actual: Any) -> bool:
        """Tell whether an anchor meets a node for its name's sake."""
        return bool(self.node_name_match) and (
            expected in self.anchors and self.node_name_match in actual.name
        )

    def match_value(self, expected: Any, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Tell whether an argument meets its like; dicts and slices are containers too."""
        if isinstance(expected, dict) and isinstance(actual, dict):
            same_keys = expected.keys() == actual.keys()
            return same_keys and all(
                self.match_value(expected[key], actual[key], nodes_map) for key in expected
            )
        if isinstance(expected, slice) and isinstance(actual, slice):
            ours, theirs = ([each.start, each.stop, each.step] for each in (expected, actual))
            return self.match_value(ours, theirs, nodes_map)
        is_literal = not isinstance(expected, Node | list | tuple)
        return super().match_value(expected, actual, nodes_map) or (
            self.ignore_literals and is_literal
        )

    def call_of(self, node: Node) -> object:
        """Return what a node calls; of an attribute that is a tensor its type, not its name."""
        if node.op == "output":
            return node.op
        if node.op == "get_attr" and node.graph.owning_module is not None:
            value = operator.attrgetter(str(node.target))(node.graph.owning_module)
            return (node.op, type(value)) if isinstance(value, Tensor) else super().call_of(node)
        return super().call_of(node)

    def arguments_of(self, node: Node) -> list[Any]:
        """Return the arguments of a node by name, with the defaults, where names are known."""
        function, bound = node.target, 0
        if node.op == "call_module" and node.graph.owning_module is not None:
            function, bound = type(module_of(node)).forward, 1  # to its `self`
        names = parameters_of(function, bound + len(node.args), tuple(node.kwargs))
        if names is None:
            return [node.args, node.kwargs]
        positional, defaults = names
        return [defaults | dict(zip(positional[bound:], node.args, strict=True)) | node.kwargs]


Matcher = SubgraphMatcher  # the core's name


def check_pattern(pattern: Graph) -> None:
    """Refuse a pattern that can't be replaced as a whole.

    Raises:
        ValueError: It computes nothing, or has a node that nothing uses.
    """
    output = pattern.output_node()
    if all(each.op == "placeholder" for each in output.all_input_nodes):
        raise ValueError("the pattern computes nothing: let it return what is to be replaced")
    for node in pattern.nodes:
        if node is not output and not node.users:
            raise ValueError(
                f"the pattern doesn't use its {node.op} `{node.name}`: "
                "remove it, or return what is computed from it"
            )


def path_from_known(anchor: Node, known: dict[Node, Any]) -> list[Node]:
    """Return the shortest path in a pattern to ``anchor`` from a known node; empty without one."""
    paths, seen = [[anchor]], {anchor}
    for path in paths:  # grows on the way
        if path[0] in known:
            return path
        paths += [[each, *path] for each in path[0].all_input_nodes if each not in seen]
        seen.update(path[0].all_input_nodes)
    return []


@cache
def function_signatures(function: Callable[..., Any]) -> list[inspect.Signature]:
    """Return the signatures of a function, one for each overload; none if they aren't known."""
    overloads = get_signature_for_torch_op(function)
    if overloads is not None:
        return overloads
    try:
        return [inspect.signature(function)]
    except (TypeError, ValueError):
        return []


@cache
def parameters_of(
    function: Any, count: int, keywords: tuple[str, ...]
) -> tuple[list[str], dict[str, Any]] | None:
    """Return the names of so many positional arguments, and the defaults of what isn't passed.

    ``None`` where they aren't known: no signature takes these arguments, or one takes any number.
    """
    for signature in function_signatures(function) if callable(function) else []:
        parameters = signature.parameters.values()
        try:
            bound = signature.bind(*range(count), **dict.fromkeys(keywords)).arguments
        except TypeError:
            continue
        if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters):
            return None
        defaults = {each.name: each.default for each in parameters if each.name not in bound}
        return [*bound][:count], defaults
    return None


def is_self_contained(found: InternalMatch) -> bool:
    """Tell whether nobody outside uses a value that the pattern doesn't return."""
    inside = set(nodes_inside(found))  # type: ignore[arg-type]
    inside.update(each for each in found.nodes_map.values() if is_output(each))
    hidden = inside.difference(found.returning_nodes)
    return all(user in inside for node in hidden for user in node.users)


def is_output(value: object) -> bool:
    return isinstance(value, Node) and value.op == "output"


def depends_on_itself(found: InternalMatch) -> bool:
    """Tell whether something inside is computed outside from another result of the match."""
    inside = set(nodes_inside(found))  # type: ignore[arg-type]
    return len(found.returning_nodes) > 1 and not inside.isdisjoint(users_between(found))


def users_between(found: InternalMatch) -> list[Node]:
    """Return what is computed outside from results of a match before its last node, in order."""
    inside = set(nodes_inside(found))  # type: ignore[arg-type]
    last = max(inside)
    reached: set[Node] = set()
    waiting = [user for each in inside for user in each.users if user not in inside]
    while waiting:
        node = waiting.pop()
        if node < last and node not in reached:
            reached.add(node)
            waiting += node.users
        elif node is last:
            reached.add(node)
    return sorted(reached)


def without_overlaps(matches: Iterator[InternalMatch]) -> Iterator[InternalMatch]:
    """Yield each match that has no node in common with one that was yielded before."""
    taken: set[Node] = set()
    for found in matches:
        inside = nodes_inside(found)  # type: ignore[arg-type]
        if taken.isdisjoint(inside):
            taken.update(inside)
            yield found


# --- replacing ------------------------------------------------------------------------------------


@dataclass
class ReplacedPatterns:
    """One place where a pattern was replaced. In torch: a class of the same name.

    Attributes:
        anchor: The first node that the pattern returns.
        nodes_map: For each node of the pattern what it stood for.
        replacements: The nodes that were added.
    """

    anchor: Node
    nodes_map: dict[Node, Any]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Pattern, replacement: Pattern) -> list[Match]:
    """Replace a pattern wherever it occurs, and recompile the module; the core says more.

    In torch: ``torch.fx.replace_pattern``.

    Args:
        gm: The module whose graph is edited. What the replacement uses is copied to it, but for
            what it has under the same name; constants of the replacement get new names.
        pattern: What to look for.
        replacement: What to put there. It takes as many inputs as the pattern, in the same order,
            and returns as many values.

    Returns:
        The matches. An input that was itself replaced is the node that took its place.

    Raises:
        ValueError: The pattern computes nothing, or something that it doesn't return; or the
            replacement takes or returns another number of values than the pattern.
    """
    replaced = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(each.anchor, each.nodes_map) for each in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Pattern,
    replacement: Pattern | None = None,
    match_filters: list[MatchFilter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """Replace a pattern where all filters agree.

    In torch: a function of the same name.

    Args:
        gm: The module whose graph is edited.
        pattern: What to look for.
        replacement: What to put there, if there is no callback.
        match_filters: Each gets a match, the graph and the pattern's graph, and tells whether the
            match counts. One that doesn't is in nobody's way: it overlaps with no other.
        ignore_literals: Whether a literal of the pattern meets anything.
        replacement_callback: Gets the same as a filter, and returns the graph to put there.
        node_name_match: As for ``SubgraphMatcher.match``.

    Returns:
        The places, in the order of the graph.

    Raises:
        ValueError: As for ``replace_pattern``; or there is neither replacement nor callback.
    """
    if replacement is None and replacement_callback is None:
        raise ValueError("nothing to put there: pass a replacement or a replacement_callback")
    filters = match_filters or []
    matcher = SubgraphMatcher(graph_of(pattern), ignore_literals=ignore_literals)
    wanted = (
        found
        for found in matcher.occurrences(gm.graph, node_name_match)
        if all(each(found, gm.graph, matcher.pattern) for each in filters)
    )
    replacer = Replacer(gm)
    common = None if replacement_callback else graph_of(replacement)  # type: ignore[arg-type]
    for found in list(without_overlaps(wanted)):
        replacer.update(found)
        new = common or replacement_callback(found, gm.graph, matcher.pattern)  # type: ignore[misc]
        replacer.replace(found, new)
    gm.recompile()
    return replacer.replaced


class Replacer:
    """Replaces matches in a module's graph, one after the other.

    Attributes:
        gm: The module.
        replaced: What was replaced so far.
        new_values: What took the place of each result that was replaced.
        paths: Where a replacement's attributes and modules are in ``gm``.
    """

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm
        self.replaced: list[ReplacedPatterns] = []
        self.new_values: dict[Node, Any] = {}
        self.paths: dict[tuple[Graph, str], str] = {}

    def update(self, found: InternalMatch) -> None:
        """Let a match refer to what took the place of its inputs."""

        def current(value: Any) -> Any:
            return map_arg(value, lambda node: self.new_values.get(node, node))

        found.placeholder_nodes = [current(each) for each in found.placeholder_nodes]
        for node, value in found.nodes_map.items():
            found.nodes_map[node] = current(value)

    def replace(self, found: InternalMatch, replacement: Graph) -> None:
        """Put a copy of a graph before the last node of a match, and erase the match.

        What was computed from its results before that node moves behind the copy.
        """
        graph, inside = self.gm.graph, nodes_inside(found)  # type: ignore[arg-type]
        placeholders = replacement.find_nodes(op="placeholder")
        check_number("inputs", found.placeholder_nodes, placeholders)
        results = tree_leaves(replacement.output_node().args)
        check_number("results", found.returning_nodes, results)
        values = dict(zip(placeholders, found.placeholder_nodes, strict=True))
        delayed, last = users_between(found), max(inside)
        with graph.inserting_before(last):
            graph.graph_copy(replacement, values)
        for node in delayed:
            last.prepend(node)
        added = [copied for node, copied in values.items() if node.op != "placeholder"]
        self.bring_attributes(replacement, values)
        for old, result in zip(found.returning_nodes, results, strict=True):
            new = values.get(result, result)
            self.new_values[old] = new
            if old is not new:
                old.replace_all_uses_with(new, lambda user: user not in added)
        for node in reversed(inside):
            graph.erase_node(node)
        self.replaced.append(ReplacedPatterns(found.anchor, found.nodes_map, added))

    def bring_attributes(self, replacement: Graph, copies: dict[Node, Node]) -> None:
        """Let the copies read what ``gm`` has, and copy to it what it lacks."""
        for node, copied in copies.items():
            if node.op in ("get_attr", "call_module"):
                key = replacement, str(node.target)
                if key not in self.paths:
                    self.paths[key] = self.bring(*key)
                copied.target = self.paths[key]

    def bring(self, replacement: Graph, target: str) -> str:
        """Return where ``gm`` has an attribute of a replacement; if it has none, copy it.

        Raises:
            RuntimeError: Neither ``gm`` nor the replacement has it.
        """
        is_constant = re.fullmatch(r"_tensor_constant\d+", target) is not None
        if has_path(self.gm, target) and not is_constant:
            return target
        source = replacement.owning_module
        if source is None or not has_path(source, target):
            if has_path(self.gm, target):
                return target
            raise RuntimeError(f"neither the module nor the replacement has `{target}`")
        path = fresh_path(self.gm, "_tensor_constant{}") if is_constant else target
        *_, name = path.split(".")
        owner = create_parents(self.gm, path)
        setattr(owner, name, copy.deepcopy(operator.attrgetter(target)(source)))
        return path


def check_number(what: str, expected: Sequence[Any], actual: Sequence[Any]) -> None:
    """Refuse a replacement that doesn't fit.

    Raises:
        ValueError: The numbers differ.
    """
    if len(expected) != len(actual):
        raise ValueError(
            f"the pattern has {len(expected)} {what}, and the replacement {len(actual)}: "
            "they must have the same number, in the same order"
        )


def has_path(module: nn.Module, path: str) -> bool:
    """Tell whether a dotted path leads to something."""
    try:
        operator.attrgetter(path)(module)
    except AttributeError:
        return False
    return True


def fresh_path(module: nn.Module, form: str) -> str:
    """Return the first name of this form, by number, that a module doesn't have."""
    number = 0
    while has_path(module, form.format(number)):
        number += 1
    return form.format(number)


def create_parents(module: nn.Module, path: str) -> nn.Module:
    """Return the module that owns the last name of a path; what is missing is created."""
    for name in path.split(".")[:-1]:
        if not hasattr(module, name):
            module.add_module(name, nn.Module())
        module = getattr(module, name)
    return module


# --- fusing ---------------------------------------------------------------------------------------

PAIRS = [
    nn.Sequential(nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1)),
    nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)),
    nn.Sequential(nn.Conv3d(1, 1, 1), nn.BatchNorm3d(1)),
    nn.Sequential(nn.ConvTranspose1d(1, 1, 1), nn.BatchNorm1d(1)),
    nn.Sequential(nn.ConvTranspose2d(1, 1, 1), nn.BatchNorm2d(1)),
    nn.Sequential(nn.ConvTranspose3d(1, 1, 1), nn.BatchNorm3d(1)),
    nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)),
]
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
HOOKS = ("_forward_pre_hooks", "_forward_hooks")


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """Fuse each convolution or linear layer with the batch norm that follows it.

    A pair is left as it is where one layer would not compute the same: the convolution is called
    twice, its parameters are read elsewhere, one of the two has hooks, the batch norm has no
    running statistics, or a linear layer has another number of features. A batch norm after a
    linear layer is taken to normalise what that computes: inputs have two dimensions.

    In torch: ``torch.fx.experimental.optimization.fuse``.

    Args:
        model: A model in eval mode.
        inplace: Whether the result shares the model's other parameters; else they are copied.
        no_trace: Whether a ``GraphModule`` is taken as it is; its graph isn't changed.

    Returns:
        A module that computes the same with fewer nodes.

    Raises:
        RuntimeError: One of a pair is in training mode.

    >>> model = nn.Sequential(nn.ConvTranspose1d(4, 6, 3, groups=2), nn.BatchNorm1d(6)).eval()
    >>> list(fuse(model).state_dict())
    ['0.weight', '0.bias']
    """
    model = model if inplace else copy.deepcopy(model)
    is_traced = no_trace and isinstance(model, GraphModule)
    graph: Any = copy.deepcopy(model.graph) if is_traced else None
    gm = GraphModule(model, graph) if is_traced else symbolic_trace(model)
    while any(fuse_pairs(gm, pattern) for pattern in pair_patterns()):
        pass  # a batch norm may follow another: the first is gone, and the second's turn has come
    return GraphModule(gm, gm.graph)


@cache
def pair_patterns() -> list[GraphModule]:
    """Return the patterns of the pairs, traced once."""
    return [symbolic_trace(each) for each in PAIRS]


def fuse_pairs(gm: GraphModule, pattern: GraphModule) -> int:
    """Fuse the pairs of two types of modules, and return how many."""
    calls, read = calls_and_reads(gm)
    fused = 0
    for found in ModuleMatcher(pattern.graph).match(gm.graph):
        conv, bn = nodes_inside(found)
        if calls[id(module_of(conv))] == 1 and str(conv.target) not in read and can_fuse(conv, bn):
            gm.set_submodule(str(conv.target), fuse_conv_bn_eval(module_of(conv), module_of(bn)))
            bn.replace_all_uses_with(conv)
            gm.graph.erase_node(bn)
            fused += 1
    return fused


def calls_and_reads(gm: GraphModule) -> tuple[Counter[int], set[str]]:
    """Return how often each module is called, by ``id``, and what paths attributes are below."""
    calls = Counter(id(module_of(each)) for each in gm.graph.find_nodes(op="call_module"))
    reads = [str(each.target) for each in gm.graph.find_nodes(op="get_attr")]
    return calls, {path.rpartition(".")[0] for path in reads}


def can_fuse(conv: Node, bn: Node) -> bool:
    """Tell whether one layer computes what these two do.

    Raises:
        RuntimeError: One of them is in training mode.
    """
    for each in (conv, bn):
        if module_of(each).training:
            raise RuntimeError(
                f"cannot fuse `{conv.target}` and `{bn.target}`: `{each.target}` is in training "
                "mode, where a batch norm uses the statistics of its batch; call `model.eval()`"
            )
    first, norm = module_of(conv), module_of(bn)
    has_hooks = any(getattr(each, name) for each in (first, norm) for name in HOOKS)
    fits = not isinstance(first, nn.Linear) or first.out_features == norm.num_features
    return fits and not has_hooks and norm.running_mean is not None


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return one layer that computes ``bn(conv(x))`` of two modules in eval mode.

    In torch: ``torch.nn.utils.fuse_conv_bn_eval``.

    Args:
        conv: A convolution, also a transposed one, or a linear layer. It isn't changed.
        bn: The batch norm that follows it, with running statistics.
        transpose: Whether the convolution is transposed, if it isn't one of torch's own.

    >>> import torch
    >>> conv, bn = nn.ConvTranspose2d(4, 6, 3, groups=2).eval(), nn.BatchNorm2d(6).eval()
    >>> x = torch.rand(1, 4, 5, 5)
    >>> torch.allclose(fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    if not (transpose or isinstance(conv, TRANSPOSED)):
        return nn.utils.fuse_conv_bn_eval(conv, bn)
    # Here the weight's dimensions are [groups * inputs, outputs, ...]; torch's function wants
    # those of a plain convolution, [groups * outputs, inputs, ...].
    plain = copy.deepcopy(conv)
    plain.weight = nn.Parameter(with_inputs_and_outputs_swapped(conv.weight, conv.groups))
    fused = nn.utils.fuse_conv_bn_eval(plain, bn)
    weight = with_inputs_and_outputs_swapped(fused.weight, conv.groups)
    fused.weight = nn.Parameter(weight, conv.weight.requires_grad)
    return fused


def with_inputs_and_outputs_swapped(weight: Tensor, groups: int) -> Tensor:
    """Swap, within each group, the two channel dimensions of a convolution's weight."""
    return weight.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)


# --- explaining -----------------------------------------------------------------------------------


class Difference(NamedTuple):
    """Where the graph is not what the pattern asks for.

    Attributes:
        node: The node of the pattern.
        reason: What differs.
    """

    node: Node
    reason: str


class Explanation(NamedTuple):
    """Whether a pattern was found, or else where it came nearest; ``str`` shows it as a table.

    Attributes:
        pattern: The pattern's graph.
        matches: Where the pattern was found.
        nodes_map: For the nodes of the pattern what they met at the nearest miss.
        differences: What differs there.
    """

    pattern: Graph
    matches: list[Match]
    nodes_map: dict[Node, Any]
    differences: list[Difference]

    @property
    def calls(self) -> list[Node]:
        """The nodes of the pattern that compute something."""
        return [each for each in self.pattern.nodes if each.op not in ("placeholder", "output")]

    @property
    def agreeing(self) -> int:
        """How many of these agree with what they met."""
        differing = {each.node for each in self.differences}
        return len({each for each in self.calls if each in self.nodes_map} - differing)

    def __str__(self) -> str:
        if self.matches:
            places = ", ".join(str(each.nodes_map[each.anchor]) for each in self.matches)
            return f"found {len(self.matches)} times, at {places}"
        head = f"not found; at the nearest miss {self.agreeing} of {len(self.calls)} nodes agree"
        rows = [("pattern", "graph", ""), *map(self._row, self.calls)]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        lines = (f"  {a:{widths[0]}}  {b:{widths[1]}}  {c}".rstrip() for a, b, c in rows)
        return "\n".join([head, *lines])

    def _row(self, node: Node) -> tuple[str, str, str]:
        met = self.nodes_map.get(node)
        reasons = [each.reason for each in self.differences if each.node is node]
        right = written(met) if isinstance(met, Node) else "-"
        return written(node), right, "; ".join(reasons)


def explain(gm: GraphModule, pattern: Pattern) -> Explanation:
    """Tell why a pattern is not found: where it comes nearest, and what differs there.

    Each node of the pattern is compared with each of the graph, without stopping where they
    differ. At the nearest miss most nodes agree; of several such places, those of a whole pattern
    come first, then those with the fewest differences, then the first in the graph.

    In torch: no such function.

    Args:
        gm: Where to look.
        pattern: What to look for. If it returns several values, each is compared by itself.

    >>> import torch
    >>> gm = symbolic_trace(lambda a, b: torch.relu(a + b))
    >>> print(explain(gm, lambda x, y: torch.tanh(x + y)))
    not found; at the nearest miss 1 of 2 nodes agree
      pattern                   graph
      add = operator.add(x, y)  add = operator.add(a, b)
      tanh = torch.tanh(add)    relu = torch.relu(add)    another function
    """
    comparison = Comparison(graph_of(pattern))
    nothing = Explanation(comparison.pattern, [], {}, [])
    attempts = (
        comparison.compare(start, node)
        for node in gm.graph.nodes
        if node.op not in ("placeholder", "output")
        for start in nothing.calls
    )
    nearest = min(attempts, key=comparison.distance, default=nothing)
    return nearest._replace(matches=match(comparison.pattern, gm.graph))


class Comparison(SubgraphMatcher):
    """Compares a pattern with places in a graph, and goes on where they differ.

    Attributes:
        strict: What tells whether two values match.
        differences: What was found to differ.
        users: The nodes of the pattern whose arguments are being compared, the innermost last.
    """

    def __init__(self, pattern: Graph) -> None:
        super().__init__(pattern)
        self.strict = SubgraphMatcher(pattern)
        self.differences: list[Difference] = []
        self.users: list[Node] = []

    def distance(self, attempt: Explanation) -> tuple[int, bool, int]:
        """Return what is smallest at the nearest miss."""
        is_whole = not attempt.nodes_map.keys().isdisjoint(self.anchors)
        return -attempt.agreeing, not is_whole, len(attempt.differences)

    def compare(self, start: Node, node: Node) -> Explanation:
        """Compare a node of the pattern and one of the graph, and what they are computed from."""
        self.differences = []
        nodes_map: dict[Node, Any] = {}
        self.match_node(start, node, nodes_map)
        inside = {each for each in nodes_map.values() if isinstance(each, Node)}
        for expected, actual in nodes_map.items():
            is_hidden = expected.op != "placeholder" and expected not in (start, *self.returned)
            users = actual.users if is_hidden and isinstance(actual, Node) else ()
            outside = [user for user in users if user not in inside]
            if outside:
                self.differences.append(Difference(expected, f"also used by `{outside[0]}`"))
        if start not in self.returned:
            self.differences += [Difference(each, f"not behind `{node}`") for each in start.users]
        elif not self.differences:
            self.differences = [Difference(start, "found, but not with the other results")]
        return Explanation(self.pattern, [], nodes_map, self.differences)

    def match_node(self, expected: Node, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Enter what a node of the pattern meets, and note what differs; always true."""
        if expected in nodes_map or expected.op == "placeholder" or not isinstance(actual, Node):
            known = nodes_map.get(expected)
            if not self.strict.match_node(expected, actual, nodes_map):
                self.note(
                    f"`{actual}` for `{expected}`" + (f", which is `{known}`" if known else "")
                )
        elif actual in nodes_map.values():
            self.note(f"`{actual}` stands for two nodes of the pattern")
        else:
            nodes_map[expected] = actual
            self.users.append(expected)
            self.compare_calls(expected, actual, nodes_map)
            self.users.pop()
        return True

    def compare_calls(self, expected: Node, actual: Node, nodes_map: dict[Node, Any]) -> None:
        """Compare what two nodes call, then their arguments; of other calls only the inputs."""
        inputs = actual.all_input_nodes
        if self.call_of(expected) != self.call_of(actual):
            kind, other = KINDS[expected.op], KINDS[actual.op]
            self.note(f"another {kind.split()[-1]}" if kind == other else f"{other}, not {kind}")
        elif self.is_swapped(expected, actual, nodes_map):
            self.note("the arguments are in another order")
            inputs = inputs[::-1]
        else:
            self.match_value(self.arguments_of(expected), self.arguments_of(actual), nodes_map)
            return
        for pair in zip(expected.all_input_nodes, inputs, strict=False):
            self.match_node(*pair, nodes_map)

    def is_swapped(self, expected: Node, actual: Node, nodes_map: dict[Node, Any]) -> bool:
        """Tell whether the arguments of two nodes match in the opposite order only."""
        matches, swapped = (
            self.strict.match_value(expected.args, args, dict(nodes_map))
            for args in (actual.args, actual.args[::-1])
        )
        return swapped and not matches

    def match_value(self, expected: Any, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Note what differs in two arguments; always true."""
        if not super().match_value(expected, actual, nodes_map):
            self.note(f"{shortened(actual)}, not {shortened(expected)}")
        return True

    def note(self, reason: str) -> None:
        """Note a difference in the node whose arguments are being compared."""
        self.differences.append(Difference(self.users[-1], reason))


KINDS = {
    "call_function": "a function",
    "call_method": "a method",
    "call_module": "a module",
    "get_attr": "an attribute",
    "placeholder": "an input",
}


def shortened(value: object) -> str:
    """Return an argument's text, of a dict its keys, and of a long text its beginning."""
    text = f"arguments {', '.join(value)}" if isinstance(value, dict) else repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def written(node: Node) -> str:
    """Return a node as a line of code."""
    arguments = [*map(repr, node.args), *(f"{key}={value!r}" for key, value in node.kwargs.items())]
    match node.op:
        case "placeholder":
            return f"{node.name} = input"
        case "get_attr":
            return f"{node.name} = self.{node.target}"
        case "call_module":
            return f"{node.name} = self.{node.target}({', '.join(arguments)})"
        case "call_method":
            return f"{node.name} = {arguments[0]}.{node.target}({', '.join(arguments[1:])})"
        case _:
            return f"{node.name} = {function_name(node.target)}({', '.join(arguments)})"


def function_name(function: Any) -> str:
    """Return where a function is found: ``torch.relu``, ``operator.add``."""
    module = (function.__module__ or "").lstrip("_")
    return resolve_name(function) or f"{module}.{function.__name__}"
