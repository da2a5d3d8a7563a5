"""The command ``graph``: a model's graph as a picture in the browser, alone or beside torch's."""

from __future__ import annotations

import argparse
import operator
import re
import webbrowser
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from drawing import Panel, Picture
from drawing.listing import panel, target_of
from drawing.page import write_page
from kata import workspace
from kata.terminal import harmless, open_console
from kata.tracing import build, capture, trace

WHOSE = {"lessons": "your tracer", "full": "the reference", "torch": "torch"}
MARK = "first difference"
IMAGE = "1x3x224x224"  # what torchvision's classification models take


def shape(text: str) -> tuple[int, ...]:
    """Read a shape such as ``1x3x224x224``."""
    return tuple(map(int, text.split("x")))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    words = "a model of torchvision (resnet18), or one of yours: file.py:name, package.module:name"
    parser.add_argument("model", help=words)
    parser.add_argument(
        "--impl",
        choices=tuple(WHOSE),
        default="lessons",
        help="whose tracer: yours (the default), the reference's, or torch's",
    )
    parser.add_argument(
        "--against",
        choices=("torch",),
        help="compare with torch's graph; exit code 1 if they differ",
    )
    parser.add_argument(
        "--capture",
        nargs="?",
        const=IMAGE,
        type=shape,
        metavar="SHAPE",
        help="draw the operators that torch's dispatcher runs for an input of this shape, "
        "1x3x224x224 if none is given, beside what the tracer records",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write (.html or .svg)")
    parser.add_argument("--no-open", action="store_true", help="don't open the browser")


def main(arguments: argparse.Namespace) -> int:
    """Draw the graph and show it; the exit code is 1 on an error, or if graphs differ."""
    name = re.sub(r"[^\w.-]+", "-", arguments.model)
    file = arguments.out or workspace.HERE.memory / "graphs" / f"{name}.html"
    if arguments.capture:
        shown = captured(arguments.model, arguments.impl, arguments.capture)
    else:
        shown = show(arguments.model, arguments.impl, compare=arguments.against is not None)
    write_page(shown.picture, file)
    console = open_console(plain=arguments.plain)
    for line in (*shown.says, f"written to {file}"):
        console.print(harmless(line), soft_wrap=True)
    if not arguments.no_open:
        webbrowser.open(file.resolve().as_uri())
    return 0 if shown.same else 1


class Shown(NamedTuple):
    """The picture, the lines that say what it is, and whether there is no difference in it."""

    picture: Picture
    says: tuple[str, ...]
    same: bool = True


def show(model: str, impl: str, *, compare: bool) -> Shown:
    """Trace a model and list what is to be drawn.

    Raises:
        GraphError: The model isn't there, or it cannot be traced.
    """
    ours, lent = trace(build(model), impl)
    whose = WHOSE["full" if "tracer" in lent else impl]
    title = f"{model}: traced by {whose}"
    if compare:
        theirs, _ = trace(build(model), "torch")
        shown = compared(title, ours, theirs, whose)
    else:
        shown = alone(title, f"{title}, {len(ours.nodes)} nodes", ours)
    return with_loans(shown, lent)


def captured(model: str, impl: str, shape: tuple[int, ...]) -> Shown:
    """List what a tracer records of a model, and what its run leaves below autograd.

    Raises:
        GraphError: The model isn't there, or it cannot be traced or captured.
    """
    traced, lent = trace(build(model), impl)
    flat, also_lent = capture(build(model), shape, impl)
    calls = (node.target for node in flat.nodes if node.op == "call_function")
    operators = sum(target is not operator.getitem for target in calls)
    says = f"{model}: {len(traced.nodes)} nodes traced, {operators} operators captured"
    panels = (panel(traced, "the tracer"), panel(flat, "the dispatcher"))
    return with_loans(Shown(Picture(model, f"{says}.", panels), (says,)), [*lent, *also_lent])


def with_loans(shown: Shown, lent: list[str]) -> Shown:
    notes = (f"lent by the reference: {', '.join(dict.fromkeys(lent))}",) if lent else ()
    return shown._replace(says=(*shown.says, *notes))


def alone(title: str, says: str, graph: Any) -> Shown:
    description = f"{says}. The list runs downwards, each top-level module has a column."
    return Shown(Picture(title, description, (panel(graph),)), (says,))


def compared(title: str, ours: Any, theirs: Any, whose: str) -> Shown:
    """Both graphs, the first difference marked, unless they are the same: then one is enough."""
    pairs = zip_longest(map(line, ours.nodes), map(line, theirs.nodes))
    differing = ((number, *pair) for number, pair in enumerate(pairs) if pair[0] != pair[1])
    position, our, their = next(differing, (-1, "", ""))
    if position < 0:
        return alone(title, f"{title}: the same graph as torch's, {len(ours.nodes)} nodes", ours)
    says = f"{title}: differs from torch's graph from node {position} on"
    panels = (marked(ours, position, whose), marked(theirs, position, "torch"))
    picture = Picture(title, f"{says}.", panels)
    return Shown(picture, (says, f"  {whose}: {our}", f"  torch: {their}"), same=False)


def line(node: Any) -> str:
    """A node in one line: two graphs may be of two libraries, so their own texts differ."""
    arguments = [*map(repr, node.args), *(f"{key}={value!r}" for key, value in node.kwargs.items())]
    return f"{node.name} = {node.op} {target_of(node)}({', '.join(arguments)})"


def marked(graph: Any, position: int, heading: str) -> Panel:
    """A graph's nodes, the one at a position marked, if there are so many."""
    names = [node.name for node in islice(graph.nodes, position, position + 1)]
    return replace(panel(graph, marks=dict.fromkeys(names, MARK)), heading=heading)
