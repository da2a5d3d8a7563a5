"""A graph of ``torch.fx`` as a panel: its nodes, with what is written beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from drawing.picture import Node, Panel

if TYPE_CHECKING:
    from torch import fx

SPELLINGS = {
    "_operator": "operator",
    "torch._C._nn": "torch.nn.functional",
    "builtins": "",
    "tools.pictures.traced": "",
}


def panel(
    graph: fx.Graph,
    heading: str = "",
    *,
    groups: Mapping[str, str] | None = None,
    marks: Mapping[str, str] | None = None,
    note: Callable[[fx.Node], str] = lambda node: "",
) -> Panel:
    """List a graph's nodes.

    Args:
        graph: Any graph of ``torch.fx``.
        heading: What the panel is called.
        groups: The partition of each node, by name.
        marks: A word for each node that is singled out, by name.
        note: The text after a node's name.
    """
    return Panel(
        tuple(
            Node(
                name=node.name,
                op=node.op,
                target=target_of(node),
                inputs=tuple(each.name for each in node.all_input_nodes),
                module=module_of(node),
                group=(groups or {}).get(node.name, ""),
                mark=(marks or {}).get(node.name, ""),
                note=note(node),
            )
            for node in graph.nodes
        ),
        heading,
    )


def target_of(node: fx.Node) -> str:
    """Return what a node calls or reads, as one would write it."""
    target = node.target
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", str(target))
    module = getattr(target, "__module__", None) or ""
    if module.startswith("torch._ops"):
        return str(target)
    module = SPELLINGS.get(module, module)
    return f"{module}.{name}" if module else name


def module_of(node: fx.Node) -> str:
    """The path of the module that a node belongs to; ``""`` is the root.

    A call of a module belongs to that module, a parameter to the one that holds it. Anything else
    belongs where it was recorded: to the innermost module of its stack.
    """
    if node.op == "call_module":
        return str(node.target)
    if node.op == "get_attr":
        return str(node.target).rpartition(".")[0]
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path = stack[-1][0] if stack else ""
    return path if isinstance(path, str) else ""
