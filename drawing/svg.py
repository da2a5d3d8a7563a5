"""Write a picture as SVG: the same bytes for the same picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from drawing import timeline
from drawing.edges import RIGHT
from drawing.layout import Block, Layout, fold, lay_out
from drawing.picture import Node, Panel, Picture
from drawing.ring import ring
from drawing.sizes import WIDTH, Run, Scale, Spot, scale_of

HEADING = 24.0
LEGEND = 24.0
LEGEND_SCALE = Scale(pitch=20, column=0)
BETWEEN = 48.0
MARGIN = 6.0
ARM = 5.0
# One shape for each opcode, so that no meaning rests on colour: paths around (0, 0).
SHAPES = {
    "placeholder": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "get_attr": "m0-4.5l4.5 4.5-4.5 4.5-4.5-4.5z",
    "call_module": "m-3.5-3.5h7v7h-7z",
    "call_function": "m0-4.2l4.4 7.8h-8.8z",
    "call_method": "m-3.6-4.4l7.8 4.4-7.8 4.4z",
    "output": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0zm2.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0-3 0z",
    "goal": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0zm2.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0-3 0z",
    "lesson": "m-3.5-3.5h7v7h-7z",
    "module": "m-4-3h3l1 1.5h4v5h-8z",
    "parameter": "m-4-2.5h8m-8 2.5h8m-8 2.5h8",
    "value": "m-2-4h-2v8h2m4-8h2v8h-2",
}


@dataclass(frozen=True)
class Placed:
    """A panel, laid out, and the distance of its left edge from the picture's."""

    layout: Layout
    left: float

    @property
    def right(self) -> float:
        return self.left + self.layout.width


@dataclass(frozen=True)
class Drawing:
    """A picture's SVG, and its size in pixels."""

    svg: str
    width: int
    height: int


def draw(picture: Picture, name: str) -> Drawing:
    """Draw a picture; of the steps of a change, the first and the last.

    Args:
        picture: What to draw.
        name: Begins the ids in the SVG, and so is unique on a page.
    """
    if picture.moments:
        return timelines(picture, name)
    picture = picture.still
    placed = list(side_by_side(picture))
    top = HEADING if any(panel.heading for panel in picture.panels) else MARGIN
    bottom = top + max(each.layout.height for each in placed)
    # Step by step, words say what each shape is.
    lines = [] if picture.source else legend_lines(legend_entries(picture))
    widths = [sum(entry.width for entry in line) for line in lines]
    width = int(max([placed[-1].right, *widths]) + 2 * MARGIN)
    height = int(bottom + LEGEND * len(lines) + 2)
    body = "".join(
        [
            *panels(picture, placed, top),
            *links(picture, placed, top),
            *legend(lines, bottom),
        ]
    )
    return Drawing(f"{opening(picture, name, width, height)}{body}</svg>", width, height)


def timelines(picture: Picture, name: str) -> Drawing:
    """Draw time lines side by side, and below them what the kinds of bars are."""
    lines = legend_lines(Entry(*each) for each in timeline.legend(picture))
    body, bottom = timeline.draw(picture, WIDTH, BETWEEN, HEADING)
    width, height = int(WIDTH), int(bottom + LEGEND * len(lines) + 2)
    below = "".join(legend(lines, bottom))
    return Drawing(f"{opening(picture, name, width, height)}{body}{below}</svg>", width, height)


def side_by_side(picture: Picture) -> Iterator[Placed]:
    left = MARGIN
    shown = columns_of(picture)
    rows = max(len(panel.nodes) for panel in shown)
    room = WIDTH / len(shown) - BETWEEN * (len(shown) > 1)
    for each in shown:
        layout = lay_out(each, scale_of(each, rows, room))
        yield Placed(layout, left)
        left += layout.width + BETWEEN


def columns_of(picture: Picture) -> Sequence[Panel]:
    """The panels; a long one that stands alone is folded."""
    return fold(*picture.panels) if len(picture.panels) == 1 else picture.panels


