"""The command ``graph``: a model's graph as a picture in the browser, alone or beside torch's."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import traceback
import webbrowser
from dataclasses import replace
from itertools import islice, zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from drawing import Panel, Picture
from drawing.figure import write_page
from drawing.listing import panel
from kata import progress
from kata.arguments import UsageError, near
from kata.comparing import first_difference, rows
from kata.lending import lending
from kata.paths import ROOT
from kata.terminal import harmless, open_console

WHOSE = {"lessons": "your tracer", "full": "the reference", "torch": "torch"}
MARK = "first difference"
OWN_MODEL = (
    "one of your own is file.py:name or package.module:name, where name is a model, "
    "or a class or function that makes one without arguments"
)
# Lines in the libraries and in these folders are not the reader's own.
OTHERS = (
    Path(torch.__file__).parent,
    Path(argparse.__file__).parent,
    *(ROOT / folder for folder in ("kata", "given", "solutions")),
)


class Shown(NamedTuple):
    """The picture, the lines that say what it is, and whether there is no difference in it."""

    picture: Picture
    says: list[str]
    same: bool = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    words = "a model of torchvision (resnet18), or one of yours: file.py:name, package.module:name"
    parser.add_argument("model", help=words)
    words = "whose tracer: yours (the default), the reference's, or torch's"
    parser.add_argument("--impl", choices=tuple(WHOSE), default="lessons", help=words)
    words = "compare with torch's graph; exit code 1 if they differ"
    parser.add_argument("--against", choices=("torch",), help=words)
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the page")
    parser.add_argument("--no-open", action="store_true", help="don't open the browser")


def main(arguments: argparse.Namespace) -> int:
    """Draw the graph and show it; the exit code is 1 on an error, or if graphs differ."""
    name = re.sub(r"[^\w.-]+", "-", arguments.model)
    file = arguments.out or progress.HERE.memory / "graphs" / f"{name}.html"
    shown = show(arguments.model, arguments.impl, compare=arguments.against is not None)
    write_page(shown.picture, file)
    console = open_console()
    for line in (*shown.says, f"written to {progress.short_path(file)}"):
        console.print(harmless(line), soft_wrap=True)
    if not arguments.no_open:
        webbrowser.open(file.resolve().as_uri())
    return 0 if shown.same else 1


def show(model: str, impl: str, *, compare: bool) -> Shown:
    """Trace a model and list what is to be drawn."""
    ours, lent = trace(build(model), impl)
    whose = WHOSE["full" if "tracer" in lent else impl]
    title = f"{model}: traced by {whose}"
    if compare:
        theirs, _ = trace(build(model), "torch")
        shown = compared(title, ours, theirs, whose)
    else:
        shown = alone(title, f"{title}, {len(ours.nodes)} nodes", ours)
    if lent:
        shown.says.append(f"lent by the reference: {', '.join(lent)}")
    return shown


def alone(title: str, says: str, graph: Any) -> Shown:
    description = f"{says}. The list runs downwards, each top-level module has a column."
    return Shown(Picture(title, description, (panel(graph),)), [says])


def compared(title: str, ours: Any, theirs: Any, whose: str) -> Shown:
    """Both graphs, the first difference marked, unless they are the same: then one is enough."""
    table = list(zip_longest(our_rows := rows(ours), their_rows := rows(theirs), fillvalue=""))
    difference = first_difference(our_rows, their_rows)
    if difference is None:
        return alone(title, f"{title}: the same graph as torch's, {len(ours.nodes)} nodes", ours)
    position, _ = difference
    our, their = table[position]
    says = f"{title}: differs from torch's graph from node {position} on"
    panels = (marked(ours, position, whose), marked(theirs, position, "torch"))
    picture = Picture(title, f"{says}.", panels)
    return Shown(picture, [says, f"  {whose}: {our}", f"  torch: {their}"], same=False)


def marked(graph: Any, position: int, heading: str) -> Panel:
    """A graph's nodes; the one at a position is marked, if it exists."""
    names = [node.name for node in islice(graph.nodes, position, position + 1)]
    return replace(panel(graph, marks=dict.fromkeys(names, MARK)), heading=heading)


# --- the model and its graph ------------------------------------------------------------------


def trace(model: nn.Module, impl: str) -> tuple[Any, list[str]]:
    """Trace a model; return its graph, and the lessons that were lent for it."""
    lent: list[str] = []
    try:
        if impl == "lessons":
            own = "" if progress.is_pristine("tracer") else "tracer"
            yours = progress.siblings_of("tracer")
            with lending(progress.HERE.lessons, own, yours) as finder:
                graph = importlib.import_module("lessons.tracer").Tracer().trace(model)
            lent = list(dict.fromkeys(finder.lent))
        elif impl == "full":
            graph = importlib.import_module("solutions.stretch.tracer").Tracer().trace(model)
        else:
            graph = torch.fx.Tracer().trace(model)
    except NotImplementedError as error:
        raise UsageError(f"not written yet: {error}; --impl full shows the reference's") from error
    except Exception as error:
        is_refused = impl != "lessons" or type(error).__name__ == "TraceError"
        what = "this model cannot be traced:" if is_refused else "your tracer raised"
        raise UsageError(f"{what} {words_of(error)}{place(error)}") from error
    if not hasattr(graph, "nodes"):
        raise UsageError(f"lessons/tracer.py returned no graph but {graph!r}")
    return graph, lent


def place(error: Exception) -> str:
    """The last lines of the lessons and of the model that an error came through."""
    last = {Path(each.filename): each for each in traceback.extract_tb(error.__traceback__)}
    return "".join(
        f"\n  {progress.short_path(file)}:{each.lineno}: {each.line}"
        for file, each in last.items()
        if file.is_file() and not any(map(file.is_relative_to, OTHERS))
    )


def words_of(error: Exception) -> str:
    """An error's type and text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def build(name: str) -> nn.Module:
    """Make a model of torchvision, or one's own, in eval mode."""
    try:
        model = imported(name) if ":" in name else torchvision_model(name)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{name} cannot be made: {words_of(error)}; {OWN_MODEL}") from error
    if not isinstance(model, nn.Module):
        raise UsageError(f"{name} isn't an nn.Module but a {type(model).__name__}; {OWN_MODEL}")
    return model.eval()


def torchvision_model(name: str) -> nn.Module:
    from kata.torchvision_compat import torchvision

    models = torchvision.models.list_models(module=torchvision.models)
    if name not in models:
        words = f"torchvision has no classification model `{name}`{near(name, models)}"
        raise UsageError(f"{words}; {OWN_MODEL}")
    return torchvision.models.get_model(name, weights=None)


def imported(name: str) -> object:
    """Return the model that ``file.py:Class`` or ``package.module:Class`` is, or makes."""
    path, _, attribute = name.rpartition(":")
    file = Path(path)
    # As for Python, the folder of the file comes first, or else that of the command.
    sys.path.insert(0, str(file.resolve().parent) if file.suffix == ".py" else "")
    try:
        module = importlib.import_module(file.stem if file.suffix == ".py" else path)
        found = attrgetter(attribute)(module)
    finally:
        del sys.path[0]
    return found() if callable(found) and not isinstance(found, nn.Module) else found
