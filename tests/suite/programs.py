"""Exported programs: each is made once a process, and copied for every test that wants it.

``torch.export`` takes at least ten times as long as such a copy, and as what is judged.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.export import ExportedProgram


class Exported(NamedTuple):
    """A model and its program, which share their parameters as ``torch.export`` left them."""

    model: nn.Module
    program: ExportedProgram


class Case:
    """How a model and its program are made.

    Args:
        make: A class or a function of a test module; what it makes is seeded.
        args: The example inputs.
        options: See ``export``.
    """

    def __init__(self, make: Callable[[], nn.Module], *args: Any, **options: Any) -> None:
        self.make, self.args = make, args
        self.options = {"preserve": (), "functional": False, "strict": False, **options}

    @property
    def key(self) -> tuple[Callable[[], nn.Module], str]:
        """Another one for another case: inputs are small, or differ in what their text shows."""
        return self.make, repr((self.args, self.options))

    def made(self) -> Exported:
        """The original, which is to stay as it is."""
        if self.key not in KNOWN:
            torch.manual_seed(0)
            model = self.make()
            KNOWN[self.key] = Exported(model, export(model, *self.args, **self.options))
        return KNOWN[self.key]


KNOWN: dict[tuple[Callable[[], nn.Module], str], Exported] = {}


def exported(make: Callable[[], nn.Module], *args: Any, **options: Any) -> Exported:
    """A model and its program, as ``Case`` has it: a copy that the caller may change."""
    original = Case(make, *args, **options).made()
    with specs_are_copied():
        return faithful(copy.deepcopy(original), original)


def program_of(make: Callable[[], nn.Module], *args: Any, **options: Any) -> ExportedProgram:
    """The program alone, where the test doesn't run the eager model."""
    return exported(make, *args, **options).program


def export(
    model: nn.Module,
    *args: Any,
    preserve: tuple[str, ...] = (),
    functional: bool = False,
    **options: Any,
) -> ExportedProgram:
    """Export in training IR; with ``functional``, decomposed: no mutation in the graph."""
    program = torch.export.export(model, args, preserve_module_call_signature=preserve, **options)
    if not functional:
        return program
    with specs_are_copied():
        # torch 2.15 erases a copy twice whose value the program also returns
        warnings.filterwarnings("ignore", "erase_node", UserWarning)
        return program.run_decompositions(default_decompositions())


@functools.cache
def default_decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions that torch uses by default; listing them takes a while."""
    return torch.export.default_decompositions().materialize()


def faithful(made: Exported, original: Exported) -> Exported:
    """Return a copy whose nodes have the original's names: the signature knows them by these.

    Raises:
        ValueError: A name is a builtin's, ``input`` say, which a copied graph makes ``input_1``.
    """
    ours, theirs = ([node.name for node in each.program.graph.nodes] for each in (made, original))
    if ours != theirs:
        raise ValueError(f"copied under other names: {sorted(set(theirs) - set(ours))}")
    return made


@contextlib.contextmanager
def specs_are_copied() -> Iterator[None]:
    """Let torch copy a program's tree specs without the warning that it causes itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`isinstance\\(treespec, LeafSpec", FutureWarning)
        yield
