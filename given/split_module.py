"""What the lesson ``split_module`` gives you."""

from __future__ import annotations

from typing import Any


def read_late(graph: Any) -> None:
    """Move each ``get_attr`` node to just before its first user, and erase those without users."""
    read = dict.fromkeys(graph.find_nodes(op="get_attr"))
    for node in list(graph.nodes):
        for value in node.all_input_nodes:
            if value in read and next(iter(value.users)) is node:
                node.prepend(value)
    for node in read:
        if not node.users:
            graph.erase_node(node)


def rename_arguments(graph: Any) -> None:
    """Name the arguments of ``forward`` after their nodes: ``input_1``, where it was ``input``."""
    for node in graph.find_nodes(op="placeholder"):
        stars = node.target[: node.target.count("*")]
        node.target = stars + node.name
