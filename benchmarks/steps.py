"""What each step from a simple version to the fast one brought: the reference with it undone.

A step is undone on a fresh copy of the reference, which then races torch like the reference does.
The page shows the code below beside the reference's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from torch import nn
from torch.fx._lazy_graph_module import _make_graph_module

from benchmarks.case import Case, all_cases, reference, torch_side
from benchmarks.measure import Result, race
from tests.suite.implementations import changed_reference

Change = Callable[[ModuleType], None]


@dataclass(frozen=True)
class Step:
    """One step, where it shows, and how to undo it."""

    lesson: str
    case: str
    title: str
    undo: Change


@dataclass
class Gain:
    """Our time over torch's without the step and with it; plain data."""

    lesson: str
    case: str
    title: str
    without: float
    with_it: float


STEPS: list[Step] = []


def step(lesson: str, case: str, title: str) -> Callable[[Change], Change]:
    """Enter a step, by what undoes it."""

    def enter(undo: Change) -> Change:
        STEPS.append(Step(lesson, case, title, undo))
        return undo

    return enter


# --8<-- [start:scan]
@step("path_of_module", "1 000 leaves, paths of all", "an index by identity")
def scan_all_modules(lesson: Any) -> None:
    def path_of_module(self, mod: nn.Module) -> str:
        for path, module in self.root.named_modules():
            if module is mod:
                return path
        raise NameError(type(mod).__name__)

    lesson.PathOfModule.path_of_module = path_of_module


# --8<-- [end:scan]


# --8<-- [start:scan-parameters]
@step("create_arg", "1 000 raw parameters", "an index by identity")
def scan_all_parameters(lesson: Any) -> None:
    def path_of_value(self, a: Any) -> str | None:
        return next(path for path, each in self.root.named_parameters() if each is a)

    lesson.CreateArg._path_of_value = path_of_value


# --8<-- [end:scan-parameters]


# --8<-- [start:first-try]
@step("create_arg", "1000 times nine plain values", "plain values first")
def ask_what_it_is_first(lesson: Any) -> None:
    lesson._PLAIN = frozenset()


# --8<-- [end:first-try]


# --8<-- [start:create-node]
@step("tracer", "10 000 leaf calls", "no second look at the arguments")
@step("tracer", "ResNet152", "no second look at the arguments")
def flatten_all_arguments(lesson: Any) -> None:
    def add_node(graph, *what):
        return graph.create_node(*what)

    lesson.add_node = add_node


# --8<-- [end:create-node]


# --8<-- [start:inherited]
@step("tracer", "ResNet152", "a `create_node` of our own")
def inherit_create_node(lesson: Any) -> None:
    del lesson.Tracer.create_node


# --8<-- [end:inherited]


# --8<-- [start:code-twice]
@step("split_module", "ResNet152, one a call", "code once a submodule")
def generate_code_twice(lesson: Any) -> None:
    def module_around(self, submodules):
        named = {partition.submod_name: module for partition, module in submodules.items()}
        module = _make_graph_module({**self.attributes, **named}, self.graph)
        module.meta["partition_names"] = set(named)
        return module

    in_module(lesson, "stitch")._Frame.module_around = module_around


# --8<-- [end:code-twice]


# --8<-- [start:eager-code]
@step("unflatten", "ResNet18", "code when it is asked for")
def generate_code_at_once(lesson: Any) -> None:
    runner = in_module(lesson, "runner").GraphRunner
    finalize = runner.finalize

    def finalize_with_code(self) -> None:
        finalize(self)
        self._generate()

    runner.finalize = finalize_with_code


# --8<-- [end:eager-code]


def in_module(lesson: ModuleType, name: str) -> Any:
    """A module of a lesson that is a package."""
    import sys

    return sys.modules[f"{lesson.__name__}.{name}"]


def gains(seconds: float) -> list[Gain]:
    """Race every step undone, and the reference, against torch."""
    return [gain_of(each, seconds) for each in STEPS]


def gain_of(each: Step, seconds: float) -> Gain:
    case = next(case for case in all_cases()[each.lesson] if case.name == each.case)
    undone = changed_reference(each.lesson)
    with undone.active() as module:
        each.undo(module)
        without = race_of(each.lesson, case, module, seconds)
    with_it = race_of(each.lesson, case, reference(each.lesson), seconds)
    return Gain(each.lesson, each.case, each.title, without.ratio, with_it.ratio)


def race_of(lesson: str, case: Case, module: Any, seconds: float) -> Result:
    return race(lesson, case, (module, torch_side(lesson, case)), seconds)
