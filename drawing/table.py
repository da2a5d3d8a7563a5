"""The same content as a table, for those who read rather than look."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from drawing.picture import Node, Panel, Picture

COLUMNS = {
    "name": lambda node: node.name,
    "kind": lambda node: node.op,
    "target": lambda node: node.target,
    "takes": lambda node: ", ".join(node.inputs),
    "module": lambda node: node.module,
    "inside": lambda node: node.parent,
    "partition": lambda node: node.group,
    "mark": lambda node: node.mark,
    "from": lambda node: f"{node.start:g}" if node.end else "",
    "to": lambda node: f"{node.end:g}" if node.end else "",
    "note": lambda node: " ".join(part for part in (node.label, node.note) if part),
}


def table(picture: Picture) -> str:
    """Every panel as an HTML table, without the columns that would be empty.

    The steps of a change are told in a list, and its ends are shown.
    """
    shown = picture.still
    tables = "".join(panel_table(panel) for panel in shown.panels)
    return step_list(picture) + tables + link_table(shown)


def step_list(picture: Picture) -> str:
    """Return what happens in each step; nothing where there are none."""
    told = [panel.heading for panel in picture.panels] if picture.changes else []
    told += [moment.says for moment in picture.moments]
    return f"<ol>{''.join(f'<li>{escape(says)}</li>' for says in told)}</ol>" if told else ""


def panel_table(panel: Panel) -> str:
    columns = [name for name, read in COLUMNS.items() if any(map(read, panel.nodes))]
    caption = f"<caption>{escape(panel.heading)}</caption>" if panel.heading else ""
    body = "".join(row(number, node, columns) for number, node in enumerate(panel.nodes))
    return f"<table>{caption}{head(['row', *columns])}<tbody>{body}</tbody></table>"


def head(names: list[str]) -> str:
    cells = "".join(f'<th scope="col">{name}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def row(number: int, node: Node, columns: list[str]) -> str:
    cells = (f"<td>{escape(COLUMNS[name](node))}</td>" for name in columns)
    return f"<tr><td>{number}</td>{''.join(cells)}</tr>"


def link_table(picture: Picture) -> str:
    """The lines between two panels."""
    if not picture.links:
        return ""
    body = "".join(pairs(picture))
    return f"<table>{head(['on the left', 'on the right'])}<tbody>{body}</tbody></table>"


def pairs(picture: Picture) -> Iterator[str]:
    for _, left, right in picture.links:
        yield f"<tr><td>{escape(left)}</td><td>{escape(right)}</td></tr>"
