"""Cut one module's nodes out of a panel."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from kata.drawing import Node, Panel
from kata.graph.errors import GraphError, did_you_mean


def part(whole: Panel, path: str) -> Panel:
    """The nodes of one module, and those whose values it takes; columns are its own children.

    Args:
        whole: all nodes.
        path: the module's path; the whole if it is empty.

    Raises:
        GraphError: no node belongs to the module.
    """
    if not path:
        return whole
    inside = {node.name for node in whole.nodes if is_inside(node, path)}
    if not inside:
        raise GraphError(
            f"no node belongs to a module `{path}`{did_you_mean(path, modules(whole))}"
        )
    taken = {name for node in whole.nodes if node.name in inside for name in node.inputs} - inside
    nodes = (
        within(node, path) if node.name in inside else from_outside(node)
        for node in whole.nodes
        if node.name in inside | taken
    )
    return Panel(tuple(nodes), whole.heading)


def is_inside(node: Node, path: str) -> bool:
    return node.module == path or node.module.startswith(f"{path}.")


def within(node: Node, path: str) -> Node:
    """The node with its module's path below ``path``."""
    return replace(node, module=node.module.removeprefix(path).removeprefix("."))


def from_outside(node: Node) -> Node:
    """A node whose value comes in; where that was made is no matter here."""
    return replace(node, inputs=(), module="", note="from outside")


def modules(whole: Panel) -> set[str]:
    """The paths of all modules that nodes belong to, and of those that hold these."""
    paths = {node.module for node in whole.nodes}
    return {path for each in paths for path in accumulate(each.split("."), "{}.{}".format)} - {""}
