"""Trace with the tracer of the lessons, of the reference, or of torch."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn
from torch.fx import Graph

from kata import places
from kata.graph.errors import GraphError
from kata.lending import LessonFinder, is_written, only_these_modules
from lessons import LESSONS

TRACER = "tracer"


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
        return trace_by_lesson(model, places.HERE.lessons)
    module = torch.fx if impl == "torch" else importlib.import_module("solutions.stretch.tracer")
    try:
        return Traced(module.Tracer().trace(model))
    except Exception as error:
        raise GraphError(f"this model cannot be traced: {words(error)}") from error


def trace_by_lesson(model: nn.Module, folder: Path) -> Traced:
    """Trace with the learner's tracer; its siblings that aren't written yet are lent."""
    refuse_unwritten(folder)
    finder = LessonFinder(TRACER, folder)
    try:
        with only_these_modules("lessons", {}), finder.installed():
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
    return f"\n  {places.shown(file)}, line {own[-1].lineno}: {own[-1].line}"


def words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
