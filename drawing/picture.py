"""What is drawn: nodes in order, in panels side by side; and how a file holds it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

OPCODES = ("placeholder", "get_attr", "call_module", "call_function", "call_method", "output")
# Rows of a picture that aren't nodes of a graph.
THINGS = ("module", "parameter", "value")
# What takes time, and is a bar of a time line.
BARS = ("forward", "backward", "gather", "compute", "held")


class PictureError(ValueError):
    """A picture that doesn't exist, or whose data contradict themselves."""


@dataclass(frozen=True)
class Node:
    """One row of a picture.

    Attributes:
        name: The node's name, unique in its panel.
        op: Its opcode, or ``module``, ``parameter``, ``value`` where a list holds these.
        target: What it calls or reads, in words.
        inputs: The names of earlier nodes whose values it takes.
        module: The dotted path of the module it belongs to; its first part is its column.
        group: The partition it belongs to, or the line of a time line.
        mark: A word that singles the node out, such as ``new``; a number becomes a badge.
        label: What is written in place of the name.
        note: The text after it, in a softer colour.
        parent: In a tree, the name of the row that it hangs on.
        line: The line of the picture's source that made it, counted from 1.
        start, end: Of a bar, when it begins and ends.
    """

    name: str
    op: str
    target: str = ""
    inputs: tuple[str, ...] = ()
    module: str = ""
    group: str = ""
    mark: str = ""
    label: str = ""
    note: str = ""
    parent: str = ""
    line: int = 0
    start: float = 0
    end: float = 0

    @property
    def text(self) -> str:
        return self.label or self.name


@dataclass(frozen=True)
class Panel:
    """A list of nodes, in order; as a tree where nodes have parents.

    Attributes:
        nodes: The nodes.
        heading: The text above them; of a step, what happens in it.
        line: Of a step, the line of the picture's source that it is about, counted from 1.
    """

    nodes: tuple[Node, ...]
    heading: str = ""
    line: int = 0

    @property
    def is_tree(self) -> bool:
        return any(node.parent for node in self.nodes)


class Moment(NamedTuple):
    """A moment of a time line: what is to be seen until ``time``, in words."""

    time: float
    says: str


class Link(NamedTuple):
    """A node, and the node of the next panel that corresponds to it."""

    panel: int
    left: str
    right: str


@dataclass(frozen=True)
class Picture:
    """Panels side by side, with the words that replace them for readers who can't see them.

    Where there is a ``source``, a reader can go through the picture step by step. A single panel
    grows: its nodes say which line made them. Several panels are the steps of a change, each one
    state of the same graph, and the links say which nodes a step replaces by which. Where there
    are ``moments``, each panel is a time line, and a reader goes from one to the next.
    """

    title: str
    description: str
    panels: tuple[Panel, ...]
    links: tuple[Link, ...] = ()
    source: str = ""
    moments: tuple[Moment, ...] = ()

    def __post_init__(self) -> None:
        for panel in self.panels:
            check(panel)
            for what, line in lines_named(panel):
                if not 0 <= line <= len(self.source.splitlines()):
                    raise PictureError(f"{what} has line {line}, past the source")
        for number, left, right in self.links:
            for end in ((number, left), (number + 1, right)):
                if end not in self.names():
                    raise PictureError(f"a link leads to `{end[1]}`, which isn't in panel {end[0]}")

    @property
    def plays(self) -> bool:
        """Whether a reader can go through it step by step."""
        return bool(self.source or self.moments)

    @property
    def changes(self) -> bool:
        """Whether the panels are the steps of a change."""
        return bool(self.source) and len(self.panels) > 1

    @property
    def still(self) -> Picture:
        """What can be seen at once: of the steps of a change, the first and the last."""
        if not self.changes:
            return self
        first, *_, last = self.panels
        ends = replace(first, heading="before"), replace(last, heading="after")
        return replace(self, panels=ends, links=())

    def names(self) -> set[tuple[int, str]]:
        """Every node, as the number of its panel and its name."""
        panels = enumerate(self.panels)
        return {(number, node.name) for number, panel in panels for node in panel.nodes}

    def text(self) -> str:
        """The picture as a file holds it: JSON, one node a line.

        A node that is in the panel before, just as it is, has only its name there.
        """
        return "".join(self.lines())

    def lines(self) -> Iterator[str]:
        yield f'{{"title": {dump(self.title)},\n "description": {dump(self.description)},\n'
        if self.source:
            yield f' "source": {dump(self.source)},\n'
        yield ' "panels": [\n'
        known: set[Node] = set()
        for number, panel in enumerate(self.panels, start=1):
            line = f'"line": {panel.line}, ' if panel.line else ""
            yield f'  {{"heading": {dump(panel.heading)}, {line}"nodes": [\n'
            yield ",\n".join(lines_of(panel, known))
            yield "]}" + ",\n" * (number < len(self.panels))
            known = set(panel.nodes)
        yield "],\n"
        if self.moments:
            moments = ",\n".join(f"   {dump(moment)}" for moment in self.moments)
            yield f' "moments": [\n{moments}],\n'
        yield f' "links": {dump(self.links)}}}\n'


