"""Graphs as pictures: one, or two beside each other with the first difference marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import NamedTuple

from torch.fx import Graph
from torch.fx import Node as FxNode

from drawing import Node, Panel, Picture
from kata.comparing import first_difference, rows
from kata.tracing import GraphError, build, did_you_mean, trace

WHOSE = {"lessons": "your tracer", "solutions": "the reference", "torch": "torch"}
MARK = "first difference"


@dataclass(frozen=True)
class Subject:
    """What to show.

    Attributes:
        model: a model of torchvision, or ``package.module:Class``.
        impl: whose tracer: ``lessons``, ``solutions`` or ``torch``.
        module: the path of the part to show; all of it if empty.
        against: the implementation to compare with, if any.
    """

    model: str
    impl: str = "lessons"
    module: str = ""
    against: str | None = None

    @property
    def title(self) -> str:
        name = f"{self.model}, {self.module}" if self.module else self.model
        return f"{name}: traced by {WHOSE[self.impl]}"

    @property
    def file_name(self) -> str:
        words = [self.model, self.module, self.impl, f"against-{self.against}" * bool(self.against)]
        return re.sub(r"[^\w.-]+", "-", "-".join(word for word in words if word))


class Shown(NamedTuple):
    """The picture, the lines that say what it is, and whether there is no difference in it."""

    picture: Picture
    says: tuple[str, ...]
    same: bool = True


def show(subject: Subject) -> Shown:
    """Trace and list what is to be drawn.

    Raises:
        GraphError: the model isn't there, or it cannot be traced.
    """
    ours = trace(build(subject.model), subject.impl)
    if subject.against is None:
        shown = alone(subject, ours.graph)
    else:
        theirs = trace(build(subject.model), subject.against)
        shown = compared(subject, ours.graph, theirs.graph)
    lent = (f"lent by the reference: {', '.join(ours.lent)}",) if ours.lent else ()
    return shown._replace(says=(*shown.says, *lent))


def alone(subject: Subject, graph: Graph, says: str = "") -> Shown:
    drawn = part(panel(graph), subject.module)
    says = says or f"{subject.title}, {len(drawn.nodes)} nodes"
    description = f"{says}. The list runs downwards, each top-level module has a column."
    return Shown(Picture(subject.title, description, (drawn,)), (says,))


def compared(subject: Subject, ours: Graph, theirs: Graph) -> Shown:
    """Both graphs, unless they are the same: then one is enough."""
    difference = first_difference(rows(ours), rows(theirs))
    if difference is None:
        says = f"{subject.title}: the same graph as torch's, {len(ours.nodes)} nodes"
        return alone(subject, ours, says)
    position, fields = difference
    says = f"{subject.title}: differs from torch's graph from node {position} on"
    if fields[0] not in ("missing", "extra"):
        says += f" ({', '.join(fields)})"
    panels = (
        part(marked(ours, position, WHOSE[subject.impl]), subject.module),
        part(marked(theirs, position, WHOSE["torch"]), subject.module),
    )
    if not any(node.mark for panel in panels for node in panel.nodes):
        says += f", outside of {subject.module}"
    return Shown(Picture(subject.title, f"{says}.", panels), (says,), same=False)


def marked(graph: Graph, position: int, heading: str) -> Panel:
    """A graph's nodes, the one at a position marked, if there are so many."""
    names = [node.name for node in islice(graph.nodes, position, position + 1)]
    return replace(panel(graph, marks=dict.fromkeys(names, MARK)), heading=heading)


SPELLINGS = {
    "_operator": "operator",
    "torch._C._nn": "torch.nn.functional",
    "builtins": "",
    "tools.pictures.traced": "",
}


def panel(
    graph: Graph,
    heading: str = "",
    *,
    groups: Mapping[str, str] | None = None,
    marks: Mapping[str, str] | None = None,
    note: Callable[[FxNode], str] = lambda node: "",
) -> Panel:
    """List a graph's nodes.

    Args:
        graph: any graph of ``torch.fx``.
        heading: what the panel is called.
        groups: the partition of each node, by name.
        marks: a word for each node that is singled out, by name.
        note: what is written behind a node's name.
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


def target_of(node: FxNode) -> str:
    """What a node calls or reads, as one would write it."""
    target = node.target
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", str(target))
    module = getattr(target, "__module__", None) or ""
    if module.startswith("torch._ops"):
        return str(target)
    module = SPELLINGS.get(module, module)
    return f"{module}.{name}" if module else name


def module_of(node: FxNode) -> str:
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
