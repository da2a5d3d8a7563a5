"""A picture as an HTML page that needs no other file."""

from __future__ import annotations

from html import escape
from pathlib import Path

from drawing.figure import figure
from drawing.picture import Picture

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


def write_page(picture: Picture, file: Path) -> None:
    """Write a picture into a file, as an HTML page.

    Raises:
        OSError: The file cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(picture), encoding="utf-8")


def page(picture: Picture) -> str:
    """An HTML page that asks for nothing: the style is inside, and there is no script."""
    title = escape(picture.title)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{title}</title>\n'
        f"<style>\n{style()}{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>{escape(picture.description)}</p>\n"
        f"{figure(picture, 'fx')}\n</main>\n</body>\n</html>\n"
    )


def style() -> str:
    return STYLE.read_text(encoding="utf-8")
