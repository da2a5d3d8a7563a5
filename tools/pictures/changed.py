"""Pictures of a change, step by step: each panel is what the graph is after one step."""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, fx, nn

from drawing import Link, Node, Panel, Picture
from drawing.listing import panel, target_of
from solutions.rewriting import Match, nodes_inside
from solutions.split_module import (
    assign_nodes,
    collect_crossings,
    order_partitions,
    split_module,
)
from solutions.stretch.inlining import inline_module
from solutions.stretch.rewriting import match, replace_pattern
from solutions.stretch.tracer import symbolic_trace
from solutions.stretch.unflatten import unflatten
from tools.pictures.models import Exported, Layer, Residual, Trained, TwoViews
from tools.pictures.recorded import LineTracer, source_of
from tools.pictures.traced import arguments_of

Moves = Iterable[tuple[str, str]]


@dataclass
class Steps:
    """The steps so far."""

    panels: list[Panel] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)

    def add(self, says: str, shown: Panel, line: int = 0, moves: Moves = ()) -> None:
        """Add a step: its words, its nodes, its line, and which node became which."""
        before = len(self.panels) - 1
        self.panels.append(replace(shown, heading=says, line=line))
        self.links += (Link(before, old, new) for old, new in moves)

    def picture(self, title: str, description: str, source: str) -> Picture:
        return Picture(title, description, tuple(self.panels), tuple(self.links), source)


@contextmanager
def watched(
    graph: fx.Graph, made: Callable[[fx.Node], None], erased: Callable[[fx.Node], None]
) -> Iterator[None]:
    """Report each node that is made in a graph, and each that was erased."""
    create, erase = graph.create_node, graph.erase_node

    def create_node(*args: Any, **kwargs: Any) -> fx.Node:
        node = create(*args, **kwargs)
        made(node)
        return node

    def erase_node(node: fx.Node) -> None:
        erase(node)
        erased(node)

    with patch.multiple(graph, create_node=create_node, erase_node=erase_node):
        yield


def lines_of(module: nn.Module) -> dict[str, int]:
    """The line of ``forward`` that makes each node of a trace."""
    graph = LineTracer(type(module).forward).trace(module)
    return {node.name: node.meta["line"] for node in graph.nodes}


def inlining() -> Picture:
    """Inline the modules of a residual block one after the other, and keep every edit."""
    gm = symbolic_trace(Residual().eval())
    line_of = lines_of(Residual())
    column_of = {node.name: str(node.target) for node in gm.graph.find_nodes(op="call_module")}
    marks: dict[str, str] = {}
    steps = Steps()
    steps.add("a graph with three calls of modules", in_columns(gm, column_of))

    for call in gm.graph.find_nodes(op="call_module"):

        def step(says: str, new: str, name: str = call.name) -> None:
            steps.add(says, in_columns(gm, column_of, marks), line_of[name], [(name, new)])

        def made(node: fx.Node, name: str = call.name) -> None:
            column_of[node.name], marks[node.name] = column_of[name], "new"
            verb = "reads" if node.op == "get_attr" else "calls"
            step(f"the forward of {name} {verb} {target_of(node)}", node.name)

        def erased(node: fx.Node) -> None:
            result = list(marks)[-1]
            step(f"{result} takes the place of {node.name}, which is erased", result)

        with watched(gm.graph, made, erased):
            inline_module(gm, str(call.target))
    return steps.picture(
        "Three calls are replaced by what they do",
        "A residual block of six nodes, three of them calls of the modules conv, bn and relu. Each "
        "is replaced in turn: get_attr nodes read its parameters and buffers, a function takes "
        f"them, and the call is erased. The {len(gm.graph.nodes)} nodes at the end call no module.",
        source_of(Residual.forward),
    )


def in_columns(
    gm: fx.GraphModule, column_of: Mapping[str, str], marks: Mapping[str, str] | None = None
) -> Panel:
    """A graph whose nodes are in the columns of ``column_of``; the others are in the first."""
    listed = panel(gm.graph, marks=marks).nodes
    return Panel(tuple(replace(node, module=column_of.get(node.name, "")) for node in listed))


def pattern(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x + y)


