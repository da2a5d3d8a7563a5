"""The steps of a change as drawings of one size, for a script that shows one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from html import escape

from drawing.layout import Layout, lay_out
from drawing.picture import Picture
from drawing.sizes import ROOMY, Scale, scale_of
from drawing.svg import MARGIN, Placed, panel

# What a source of usual width leaves beside it on a screen of 1440 pixels.
WIDTH = 440.0


def steps(picture: Picture) -> str:
    """A template with an SVG, which holds a group a step; nothing where there are none."""
    if not picture.changes:
        return ""
    placed = list(aligned(picture))
    width = int(max(each.right for each in placed) + MARGIN)
    height = int(max(each.layout.height for each in placed) + 2 * MARGIN)
    groups = "".join(step(picture, number, each) for number, each in enumerate(placed))
    return (
        f'<template><svg xmlns="http://www.w3.org/2000/svg" class="fx-graph" role="img" '
        f'aria-label="{escape(picture.title)}" style="--fx-width:{width}px" '
        f'viewBox="0 0 {width} {height}">{groups}</svg></template>'
    )


def aligned(picture: Picture) -> Iterator[Placed]:
    """Every step on the same scale, its first row where that of the others is."""
    rows = max(len(each.nodes) for each in picture.panels)
    column = min(scale_of(each, rows, WIDTH).column for each in picture.panels)
    layouts = [lay_out(replace(each, heading=""), Scale(ROOMY, column)) for each in picture.panels]
    left = max(map(first_x, layouts))
    for layout in layouts:
        yield Placed(layout, MARGIN + left - first_x(layout))


def first_x(layout: Layout) -> float:
    return layout.places[0].x


def step(picture: Picture, number: int, placed: Placed) -> str:
    """One step, with its words, its line, and which nodes of the step before became which."""
    each = picture.panels[number]
    moves = [(link.left, link.right) for link in picture.links if link.panel == number - 1]
    return (
        f'<g data-says="{escape(each.heading)}" data-line="{each.line or ""}" '
        f'data-moves="{escape(json.dumps(moves))}">{panel(placed, MARGIN)}</g>'
    )
