"""Graphs that are run node by node: what the interpreter adds to the cost of the nodes."""

from __future__ import annotations

from benchmarks.case import Call, Case, sized, timed
from tests import zoo
from tests.models.interpreter import chain, run_of
from tests.suite import same_numbers

PARITY = 1.0


def run_resnet18(lesson, run) -> Call:
    interpreter = lesson.Interpreter(run.module)
    return lambda: interpreter.run(*run.values)


def runs(lesson, module) -> Call:
    """A chain of nodes that do next to nothing."""
    interpreter = lesson.Interpreter(module)
    return lambda: interpreter.run(1)


CASES = [
    Case(
        "ResNet18 on a small image, run",
        run_resnet18,
        lambda: run_of(zoo.resnet18()),
        same_numbers,
        PARITY,
    ),
    *sized("cheap nodes, run", runs, chain, same_numbers, (500, 2000, 8000), PARITY),
]

test_interpreter = timed
