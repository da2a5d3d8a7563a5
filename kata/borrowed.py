"""What in a learner's lesson isn't the learner's: the reference's own piece, or torch's."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import torch

from kata.stubs import CORES, modules_of

OWNERS = {"the reference's own": CORES, "torch's own": Path(torch.__file__).parent}


def borrowed(lesson: str, module: ModuleType) -> list[str]:
    """A line per owner, with the steps of the lesson that are the owner's, by whatever name."""
    found: dict[str, list[str]] = {}
    for step in steps_of(lesson):
        if owner := owner_of(module, step):
            found.setdefault(owner, []).append(step)
    return [f"{owner}: {', '.join(steps)}" for owner, steps in found.items()]


def steps_of(lesson: str) -> Iterator[str]:
    """The functions that the lesson's stub leaves to write, with the names of their classes."""
    for each in modules_of(lesson):
        if len(each.stub.parts) == 1:
            yield from unwritten(ast.parse(each.stub_text(lesson)).body)


def unwritten(body: list[ast.stmt], owner: str = "") -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from unwritten(statement.body, f"{owner}{statement.name}.")
        elif isinstance(statement, ast.FunctionDef) and isinstance(statement.body[-1], ast.Raise):
            yield f"{owner}{statement.name}"


def owner_of(module: ModuleType, step: str) -> str:
    """Whose code a step runs, if it is somebody else's; empty if not, or if it isn't there."""
    try:
        function = inspect.unwrap(attrgetter(step)(module))
        file = Path(function.__code__.co_filename)
    except (AttributeError, ValueError):
        return ""
    return next((owner for owner, folder in OWNERS.items() if file.is_relative_to(folder)), "")
