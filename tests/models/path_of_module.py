"""Modules and tracers for the tests of ``path_of_module``."""

from __future__ import annotations

import torch
from torch import nn

from tests.suite import own


def plugged(lesson) -> torch.fx.Tracer:
    """Return torch's ``Tracer`` with the lesson's class as its first base."""
    return type("Plugged", (own(lesson.PathOfModule, "path_of_module"), torch.fx.Tracer), {})()


def tracer_at(lesson, root: nn.Module) -> torch.fx.Tracer:
    tracer = plugged(lesson)
    tracer.root = root
    return tracer


def path_of(tracer: torch.fx.Tracer, mod: nn.Module) -> str | NameError:
    """Return the path, or the error raised instead, so that a test can name the cause."""
    try:
        return tracer.path_of_module(mod)
    except NameError as error:
        if error.name is not None:  # Python's own, for a name that the code misspells
            raise
        return error


def is_refused(got: object) -> bool:
    return isinstance(got, NameError)


class Equal(nn.Module):
    """A module that equals every other, and has the hash that every object has."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return True


class EqualWithOneHash(Equal):
    """A module that equals every other, in sets and dicts too."""

    def __hash__(self) -> int:
        return 0


class Unhashable(nn.Module):
    """A module that defines ``__eq__`` and thereby loses its hash."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)


class GrowsInForward(nn.Module):
    def forward(self, x):
        self.late = nn.ReLU()
        return self.late(x)
