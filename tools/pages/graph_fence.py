"""The fence of the site's pages: the name of a picture becomes the picture.

The options are optional::

    ```fx-graph
    resnet18
    caption: Seventy-one nodes.
    plays: once
    ```

What `plays: once` begins empty, and plays when a reader first sees it.
"""

from __future__ import annotations

from typing import Any

from drawing.figure import figure
from tools.pictures.gallery import GALLERY

OPTIONS = ("caption", "plays")


def fence(
    source: str, language: str, css_class: str, options: dict[str, Any], md: Any, **ignored: Any
) -> str:
    """Turn a fence's text into a figure, as ``pymdownx.superfences`` asks for it.

    Raises:
        SuperFencesException: The picture or the option doesn't exist, or making the picture failed.
            Any other error would be swallowed, and the fence shown as text.
    """
    from pymdownx.superfences import SuperFencesException  # type: ignore[import-untyped]

    try:
        name, chosen = parsed(source)
        picture = GALLERY[name]()
    except Exception as error:
        raise SuperFencesException(f"{language} {source.strip()!r}: {error!r}") from error
    caption, plays = (chosen.get(option, "") for option in OPTIONS)
    return figure(picture, unique_id(name, md), caption, plays_once=plays == "once")


def parsed(source: str) -> tuple[str, dict[str, str]]:
    """Read the name in the first line, and an option in each of the others."""
    name, *lines = [line.strip() for line in source.strip().splitlines()] or [""]
    if name not in GALLERY:
        raise ValueError(f"`{name}` isn't a picture; choose from: {', '.join(GALLERY)}")
    options = {}
    for line in lines:
        option, colon, value = line.partition(":")
        if option not in OPTIONS or not colon:
            raise ValueError(f"`{line}` isn't an option; choose from: {', '.join(OPTIONS)}")
        options[option] = value.strip()
    return name, options


def unique_id(name: str, md: Any) -> str:
    """An id for this picture on this page; a page may show one picture several times."""
    seen: dict[str, int] = md.__dict__.setdefault("fx_graphs", {})
    seen[name] = seen.get(name, 0) + 1
    return f"fx-{name}" + (f"-{seen[name]}" if seen[name] > 1 else "")
