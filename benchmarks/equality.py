"""Comparisons of two results, made before anything is timed."""

from __future__ import annotations

from torch import nn
from torch.fx import Graph, GraphModule, Node

from tests.suite import equal, same_graph

STACK = ("nn_module_stack",)


def same_trace(ours: Graph, theirs: Graph) -> None:
    """The same nodes, recorded in the same modules."""
    same_graph(ours, theirs, meta=STACK)


def same_module(ours: GraphModule, theirs: GraphModule) -> None:
    """The same graph, the same code, and the same state, also of the submodules that have code."""
    same_graph(ours.graph, theirs.graph)
    equal(ours.code, theirs.code, cause="other code")
    equal(list(ours.state_dict()), list(theirs.state_dict()), cause="other state")
    for name, module in theirs.named_modules():
        if name and isinstance(module, GraphModule):
            same_graph(ours.get_submodule(name).graph, module.graph, meta=STACK)


def same_split(ours: GraphModule, theirs: GraphModule) -> None:
    """The same submodules with the same inputs; where several could run next, in either order."""
    equal(wiring(ours.graph), wiring(theirs.graph), cause="a submodule takes other values")
    equal(sorted(ours.state_dict()), sorted(theirs.state_dict()), cause="other state")
    for name, module in theirs.named_children():
        if isinstance(module, GraphModule):
            same_graph(ours.get_submodule(name).graph, module.graph, meta=STACK)
            equal(ours.get_submodule(name).code, module.code, cause="other code")


def wiring(graph: Graph) -> dict[str, list]:
    """Return where the inputs of every submodule, and the outputs of the graph, come from."""
    ends = [node for node in graph.nodes if node.op in ("call_module", "output")]
    return {str(node.target): [origin(value) for value in node.all_input_nodes] for node in ends}


def origin(value: Node) -> tuple:
    """A placeholder, an attribute, or a submodule's result, and the place of the value in it."""
    if value.op == "call_function":
        source, position = value.args
        return *origin(source), position
    return value.op, value.target


def same_tree(ours: nn.Module, theirs: nn.Module) -> None:
    """The same tree of modules with the same operations, and the same state.

    Only the core of a body is compared: torch keeps the names of values that it passed through
    calls before it took them out again, and bodies of later calls that ours shares.
    """
    equal(names(ours), names(theirs), cause="other modules")
    equal(list(ours.state_dict()), list(theirs.state_dict()), cause="other state")
    for name in names(theirs):
        graphs = [getattr(tree.get_submodule(name), "graph", None) for tree in (ours, theirs)]
        recorded = [operations(graph) for graph in graphs]
        equal(recorded[0], recorded[1], cause=f"{name or 'the root'} does something else")


def operations(graph: Graph | None) -> list[tuple]:
    """Return what a body does; a container that is never called has no graph, or an empty one.

    Inputs count by their place: their names come from the first or the last of several calls.
    """
    nodes = graph.nodes if graph else ()
    return [(node.op, node.op == "placeholder" or node.target) for node in nodes]


def names(tree: nn.Module) -> list[str]:
    """The names of all modules, without the bodies of later calls."""
    return [name for name, _ in tree.named_modules() if "@" not in name]
