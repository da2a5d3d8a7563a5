"""Time lines: a line for each group of bars, and a curtain over what hasn't happened yet.

What is held is drawn with thin bars, one above the other: the height shows how much it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import NamedTuple

from drawing.picture import BARS, Node, Panel, Picture

FONT, LETTER = 11.0, 6.75
MARGIN, GAP, LABEL_GAP = 6.0, 4.0, 8.0
HIGH, THIN = 18.0, 5.0


class Line(NamedTuple):
    """One line: its bars, the level of each, and where it is in its panel."""

    bars: list[Node]
    levels: list[int]
    top: float
    height: float


class Frame(NamedTuple):
    """The lines, by name with the most bars at once, and the width: all panels share them."""

    most: Mapping[str, int]
    end: float
    width: float

    @property
    def left(self) -> float:
        return max(map(len, self.most)) * LETTER + LABEL_GAP

    @property
    def unit(self) -> float:
        return (self.width - self.left) / self.end


def draw(picture: Picture, room: float, between: float, top: float) -> tuple[str, float]:
    """Draw the panels side by side, each with the same time; return their height, too."""
    count = len(picture.panels)
    names = dict.fromkeys(node.group for each in picture.panels for node in each.nodes)
    most = {
        name: max(len(set(stack(bars_of(each, name)))) for each in picture.panels) for name in names
    }
    width = (room - 2 * MARGIN - between * (count - 1)) / count
    frame = Frame(most, end_of(picture), width)
    body = "".join(
        f'<g class="panel" font-size="{FONT:g}" '
        f'transform="translate({MARGIN + number * (width + between):g} {top:g})">'
        f'<text class="head" x="0" y="-9">{escape(each.heading)}</text>{panel(each, frame)}</g>'
        for number, each in enumerate(picture.panels)
    )
    return body, top + max(height_of(each, frame) for each in picture.panels)


def end_of(picture: Picture) -> float:
    return max(node.end for panel in picture.panels for node in panel.nodes)


def lines(panel: Panel, frame: Frame) -> Iterator[Line]:
    """The lines of a panel, from the top."""
    top = 0.0
    for name in frame.most:
        bars = bars_of(panel, name)
        levels = stack(bars)
        height = max(HIGH, THIN * frame.most[name]) if bars[0].op == "held" else HIGH
        yield Line(bars, levels, top, height)
        top += height + GAP


def bars_of(panel: Panel, name: str) -> list[Node]:
    return [node for node in panel.nodes if node.group == name]


def height_of(panel: Panel, frame: Frame) -> float:
    *_, last = lines(panel, frame)
    return last.top + last.height + GAP


def panel(shown: Panel, frame: Frame) -> str:
    """A panel's lines, and the curtain over them."""
    left, width = frame.left, frame.unit * frame.end
    drawn = "".join("".join(line(each, frame)) for each in lines(shown, frame))
    height = height_of(shown, frame)
    curtain = f'x="{left:g}" y="-1" width="{width + 2:g}" height="{height:g}"'
    return f'{drawn}<rect class="curtain" {curtain}/>'


def line(each: Line, frame: Frame) -> Iterator[str]:
    """A line's name, its ground, and its bars."""
    x, y = frame.left, each.top
    middle = y + each.height / 2 + 4
    yield f'<text class="name" x="0" y="{middle:g}">{escape(each.bars[0].group)}</text>'
    size = f'width="{frame.unit * frame.end:g}" height="{each.height:g}"'
    yield f'<rect class="waits" x="{x:g}" y="{y:g}" {size}/>'
    for node, level in zip(each.bars, each.levels, strict=True):
        yield bar(node, each.top + each.height - THIN * (level + 1), each.top, frame)


def bar(node: Node, thin_top: float, top: float, frame: Frame) -> str:
    says = escape(f"{node.group}: {node.op} {node.text}, from {node.start:g} to {node.end:g}")
    x, width = frame.left + node.start * frame.unit, (node.end - node.start) * frame.unit
    y, height = (thin_top, THIN) if node.op == "held" else (top, HIGH)
    label = f'<text x="{x + width / 2:g}" y="{y + 13:g}">{escape(node.label)}</text>'
    return (
        f'<g class="bar" data-node="{escape(node.name)}"><title>{says}</title>'
        f'<rect class="{node.op}" x="{x + 1:g}" y="{y + 0.5:g}" width="{width - 2:g}" '
        f'height="{height - 1:g}"/>{label if node.op != "held" else ""}</g>'
    )


def stack(bars: list[Node]) -> list[int]:
    """The level of each bar: the lowest that is free while it lasts."""
    free: list[float] = []
    levels = []
    for node in bars:
        level = next((at for at, until in enumerate(free) if until <= node.start), len(free))
        free[level : level + 1] = [node.end]
        levels.append(level)
    return levels


def legend(picture: Picture) -> Iterator[tuple[str, str, float]]:
    """A sample of each kind of bar, its name, and the width of the sample."""
    used = {node.op for panel in picture.panels for node in panel.nodes}
    for op in (*(each for each in BARS if each in used), "waits"):
        yield f'<rect class="{op}" x="0" y="-5" width="16" height="10"/>', op, 22
