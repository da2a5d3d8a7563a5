"""Write a picture as SVG: the same bytes for the same picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from kata.drawing.glyphs import SHAPES
from kata.drawing.layout import Block, Layout, boundaries, crosses_groups, lay_out
from kata.drawing.picture import Node, Picture
from kata.drawing.places import Place, Scale, scale_of

HEADING = 24.0
LEGEND = 26.0
BETWEEN = 48.0
MARGIN = 6.0


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
    """Draw a picture.

    Args:
        picture: what to draw.
        name: begins the ids in the SVG, and so is unique on a page.
    """
    placed = list(side_by_side(picture))
    top = HEADING if any(panel.heading for panel in picture.panels) else MARGIN
    legend = list(legend_of(picture, placed))
    bottom = top + max(each.layout.height for each in placed)
    width = int(max([placed[-1].right, *(end for end, _ in legend)]) + 2 * MARGIN)
    height = int(bottom + LEGEND)
    body = "".join(
        [
            *(panel(each, top) for each in placed),
            *links(picture, placed, top),
            f'<g class="legend" transform="translate({MARGIN:g} {bottom + LEGEND / 2 + 2:g})">',
            *(text for _, text in legend),
            "</g>",
        ]
    )
    return Drawing(f"{opening(picture, name, width, height)}{body}</svg>", width, height)


def side_by_side(picture: Picture) -> Iterator[Placed]:
    left = MARGIN
    for each in picture.panels:
        layout = lay_out(each, scale_of(each))
        yield Placed(layout, left)
        left += layout.width + BETWEEN


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
    return f'<g transform="translate({placed.left:g} {top:g})">{head}{inside}</g>'


def grounds(layout: Layout) -> Iterator[str]:
    """What lies below everything: groups from edge to edge, and blocks of a column."""
    scale = layout.scale
    for run in layout.groups:
        middle = (scale.top_of(run.first) + scale.top_of(run.last + 1)) / 2
        place = f'x="{layout.width:g}" y="{middle + 4:g}"'
        yield f'<text class="group" {place}>{escape(run.name)}</text>'
    for row in boundaries(layout.groups):
        yield f'<path class="border" d="M0 {scale.top_of(row):g}H{layout.width:g}"/>'
    for block in layout.blocks:
        yield ground(block, scale)


def ground(block: Block, scale: Scale) -> str:
    top, height = scale.top_of(block.first), (block.last - block.first + 1) * scale.pitch
    return (
        f'<rect class="block" x="{block.left:g}" y="{top:g}" rx="5" '
        f'width="{block.right - block.left:g}" height="{height:g}"/>'
        f'<text class="column" x="{block.left - 6:g}" y="{top + height / 2 + 4:g}">'
        f"{escape(block.name)}</text>"
    )


def edges(layout: Layout) -> Iterator[str]:
    nodes = layout.panel.nodes
    for edge in layout.edges:
        source, target = nodes[edge.source], nodes[edge.target]
        kind = f"{edge.kind} cut" if crosses_groups(source, target) else edge.kind
        names = escape(f"{source.name} {target.name}")
        yield f'<path class="{kind}" data-edge="{names}" d="{edge.path}"/>'


def nodes(layout: Layout) -> Iterator[str]:
    for place in layout.places:
        yield "".join(node(place, layout.scale))


def node(place: Place, scale: Scale) -> Iterator[str]:
    each, x = place.node, place.x + scale.text_gap
    yield f'<g data-node="{escape(each.name)}"><title>{escape(sentence(each))}</title>'
    if each.mark:
        yield frame(place, scale)
    yield glyph(each.op, place.x, place.y)
    yield f'<text x="{x:g}" y="{place.y + 4:g}"{font(scale)}>{escape(each.text)}</text>'
    if each.mark:
        at = x + scale.width_of(each.text) + scale.tag_gap
        yield f'<text class="mark" x="{at:g}" y="{place.y + 4:g}">{escape(each.mark)}</text>'
    yield "</g>"


def font(scale: Scale) -> str:
    return f' font-size="{scale.font:g}"' if scale.font != 12 else ""


def frame(place: Place, scale: Scale) -> str:
    left, width = place.x - 7, scale.text_gap + scale.width_of(place.node.text) + 11
    return (
        f'<rect class="frame" x="{left:g}" y="{place.y - scale.pitch / 2 + 1:g}" rx="4" '
        f'width="{width:g}" height="{scale.pitch - 2:g}"/>'
    )


def glyph(op: str, x: float, y: float) -> str:
    return f'<path class="{op}" d="M{x:g} {y:g}{SHAPES[op]}"/>'


def sentence(node: Node) -> str:
    """What a pointer that rests on the node is told."""
    call = f"{node.target}({', '.join(node.inputs)})" if node.target else ", ".join(node.inputs)
    return f"{node.op} {node.name} {call}".strip()


def links(picture: Picture, placed: list[Placed], top: float) -> Iterator[str]:
    """A line from each node to the one that corresponds to it in the next panel."""
    for number, left_name, right_name in picture.links:
        left, right = placed[number], placed[number + 1]
        start = find(left.layout, left_name)
        end = find(right.layout, right_name)
        x1, x2 = left.left + start.right + 4, right.left + end.x - 8
        y1, y2 = top + start.y, top + end.y
        bend = (x1 + x2) / 2
        path = f"M{x1:g} {y1:g}C{bend:g} {y1:g} {bend:g} {y2:g} {x2:g} {y2:g}"
        yield f'<path class="link" data-link="{escape(f"{left_name} {right_name}")}" d="{path}"/>'


def find(layout: Layout, name: str) -> Place:
    return next(place for place in layout.places if place.name == name)


def legend_of(picture: Picture, placed: list[Placed]) -> Iterator[tuple[float, str]]:
    """Each entry of the legend, with where it ends: every shape and line that is used."""
    x = 5.0
    for op in SHAPES:
        if any(node.op == op for panel in picture.panels for node in panel.nodes):
            text = f'{glyph(op, x, 0)}<text x="{x + 9:g}" y="4">{op}</text>'
            x += 9 + len(op) * 6.8 + 14
            yield x, text
    if any(' cut"' in "".join(edges(each.layout)) for each in placed):
        text = "crosses into another partition"
        yield (
            x + 28 + len(text) * 6.1,
            (f'<path class="lane cut" d="M{x:g} 0h22"/><text x="{x + 28:g}" y="4">{text}</text>'),
        )
