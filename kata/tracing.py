"""A model by its name, and its graph by the tracer of the lessons, the reference or torch."""

from __future__ import annotations

import importlib
import sys
import traceback
from operator import attrgetter
from pathlib import Path

import torch
from torch import nn
from torch.fx import Graph

from kata import workspace
from kata.lending import lending
from kata.naming import near


class GraphError(RuntimeError):
    """A graph that cannot be shown; the message says why, and what to do."""


def trace(model: nn.Module, impl: str) -> tuple[Graph, list[str]]:
    """Trace a model; return its graph, and the lessons that were lent for it.

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
        return module.Tracer().trace(model), []
    except Exception as error:
        raise GraphError(f"this model cannot be traced: {words(error)}") from error


def trace_by_lesson(model: nn.Module, folder: Path) -> tuple[Graph, list[str]]:
    """Trace with the learner's tracer; its siblings that aren't written yet are lent."""
    try:
        with lending(folder, "tracer") as finder:
            graph = importlib.import_module("lessons.tracer").Tracer().trace(model)
    except NotImplementedError as error:
        told = f"not written yet: {error}; --impl solutions shows the reference's graph"
        raise GraphError(told) from error
    except Exception as error:
        raise GraphError(f"your tracer raised {words(error)}{place(error, folder)}") from error
    if not isinstance(graph, Graph):
        raise GraphError(f"Tracer.trace of lessons/tracer.py returned no graph but {graph!r}")
    return graph, finder.lent


def place(error: Exception, folder: Path) -> str:
    """The last line of the learner's own that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    return f"\n  lessons/{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def build(name: str) -> nn.Module:
    """Make the model, in eval mode.

    Args:
        name: a classification model of torchvision, or ``package.module:Class``.

    Raises:
        GraphError: there is no such model, or it cannot be made without arguments.
    """
    try:
        model = imported(name) if ":" in name else torchvision_model(name)
    except GraphError:
        raise
    except Exception as error:
        raise GraphError(f"{name} cannot be made: {words(error)}") from error
    if not isinstance(model, nn.Module):
        raise GraphError(f"{name} gives no nn.Module: its type is {type(model).__name__}")
    return model.eval()


def torchvision_model(name: str) -> nn.Module:
    from kata.torchvision_compat import torchvision

    models = torchvision.models.list_models(module=torchvision.models)
    if name not in models:
        raise GraphError(
            f"torchvision has no classification model `{name}`{near(name, models)}; "
            "one of your own is package.module:Class"
        )
    return torchvision.models.get_model(name, weights=None)


def imported(name: str) -> object:
    """What ``package.module:Class`` makes; an object that is a module is taken as it is."""
    path, _, attribute = name.partition(":")
    # The folder where the command was called comes first, as for Python.
    sys.path.insert(0, "")
    try:
        found = attrgetter(attribute)(importlib.import_module(path))
    finally:
        sys.path.remove("")
    return found() if callable(found) and not isinstance(found, nn.Module) else found