def replacement(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(x, -y)


def searched(a: Tensor, b: Tensor) -> Tensor:
    c = torch.relu(a + torch.tanh(b))
    d = a + c
    return torch.relu(c + b) * torch.relu(d) * d


PATTERN, REPLACEMENT = 2, 5


def rewriting() -> Picture:
    """Look for a pattern, then replace it, and keep every edit."""
    gm = symbolic_trace(searched)
    marks: dict[str, str] = {}
    steps = Steps()

    def step(says: str, line: int = 0, moves: Moves = ()) -> None:
        steps.add(says, panel(gm.graph, marks=marks, note=arguments_of), line, moves)

    step("the graph that is searched")
    for number, found in enumerate(match(pattern, gm.graph), start=1):
        marks.update({node.name: f"match {number}" for node in nodes_inside(found)})
        step(f"match {number}: {bindings(found)}", PATTERN)
    for relu in missed(gm.graph, marks):
        (total,) = relu.all_input_nodes
        (other,) = total.users.keys() - {relu}
        close = {node.name: "no match" for node in (total, relu)}
        shown = panel(gm.graph, marks=marks | close, note=arguments_of)
        steps.add(f"no match: {other} uses the sum {total} as well", shown, PATTERN)

    def made(node: fx.Node) -> None:
        marks[node.name] = "new"
        step(f"{node} is copied before {node.next}", REPLACEMENT, [(node.next.name, node.name)])

    def erased(node: fx.Node) -> None:
        new = [name for name, mark in marks.items() if mark == "new"][-1]
        del marks[node.name]
        step(f"{node} is erased", REPLACEMENT, [(node.name, new)])

    with watched(gm.graph, made, erased):
        replace_pattern(gm, pattern, replacement)
    return steps.picture(
        "A pattern is found, and replaced",
        "A graph of twelve nodes in which relu of a sum occurs three times. Two of them match, and "
        "are marked; the third does not, because something else uses its sum. In the place of each "
        "match come neg and maximum, and the sum and the relu are erased.",
        source_of(pattern, replacement),
    )


def bindings(found: Match) -> str:
    """Return the value of each placeholder of a pattern, in words."""
    values = {node: value for node, value in found.nodes_map.items() if node.op == "placeholder"}
    return ", ".join(f"{node} is {value}" for node, value in values.items())


def missed(graph: fx.Graph, matched: Mapping[str, str]) -> list[fx.Node]:
    """The calls of relu on a sum that are in no match."""
    relus = graph.find_nodes(op="call_function", target=torch.relu)
    sums = set(graph.find_nodes(op="call_function", target=operator.add))
    return [relu for relu in relus if relu.name not in matched and sums & set(relu.all_input_nodes)]


def splitting() -> Picture:
    """Cut a graph into three partitions, step by step."""
    model = TwoViews()
    gm = symbolic_trace(model)
    line_of = lines_of(model)
    numbers = itertools.cycle([0, 1, 2])
    column_of: dict[str, str] = {}
    badges: dict[str, str] = {}
    steps = Steps()
    steps.add("the graph, traced", in_columns(gm, column_of))

    def callback(node: fx.Node) -> int:
        number = next(numbers)
        column_of[node.name], badges[node.name] = f"submod_{number}", str(number)
        shown = in_columns(gm, column_of, badges)
        steps.add(f"the callback says {number} for {node}", shown, line_of[node.name])
        return number

    partitions = assign_nodes(gm.graph, callback)
    collect_crossings(gm, partitions)
    ordered = order_partitions(partitions)
    order = {partition.submod_name: place for place, partition in enumerate(ordered)}
    shown = gathered(in_columns(gm, column_of), order)
    steps.add("the partitions in the order in which they run", shown)
    marks = {value.name: "out" for each in ordered[:-1] for value in each.outputs}
    crossing = gathered(in_columns(gm, column_of, marks), order)
    steps.add("values that one partition makes and another one uses", crossing)
    split = split_module(gm, model, lambda node: int(column_of[node.name].removeprefix("submod_")))
    says = "each partition is a module, and the outer graph calls them in turn"
    called = panel(split.graph, note=item_of).nodes
    steps.add(says, Panel(tuple(map(as_port, called))), moves=column_of.items())
    return steps.picture(
        "Six calls go to three partitions, and each partition becomes a module",
        "A graph of ten nodes, six of them calls. A callback puts the calls into three partitions "
        "in turn. The nodes of a partition come together, in the order in which the partitions "
        "run. At the end a graph calls three modules; operator.getitem takes the values apart "
        "where a module returns two.",
        source_of(TwoViews.forward),
    )


def item_of(node: fx.Node) -> str:
    """Return which item of a tuple a node takes; nothing for any other node."""
    return f"item {node.args[1]}" if node.target is operator.getitem else ""


def as_port(node: Node) -> Node:
    """A value that ``getitem`` takes from a module's results, below the module itself."""
    return replace(node, module=node.inputs[0]) if node.note else node


def gathered(shown: Panel, order: Mapping[str, int]) -> Panel:
    """The same nodes, partition by partition, between the inputs and the output."""
    *nodes, output = shown.nodes
    return Panel((*sorted(nodes, key=lambda node: order.get(node.module, -1)), output))


def unflattening() -> Picture:
    """Fold a flat graph into the tree of its modules: the calls, then the parameters."""
    program = torch.export.export(Exported(), (torch.ones(1, 3),))
    owned = program.graph_signature.inputs_to_parameters
    flat = [flat_row(node) for node in program.graph.nodes]
    tree = list(with_parameters(tree_rows(unflatten(program)), owned.values()))
    source = "\n".join(map(forward_of, (Layer, Exported)))
    shown: set[str] = set()
    steps = Steps()
    steps.add("the flat graph, each call with its module stack", Panel(tuple(flat)))
    for node in program.graph.nodes:
        if node.op != "placeholder":
            above = ancestors(node.name, tree)
            shown |= {node.name, *above}
            steps.add(
                f"{node} goes to {above[0]}", folded(flat, tree, shown), line_in(source, node)
            )
    for name, path in owned.items():
        shown |= {name, path}
        (module, *_) = ancestors(path, tree)
        says = f"{name} goes to {module}, which owns it"
        steps.add(says, folded(flat, tree, shown), moves=[(name, path)])
    says = "a module takes values made before it, and returns values used after it"
    steps.add(says, Panel(tuple(tree)), moves=[("x", "(root)")])
    return steps.picture(
        "A flat graph becomes a tree of modules",
        "Ten nodes in a list: four parameters, the input x, four calls and the output. Each call "
        "goes below the module that made it, and so the modules block, block.linear and head come "
        "up. Then each parameter goes to the module that owns it.",
        source,
    )


def flat_row(node: fx.Node) -> Node:
    stack = [path or "root" for path, _ in node.meta.get("nn_module_stack", {}).values()]
    return Node(node.name, node.op, target_of(node), note=" > ".join(stack))


def tree_rows(root: nn.Module) -> Iterator[Node]:
    """A module's own nodes in order, each called module in the place of its call."""
    yield Node("(root)", "module", note=crossing(root))
    yield from rows_below(root, "(root)", "")


def rows_below(module: nn.Module, parent: str, path: str) -> Iterator[Node]:
    for node in graph_of(module).nodes:
        if node.op == "call_module":
            below = f"{path}{node.target}"
            callee = module.get_submodule(str(node.target))
            yield Node(below, "module", parent=parent, note=crossing(callee))
            yield from rows_below(callee, below, f"{below}.")
        elif node.op in ("call_function", "call_method") or (not path and node.op == "output"):
            yield Node(node.name, node.op, target_of(node), parent=parent)


def crossing(module: nn.Module) -> str:
    """Return the inputs and outputs of a module, in words."""
    graph = graph_of(module)
    takes = ", ".join(node.name for node in graph.find_nodes(op="placeholder"))
    returns = ", ".join(node.name for node in graph.output_node().all_input_nodes)
    return f"takes {takes}, returns {returns}"


def graph_of(module: nn.Module) -> fx.Graph:
    graph = module.graph
    assert isinstance(graph, fx.Graph)
    return graph


def forward_of(module: type[nn.Module]) -> str:
    """The source of a class, without all but ``forward``."""
    return f"class {module.__name__}(nn.Module):\n{inspect.getsource(module.forward)}"


def line_in(source: str, node: fx.Node) -> int:
    """The line of a source that an exported node was made by; 0 if there is none."""
    texts = [line.strip() for line in source.splitlines()]
    ran = [line.strip() for line in node.meta.get("stack_trace", "").splitlines()]
    return next((texts.index(line) + 1 for line in reversed(ran) if line in texts), 0)


def with_parameters(tree: Iterable[Node], paths: Iterable[str]) -> Iterator[Node]:
    """The rows of a tree, below each module its own parameters."""
    for row in tree:
        yield row
        for path in paths:
            module, _, label = path.rpartition(".")
            if row.name == module:
                yield Node(path, "parameter", label=label, parent=module)


def ancestors(name: str, tree: Sequence[Node]) -> list[str]:
    """The rows above one, from its parent to the root."""
    parents = {row.name: row.parent for row in tree}
    found = [parents[name]]
    while parents[found[-1]]:
        found.append(parents[found[-1]])
    return found


def folded(flat: Iterable[Node], tree: Iterable[Node], shown: set[str]) -> Panel:
    """The inputs that are left, the part of the tree that is shown, and what else is left."""
    left = [row for row in flat if row.name not in shown]
    inputs = [row for row in left if row.op == "placeholder"]
    branches = [replace(row, note="") for row in tree if row.name in shown]
    return Panel((*inputs, *branches, *(row for row in left if row.op != "placeholder")))


def chained() -> Picture:
    """The chain, from a model to its stages: its modules, its operators, the tree, the cut."""
    program = torch.export.export(Trained(), (torch.ones(2, 3), torch.ones(2, 2)))
    tree = unflatten(program)
    modules = [Node("(root)", "module")]
    modules += [
        Node(path, "module", parent=path.rpartition(".")[0] or "(root)", note=type(each).__name__)
        for path, each in Trained().named_modules()
        if path
    ]
    operators = [flat_row(node) for node in program.graph.nodes]
    calls = [node.name for node in tree.graph.nodes if node.op.startswith("call_")]
    groups = {name: f"stage {int(name != 'block')}" for name in calls}
    steps = Steps()
    steps.add("the model", Panel(tuple(modules)))
    steps.add("capture: its operators, each with the modules that ran it", Panel(tuple(operators)))
    steps.add("unflatten: the operators in their modules again", Panel(tuple(tree_rows(tree))))
    steps.add("split_module: two stages", panel(tree.graph, groups=groups))
    return steps.picture(
        "From a model to its stages",
        "Four lists, one after the other. The model: block, with a linear layer, and head. Its "
        "operators, in the order in which they ran, each with the modules that ran it. The tree: "
        "the operators below their modules again. The stages: block is stage 0; the sum, head and "
        "the loss are stage 1.",
        "\n".join(map(forward_of, (Layer, Trained))),
    )
