"""The engine: the cores of eight lessons, with their own proxies, graph and tracer."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

from torch import nn

from benchmarks.case import Case, timed
from benchmarks.models import CLASSIFIERS, classifier
from benchmarks.test_tracer import same_trace, trace


def without_wrapped_functions(name: str) -> nn.Module:
    """A classifier whose stochastic depth is gone: recording it as one call is stretch."""
    model = deepcopy(classifier(name))
    for path, module in [*model.named_modules()]:
        if type(module).__name__ == "StochasticDepth":
            model.set_submodule(path, nn.Identity())
    return model


CASES = [
    Case(f"trace of {name}", trace, partial(without_wrapped_functions, name), same_trace, 0.55)
    for name in CLASSIFIERS
]

test_finale = timed
