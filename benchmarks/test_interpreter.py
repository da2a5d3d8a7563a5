"""Graphs that are run node by node: what the interpreter adds to the cost of the nodes."""

from __future__ import annotations

import torch

from benchmarks.case import Call, Case, Family, sizes, timed
from tests import zoo
from tests.models.interpreter import chain, run_of
from tests.suite import same_graph, same_numbers

RUNS = Family("cheap nodes, run", 1.1)
SHAPES = Family("cheap nodes, with shapes", 1.1)
RECORDINGS = Family("cheap nodes, recorded anew", 1.1)
PARITY = 1.0


def runs(count: int):
    """A chain of nodes that do next to nothing."""

    def prepare(lesson) -> Call:
        interpreter = lesson.Interpreter(chain(count))
        return lambda: interpreter.run(1)

    return {"prepare": prepare, "same": same_numbers}


def shapes(count: int):
    """The same chain with a tensor, which each node describes."""

    def prepare(lesson) -> Call:
        shape_prop = lesson.ShapeProp(chain(count))
        return lambda: shape_prop.propagate(torch.ones(3))

    return {"prepare": prepare, "same": same_numbers}


def recordings(count: int):
    """The same chain, recorded in a new graph."""

    def prepare(lesson) -> Call:
        module = chain(count)
        return lambda: lesson.Transformer(module).transform().graph

    return {"prepare": prepare, "same": same_graph}


def resnet18(lesson) -> Call:
    run = run_of(zoo.resnet18())
    interpreter = lesson.Interpreter(run.module)
    return lambda: interpreter.run(*run.values)


CASES = [
    Case("ResNet18 on a small image, run", resnet18, same_numbers, target=PARITY),
    *sizes(RUNS, runs, {500: PARITY, 2000: PARITY, 8000: PARITY}),
    *sizes(SHAPES, shapes, {500: PARITY, 2000: PARITY}),
    *sizes(RECORDINGS, recordings, {500: None, 2000: None}),
]

test_interpreter = timed