def panels(picture: Picture, placed: list[Placed], top: float) -> Iterator[str]:
    """Every panel; around the halves of one that is folded, what they have in common."""
    drawn = "".join(panel(each, top) for each in placed)
    if len(placed) == len(picture.panels):
        yield drawn
    else:
        yield f'<g class="folded">{drawn}{"".join(folds(picture, placed, top))}</g>'


def folds(picture: Picture, placed: list[Placed], top: float) -> Iterator[str]:
    """The edges from the first half of a folded panel to the second."""
    first, second = placed
    names = {spot.name for spot in first.layout.places}
    for node in picture.panels[0].nodes:
        for name in dict.fromkeys(node.inputs):
            if name in names and node.name not in names:
                start, end = find(first.layout, name), find(second.layout, node.name)
                out, lane = first.left + start.right + 3, first.right + BETWEEN / 2
                path = f"M{out:g} {top + start.y:g}H{lane:g}V{top + end.y:g}"
                path += f"H{second.left + end.x - second.layout.scale.radius - 0.5:g}{RIGHT}"
                edge = escape(f"{name} {node.name}")
                yield f'<path class="fold" data-edge="{edge}" d="{path}"/>'


def opening(picture: Picture, name: str, width: int, height: int) -> str:
    """The tag of the whole, with its name and its description."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fx-graph" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<title id="{name}-title">{escape(picture.title)}</title>'
        f'<desc id="{name}-desc">{escape(picture.description)}</desc>'
    )


def panel(placed: Placed, top: float) -> str:
    layout = placed.layout
    inside = "".join([*grounds(layout), *edges(layout), *nodes(layout)])
    heading = escape(layout.panel.heading)
    head = f'<text class="head" x="0" y="-9">{heading}</text>' if heading else ""
    place = f"translate({placed.left:g} {top:g})"
    return (
        f'<g class="panel" font-size="{layout.scale.font:g}" transform="{place}">{head}{inside}</g>'
    )


def grounds(layout: Layout) -> Iterator[str]:
    """The background: brackets beside the groups, and blocks of a column."""
    scale = layout.scale
    for run in layout.groups:
        yield bracket(run, layout)
    if layout.panel.is_ring:
        yield from ring(layout)
        return
    for block in layout.blocks:
        yield ground(block, scale)
    for place in layout.places:
        if place.node.mark and not place.node.mark.isdigit():
            yield frame(place, scale)


def bracket(run: Run, layout: Layout) -> str:
    top, bottom = layout.scale.top_of(run.first) + 2, layout.scale.top_of(run.last + 1) - 2
    x, middle = layout.brackets, (top + bottom) / 2 + 4
    return (
        f'<path class="bracket" d="M{x - ARM:g} {top:g}h{ARM:g}V{bottom:g}h-{ARM:g}"/>'
        f'<text class="group" x="{x + ARM:g}" y="{middle:g}">{escape(run.name)}</text>'
    )


def ground(block: Block, scale: Scale) -> str:
    top, height = scale.top_of(block.first), (block.last - block.first + 1) * scale.pitch
    # Not too far down: a long block is read from its top.
    middle = top + min(height / 2, 8 * scale.pitch)
    return (
        f'<rect class="block" x="{block.left:g}" y="{top:g}" rx="5" '
        f'width="{block.right - block.left:g}" height="{height:g}"/>'
        f'<text class="column" x="{block.left - 6:g}" y="{middle + 4:g}">'
        f"{escape(block.name)}</text>"
    )


def edges(layout: Layout) -> Iterator[str]:
    nodes = layout.panel.nodes
    for edge in layout.edges:
        names = escape(f"{nodes[edge.source].name} {nodes[edge.target].name}")
        yield f'<path class="{edge.kind}" data-edge="{names}" d="{edge.path}"/>'


def nodes(layout: Layout) -> Iterator[str]:
    for place in layout.places:
        yield "".join(node(place, layout.scale))


def node(place: Spot, scale: Scale) -> Iterator[str]:
    each, x = place.node, place.x + scale.text_gap
    line = f' data-line="{each.line}"' if each.line else ""
    yield f'<g data-node="{escape(each.name)}"{line}><title>{escape(sentence(each))}</title>'
    yield glyph(each.op, place.x, place.y)
    mark = "badge" if each.mark.isdigit() else "mark"
    word = "" if each.link else each.mark
    for kind, text in (("name", each.text), ("note", each.note), (mark, word)):
        if text:
            if kind == "badge":
                yield f'<circle cx="{x + 4:g}" cy="{place.y:g}" r="{scale.pitch * 0.4:g}"/>'
            yield f'<text class="{kind}" x="{x:g}" y="{place.y + 4:g}">{escape(text)}</text>'
            x += scale.width_of(text) + scale.tag_gap
    yield "</g>"


def frame(place: Spot, scale: Scale) -> str:
    left, width = place.x - 7, scale.text_gap + scale.width_of(place.node.text) + 11
    return (
        f'<rect class="frame" x="{left:g}" y="{place.y - scale.pitch / 2 + 1:g}" rx="4" '
        f'width="{width:g}" height="{scale.pitch - 2:g}"/>'
    )


def glyph(op: str, x: float, y: float) -> str:
    return f'<path class="{op}" d="M{x:g} {y:g}{SHAPES[op]}"/>'


def sentence(node: Node) -> str:
    """Return what a pointer that rests on the node is told."""
    inputs = ", ".join(node.inputs)
    if node.op in ("placeholder", "output"):
        return f"{node.op} {inputs or node.name}"
    if node.op in ("lesson", "goal"):
        return node.name + f" needs {inputs}" * bool(inputs)
    if node.op == "get_attr":
        return f"{node.op} {node.name} = self.{node.target or node.name}"
    call = f"{node.target}({inputs})" if node.target else inputs
    return f"{node.op} {node.name}" + f" = {call}" * bool(call)


def links(picture: Picture, placed: list[Placed], top: float) -> Iterator[str]:
    """A line from each node to the one that corresponds to it in the next panel."""
    for number, left_name, right_name in picture.links:
        left, right = placed[number], placed[number + 1]
        start = find(left.layout, left_name)
        end = find(right.layout, right_name)
        x1, x2, bend = left.right + 4, right.left - 4, (left.right + right.left) / 2
        y1, y2 = top + start.y, top + end.y
        curve = f"C{bend:g} {y1:g} {bend:g} {y2:g} {x2:g} {y2:g}"
        path = f"M{left.left + start.right + 4:g} {y1:g}H{x1:g}{curve}H{right.left + end.x - 7:g}"
        yield f'<path class="link" data-link="{escape(f"{left_name} {right_name}")}" d="{path}"/>'


def find(layout: Layout, name: str) -> Spot:
    return next(place for place in layout.places if place.name == name)


class Entry(NamedTuple):
    """One entry of the legend: a sample, what it means, and how wide both are."""

    sample: str
    text: str
    sample_width: float

    @property
    def width(self) -> float:
        return self.sample_width + LEGEND_SCALE.width_of(self.text) + 16


def legend_entries(picture: Picture) -> Iterator[Entry]:
    """Every shape that the picture uses."""
    used = {node.op for panel in picture.panels for node in panel.nodes}
    for op in SHAPES:
        if op in used:
            yield Entry(glyph(op, 5, 0), op, 15)


def legend_lines(entries: Iterable[Entry]) -> list[list[Entry]]:
    """The entries, line by line, none wider than a page."""
    lines: list[list[Entry]] = [[]]
    for entry in entries:
        if lines[-1] and sum(each.width for each in (*lines[-1], entry)) > WIDTH:
            lines.append([])
        lines[-1].append(entry)
    return lines


def legend(lines: list[list[Entry]], top: float) -> Iterator[str]:
    for number, line in enumerate(lines):
        x = MARGIN
        for entry in line:
            place = f"translate({x:g} {top + LEGEND * (number + 0.5) + 2:g})"
            text = f'<text x="{entry.sample_width:g}" y="4">{entry.text}</text>'
            yield f'<g class="legend" transform="{place}">{entry.sample}{text}</g>'
            x += entry.width
