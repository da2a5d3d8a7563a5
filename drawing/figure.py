"""A picture as a figure of a page, and as a page that needs no other file.

A figure is the SVG, a choice of sizes, a caption, and the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path

from drawing import timeline
from drawing.layout import Layout, lay_out
from drawing.picture import Picture
from drawing.sizes import ROOMY, Scale, scale_of
from drawing.svg import MARGIN, Placed, draw, panel
from drawing.table import table

ZOOMS = (100, 150, 200, 300)
# What a source of usual width leaves beside it on a screen of 1440 pixels.
STEPS_WIDTH = 440.0
STYLE = Path(__file__).resolve().parents[1] / "docs" / "assets" / "pictures.css"
PAGE_STYLE = """
body { margin: 1.5rem; font: 16px/1.5 system-ui, sans-serif;
       color: var(--fx-ink); background: var(--fx-paper); }
h1 { font-size: 1.2rem; }
.fx-figure > .fx-view { max-height: none; }
table { border-collapse: collapse; font-size: .85rem; margin: 1em 0; }
figure.fx-figure > details > summary { padding-left: 0; }
td, th { text-align: left; padding: .1em .8em .1em 0; }
"""


def figure(picture: Picture, name: str, caption: str = "", *, plays_once: bool = False) -> str:
    """Compose the figure as HTML; it needs no script, and with one it moves.

    Where the picture has a source, that is beside the graph, and both are small: no zoom. What
    changes step by step shows its first and its last step, until a script goes through all.

    Args:
        picture: What to draw.
        name: Begins all ids, and so is unique on a page.
        caption: The line below; the picture's title if there is none.
        plays_once: Whether a script plays it when a reader first sees it.
    """
    drawing = draw(picture, name)
    title = escape(picture.title)
    plays = picture.plays or plays_once
    return (
        f'<figure class="{classes(picture, plays=plays, once=plays_once)}" data-search-exclude="" '
        f'style="--fx-width:{drawing.width}px"{moments(picture)}>'
        f"{source(picture.source) if plays else zoom(name)}"
        f'<div class="fx-view" role="group" aria-label="{title}" tabindex="0">{drawing.svg}</div>'
        f"{steps(picture)}"
        f"<figcaption>{escape(caption) or title}</figcaption>"
        f'<details class="fx-table"><summary>The same as a table</summary>'
        f'<div role="group" aria-label="Table: {title}" tabindex="0">{table(picture)}</div>'
        f"</details></figure>"
    )


def classes(picture: Picture, *, plays: bool, once: bool) -> str:
    names = {
        "fx-figure": True,
        "fx-steps": plays,
        "fx-change": picture.changes,
        "fx-time": picture.moments,
        "fx-once": once,
    }
    return " ".join(name for name, holds in names.items() if holds)


def moments(picture: Picture) -> str:
    """For a script: for each moment the share of the time that is over, and its words."""
    if not picture.moments:
        return ""
    end = timeline.end_of(picture)
    shares = json.dumps([(round(time / end, 4), says) for time, says in picture.moments])
    return f' data-moments="{escape(shares)}"'


def source(text: str) -> str:
    """The lines that were traced, each by its number; nothing where there are none."""
    lines = (
        f'<span data-line="{number}">{escape(line) or " "}</span>'
        for number, line in enumerate(text.splitlines(), start=1)
    )
    shown = "\n".join(lines)
    return f'<pre class="fx-source" tabindex="0"><code>{shown}</code></pre>' if text else ""


def zoom(name: str) -> str:
    """Radio buttons for the size: a mouse chooses one, and so do the arrow keys."""
    choices = "".join(choice(name, percent) for percent in ZOOMS)
    return f'<span class="fx-zoom">Zoom</span>{choices}'


def choice(name: str, percent: int) -> str:
    """One button with its label; to begin with, the first is chosen."""
    checked = ' checked=""' if percent == ZOOMS[0] else ""
    key = f"{name}-zoom-{percent}"
    return (
        f'<input type="radio" name="{name}-zoom" id="{key}" class="fx-zoom-{percent}"{checked}/>'
        f'<label for="{key}">{percent}&#8239;%</label>'
    )


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
    column = min(scale_of(each, rows, STEPS_WIDTH).column for each in picture.panels)
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


def write_page(picture: Picture, file: Path) -> None:
    """Write a picture into a file, as an HTML page: the style is inside, and there is no script.

    Raises:
        OSError: The file cannot be written.
    """
    title, style = escape(picture.title), STYLE.read_text(encoding="utf-8")
    page = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{title}</title>\n'
        f"<style>\n{style}{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f"<p>{escape(picture.description)}</p>\n"
        f"{figure(picture, 'fx')}\n</main>\n</body>\n</html>\n"
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page, encoding="utf-8")
