"""What in a learner's lesson isn't the learner's: the reference's own piece, or torch's."""

from __future__ import annotations

import ast
import inspect
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import torch

from kata.paths import CORES
from kata.steps import unwritten
from kata.stubs import stub

OWNERS = {"the reference's own": CORES, "torch's own": Path(torch.__file__).parent}


def borrowed(lesson: str, module: ModuleType) -> list[str]:
    """A line per owner, with the steps of the lesson that are the owner's, by whatever name."""
    found: dict[str, list[str]] = {}
    for step in unwritten(ast.parse(stub(lesson)).body):
        if owner := owner_of(module, step.name):
            found.setdefault(owner, []).append(step.name)
    return [f"{owner}: {', '.join(steps)}" for owner, steps in found.items()]


def owner_of(module: ModuleType, step: str) -> str:
    """Whose code a step runs, if it is somebody else's; empty if not, or if it isn't there."""
    try:
        function = inspect.unwrap(attrgetter(step)(module))
        file = Path(function.__code__.co_filename)
    except (AttributeError, ValueError):
        return ""
    return next((owner for owner, folder in OWNERS.items() if file.is_relative_to(folder)), "")
