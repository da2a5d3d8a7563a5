"""The command ``graph``: a model's graph as a picture in the browser."""

from __future__ import annotations

import argparse
import re
import webbrowser
from pathlib import Path

from drawing.page import write_page
from kata import workspace
from kata.terminal import harmless, open_console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("model", help="a model of torchvision (resnet18), or package.module:Class")
    parser.add_argument(
        "--impl",
        choices=("lessons", "solutions", "torch"),
        default="lessons",
        help="whose tracer: yours (the default), the reference's, or torch's",
    )
    parser.add_argument(
        "--against",
        choices=("torch",),
        help="compare with torch's graph; exit code 1 if they differ",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write (.html or .svg)")
    parser.add_argument("--no-open", action="store_true", help="don't open the browser")


def main(arguments: argparse.Namespace) -> int:
    """Draw the graph and show it; the exit code is 1 on an error, or if graphs differ."""
    # Here, because it imports torch: --help needs none.
    from kata.graphs import show
    from kata.tracing import GraphError

    name = re.sub(r"[^\w.-]+", "-", arguments.model)
    file = arguments.out or workspace.HERE.memory / "graphs" / f"{name}.html"
    try:
        shown = show(arguments.model, arguments.impl, compare=arguments.against is not None)
        write_page(shown.picture, file)
    except (GraphError, OSError) as error:
        console = open_console(plain=arguments.plain, stderr=True)
        console.print(harmless(f"error: {error}"), soft_wrap=True)
        return 1
    console = open_console(plain=arguments.plain)
    for line in (*shown.says, f"written to {file}"):
        console.print(harmless(line), soft_wrap=True)
    if not arguments.no_open:
        open_in_browser(file)
    return 0 if shown.same else 1


def open_in_browser(file: Path) -> None:
    """Open a file in a browser that has a window of its own; where there is none, do nothing."""
    try:
        browser = webbrowser.get()
        # One that runs in the terminal would take it over.
        if type(browser) is not webbrowser.GenericBrowser:
            browser.open(file.resolve().as_uri())
    except (webbrowser.Error, OSError):
        return
