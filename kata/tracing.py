"""A model by its name, and its graph by the tracer of the lessons, the reference or torch."""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
import warnings
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn
from torch.fx import Graph

from kata import workspace
from kata.lending import is_written, lending
from lessons import LESSONS

TRACER = "tracer"


class GraphError(RuntimeError):
    """A graph that cannot be shown; the message says why, and what to do."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: the nearest ones, if any is near."""
    names = difflib.get_close_matches(word, sorted(known))
    return f": did you mean {' or '.join(names)}?" if names else ""


class Traced(NamedTuple):
    """A graph, and the lessons that were lent for it."""

    graph: Graph
    lent: tuple[str, ...] = ()


def trace(model: nn.Module, impl: str) -> Traced:
    """Trace a model.

    Args:
        model: any model.
        impl: ``lessons``, ``solutions`` or ``torch``.

    Raises:
        GraphError: the lesson isn't written yet, it fails, or the model cannot be traced.
    """
    if impl == "lessons":
        return trace_by_lesson(model, workspace.HERE.lessons)
    module = torch.fx if impl == "torch" else importlib.import_module("solutions.stretch.tracer")
    try:
        return Traced(module.Tracer().trace(model))
    except Exception as error:
        raise GraphError(f"this model cannot be traced: {words(error)}") from error


def trace_by_lesson(model: nn.Module, folder: Path) -> Traced:
    """Trace with the learner's tracer; its siblings that aren't written yet are lent."""
    refuse_unwritten(folder)
    try:
        with lending(folder, TRACER) as finder:
            graph = importlib.import_module(f"lessons.{TRACER}").Tracer().trace(model)
    except Exception as error:
        raise GraphError(explained(error, folder)) from error
    if not isinstance(graph, Graph):
        raise GraphError(f"Tracer.trace of lessons/tracer.py returned no graph but {graph!r}")
    return Traced(graph, tuple(finder.lent))


def refuse_unwritten(folder: Path) -> None:
    """Say what keeps the lesson from being run: a stub, or what Python cannot read."""
    if is_written(TRACER, folder):
        return
    file = folder / f"{TRACER}.py"
    try:
        compile(file.read_bytes(), str(file), "exec")
    except SyntaxError as error:
        raise GraphError(f"lessons/tracer.py, line {error.lineno}: {error.msg}") from error
    raise GraphError(
        "lessons/tracer.py isn't written yet: write it first, "
        "or see the reference's graph with --impl solutions"
    )


def explained(error: Exception, folder: Path) -> str:
    """What went wrong in a learner's tracer, and on which of their lines."""
    lesson = next((each.name for each in LESSONS if str(error).startswith(f"{each.name}: ")), "")
    if isinstance(error, NotImplementedError) and lesson:
        return f"a part of lessons/{lesson} isn't written yet: {error}"
    return f"your tracer raised {words(error)}{place(error, folder)}"


def place(error: Exception, folder: Path) -> str:
    """The last line of the learner's own that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    if not own:
        return ""
    file = Path(own[-1].filename)
    return f"\n  {workspace.shown(file)}, line {own[-1].lineno}: {own[-1].line}"


def words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def build(name: str) -> nn.Module:
    """Make the model, in eval mode.

    Args:
        name: a classification model of torchvision, or ``package.module:Class``.

    Raises:
        GraphError: there is no such model, or it cannot be made without arguments.
    """
    model = imported(name) if ":" in name else torchvision_model(name)
    return model.eval()


def torchvision_model(name: str) -> nn.Module:
    from kata.torchvision_compat import torchvision

    models = torchvision.models.list_models(module=torchvision.models)
    if name not in models:
        near = did_you_mean(name, models) or " (one of your own: package.module:Class)"
        raise GraphError(f"torchvision has no classification model `{name}`{near}")
    with warnings.catch_warnings():
        # Some tell how their weights are initialised; a graph has none.
        warnings.simplefilter("ignore")
        model: nn.Module = torchvision.models.get_model(name, weights=None)
    return model


def imported(name: str) -> nn.Module:
    """The model behind ``package.module:Class``; an object that is a module is taken as it is."""
    path, _, attribute = name.partition(":")
    found = look_up(path, attribute)
    if isinstance(found, nn.Module):
        return found
    try:
        model = found() if callable(found) else found
    except Exception as error:
        raise GraphError(f"{name}() raised {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise GraphError(f"{name} gives no nn.Module: its type is {type(model).__name__}")
    return model


def look_up(path: str, attribute: str) -> object:
    """Import the object; the folder where the command was called comes first, as for Python."""
    sys.path.insert(0, "")
    try:
        return attrgetter(attribute)(importlib.import_module(path))
    except ImportError as error:
        raise GraphError(f"cannot import {path}: {error}") from error
    except AttributeError as error:
        raise GraphError(f"{path} has no `{attribute}`") from error
    finally:
        sys.path.remove("")
