"""A model by its name, and its graph by the tracer of the lessons, the reference or torch."""

from __future__ import annotations

import copy
import importlib
import logging
import sys
import traceback
import warnings
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from kata import workspace
from kata.lending import lending
from kata.lesson_names import UsageError, near
from kata.paths import CORES, ROOT, STUBS

# What a lesson raises where the model, and not the lesson, is at fault.
REFUSALS = {
    "TraceError": "this model cannot be traced:",
    "CaptureError": "this model cannot be captured:",
}


class GraphError(UsageError):
    """A graph that cannot be shown; the message says why, and what to do."""


def trace(model: nn.Module, impl: str) -> tuple[Any, list[str]]:
    """Trace a model; return its graph, and the lessons that were lent for it.

    Args:
        model: Any model.
        impl: ``lessons``, ``full`` or ``torch``.

    Raises:
        GraphError: The lesson is half-written, it fails, or the model cannot be traced.
    """
    if impl == "lessons":
        return by_lesson("tracer", lambda tracer: tracer.Tracer().trace(model))
    module = torch.fx if impl == "torch" else importlib.import_module("solutions.stretch.tracer")
    return told("this model cannot be traced", lambda: module.Tracer().trace(model)), []


def capture(model: nn.Module, shape: tuple[int, ...], impl: str) -> tuple[Any, list[str]]:
    """Capture a model, run on zeros of a shape; return what ``trace`` does.

    Args:
        model: Any model with one input.
        shape: The input's.
        impl: ``lessons``, ``full`` or ``torch``.

    Raises:
        GraphError: The capture fails.
    """
    inputs = (torch.zeros(shape),)
    logging.getLogger("torch._subclasses.fake_tensor").disabled = True  # it logs what it raises
    if impl == "lessons":
        return by_lesson("capture", lambda lesson: lesson.capture(model, inputs).graph)
    if impl == "torch":
        return told("this model cannot be exported", lambda: exported(model, inputs)), []
    reference = importlib.import_module("solutions.stretch.capture")
    return told("this model cannot be captured", lambda: reference.capture(model, inputs).graph), []


def exported(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Any:
    """The operators that ``torch.export`` records."""
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # of torch about itself
        return torch.export.export(model, inputs).run_decompositions().graph


def told(what: str, work: Callable[[], Any]) -> Any:
    """Return what the work returns; an error of it in words."""
    try:
        return work()
    except Exception as error:
        raise GraphError(f"{what}: {words(error)}{places(error)}") from error


def by_lesson(lesson: str, work: Callable[[ModuleType], Any]) -> tuple[Any, list[str]]:
    """Let a learner's lesson make a graph; lessons that aren't written yet are lent."""
    folder = workspace.HERE.lessons
    is_begun = not workspace.is_pristine(lesson)
    try:
        with lending(folder, lesson if is_begun else "") as finder:
            graph = work(importlib.import_module(f"lessons.{lesson}"))
    except NotImplementedError as error:
        raise GraphError(
            f"not written yet: {error}; --impl full shows the reference's graph"
        ) from error
    except Exception as error:
        refusal = REFUSALS.get(type(error).__name__, f"your {lesson} raised")
        raise GraphError(f"{refusal} {words(error)}{places(error, folder)}") from error
    if not hasattr(graph, "nodes"):
        raise GraphError(f"lessons/{lesson}.py returned no graph but {graph!r}")
    return graph, finder.lent


def places(error: Exception, folder: Path = STUBS) -> str:
    """The last line of the lessons and the last line of the model that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    lessons = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    models = [frame for frame in frames if is_of_a_model(Path(frame.filename))]
    own = {f"lessons/{Path(each.filename).name}": each for each in lessons[-1:]}
    own |= {Path(each.filename).name: each for each in models[-1:]}
    return "".join(f"\n  {name}:{each.lineno}: {each.line}" for name, each in own.items())


def is_of_a_model(file: Path) -> bool:
    """Return whether a file isn't torch's, a lesson's, the reference's or the runner's."""
    others = (ROOT / "kata", CORES, STUBS, Path(torch.__file__).parent, Path(copy.__file__).parent)
    return file.is_file() and not any(map(file.is_relative_to, (*others, workspace.HERE.lessons)))


def words(error: Exception) -> str:
    """An error's type and text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def build(name: str) -> nn.Module:
    """Make the model, in eval mode.

    Args:
        name: A classification model of torchvision, or one of the reader's own:
            ``file.py:name`` or ``package.module:name``, of a class, a function or a model.

    Raises:
        GraphError: There is no such model, or it cannot be made without arguments.
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
            "one of your own is file.py:Class or package.module:Class"
        )
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