def lines_of(panel: Panel, known: set[Node]) -> Iterator[str]:
    """A line for each node, and one for known nodes that follow each other."""
    for is_known, nodes in groupby(panel.nodes, known.__contains__):
        if is_known:
            yield f"   {', '.join(dump(node.name) for node in nodes)}"
        else:
            yield from (f"   {dump(without_defaults(node))}" for node in nodes)


def without_defaults(node: Node) -> dict[str, Any]:
    return {key: value for key, value in asdict(node).items() if value}


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def lines_named(panel: Panel) -> Iterator[tuple[str, int]]:
    """The lines of the source that a panel and its nodes name, each with whose it is."""
    yield f"step `{panel.heading}`", panel.line
    for node in panel.nodes:
        yield f"node `{node.name}`", node.line


def check(panel: Panel) -> None:
    """Refuse a panel that isn't an ordered list of known opcodes.

    Raises:
        PictureError: A name twice, an unknown opcode, an input or a parent that isn't an earlier
            node.
    """
    repeated = [name for name, times in Counter(n.name for n in panel.nodes).items() if times > 1]
    if repeated:
        raise PictureError(f"node `{repeated[0]}` is there twice")
    earlier = {""}
    for node in panel.nodes:
        if node.op not in (*OPCODES, *THINGS, *BARS):
            raise PictureError(f"node `{node.name}` has the unknown opcode `{node.op}`")
        strangers = {*node.inputs, node.parent} - earlier
        if strangers:
            raise PictureError(f"node `{node.name}` uses `{min(strangers)}`, no earlier node")
        earlier.add(node.name)


def parse(text: str) -> Picture:
    """Read a picture from its file's text.

    Raises:
        PictureError: The text isn't a picture.
    """
    try:
        data = json.loads(text)
        panels = tuple(read_panels(data["panels"]))
        links = tuple(Link(*link) for link in data["links"])
        moments = tuple(Moment(*moment) for moment in data.get("moments", ()))
        source = data.get("source", "")
        return Picture(data["title"], data["description"], panels, links, source, moments)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise PictureError(f"no picture: {error!r}") from error


def read_panels(panels: list[dict[str, Any]]) -> Iterator[Panel]:
    """Read each panel; a name is the node of that name in the panel before."""
    known: dict[str, Node] = {}
    for panel in panels:
        nodes = [
            known[each] if isinstance(each, str) else read_node(each) for each in panel["nodes"]
        ]
        yield Panel(tuple(nodes), panel["heading"], panel.get("line", 0))
        known = {node.name: node for node in nodes}


def read_node(data: dict[str, Any]) -> Node:
    unknown = data.keys() - {field.name for field in fields(Node)}
    if unknown:
        raise PictureError(f"a node has no `{min(unknown)}`")
    return Node(**{**data, "inputs": tuple(data.get("inputs", ()))})


def load(name: str, folder: Path) -> Picture:
    """Read the picture ``name`` from its file in ``folder``.

    Raises:
        PictureError: There is none, or it is broken; the message names those there are.
    """
    file = folder / f"{name}.json"
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in folder.glob("*.json")))
        raise PictureError(f"there is no picture `{name}`; there are: {known}")
    try:
        return parse(file.read_text(encoding="utf-8"))
    except PictureError as error:
        raise PictureError(f"{file.name}: {error}") from error
