"""Calls whose result isn't used: some have an effect all the same, and some are dead code."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.zoo import Model


@torch.library.custom_op("fx_kata::note", mutates_args=())
def note(x: torch.Tensor) -> None:
    """Return nothing: it is called for its effect."""


def own_function(*args: Any) -> Any:
    """May do anything."""
    return args[-1]


class Owner(nn.Module):
    """Has the modules that the calls below name."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.norm, self.settled_norm = nn.BatchNorm1d(2), nn.BatchNorm1d(2).eval()
        self.dropout, self.settled_dropout = nn.Dropout(), nn.Dropout().eval()
        self.inplace = nn.Sequential(nn.ReLU(inplace=True))
        self.lstm = nn.LSTM(2, 2, 2, dropout=0.5)
        self.rrelu = nn.RReLU()
        self.own = Model(own_function)
        self.marked = nn.ReLU()
        self.marked._is_impure = True
        self.hooked = nn.ReLU()
        self.hooked.register_forward_hook(lambda *_: None)
        self.noisy_graph = torch.fx.symbolic_trace(lambda x: (x.add_(1), x)[1])
        self.quiet_graph = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))


Call = Callable[[Any, Any], Any]


def function(target: Any, *args: Any, **kwargs: Any) -> Call:
    return lambda graph, x: graph.call_function(target, (x, *args), kwargs)


def method(name: str, *args: Any, **kwargs: Any) -> Call:
    return lambda graph, x: graph.call_method(name, (x, *args), kwargs)


def module(name: str) -> Call:
    return lambda graph, x: graph.call_module(name, (x,))


aten = torch.ops.aten
KNOWN_TO_TORCH: dict[str, Call] = {
    "operator.setitem": function(operator.setitem, 0, 1),
    "torch.rand": function(torch.rand),
    "aten.add_.Tensor": function(aten.add_.Tensor, 1),
    "aten.bernoulli.default": function(aten.bernoulli.default),
    "a module that is marked": module("marked"),
}
UNKNOWN_TO_TORCH: dict[str, Call] = {
    "x.add_": method("add_", 1),
    "x.__iadd__": method("__iadd__", 1),
    "x.__setitem__": method("__setitem__", 0, 1),
    "x.backward": method("backward"),
    "x.bernoulli": method("bernoulli"),
    "a method that tensors lack": method("append", 1),
    "torch.relu_": function(torch.relu_),
    "F.relu, inplace by name": function(F.relu, inplace=True),
    "F.relu, inplace by position": function(F.relu, True),
    "torch.add, out=": function(torch.add, 1, out=[]),
    "operator.iadd": function(operator.iadd, 1),
    "setattr": function(setattr, "name", 1),
    "aten.add, out=": function(aten.add, 1, out=[]),
    "an operator that returns nothing": function(torch.ops.fx_kata.note.default),
    "F.dropout": function(F.dropout),
    "torch.dropout": function(torch.dropout, 0.5, True),
    "F.gumbel_softmax": function(F.gumbel_softmax),
    "F.batch_norm, training": function(F.batch_norm, 0, 1, training=True),
    "aten.batch_norm, training": function(aten.batch_norm.default, None, None, 0, 1, True),
    "a function of yours": function(own_function),
    "a module in training that counts": module("norm"),
    "a module in training that draws": module("dropout"),
    "recurrent layers with dropout": module("lstm"),
    "a module that always draws": module("rrelu"),
    "a module that works in place": module("inplace"),
    "a module with a hook": module("hooked"),
    "a module of yours": module("own"),
    "a graph module that writes": module("noisy_graph"),
}
HARMLESS: dict[str, Call] = {
    "x.relu": method("relu"),
    "x.__add__": method("__add__", 1),
    "torch.add": function(torch.add, 1),
    "operator.and_": function(operator.and_, 1),
    "operator.getitem": function(operator.getitem, 0),
    "getattr": function(getattr, "shape"),
    "math.sqrt": function(math.sqrt),
    "a class": function(slice),
    "F.relu": function(F.relu),
    "F.batch_norm": function(F.batch_norm, 0, 1),
    "aten.add.Tensor": function(aten.add.Tensor, 1),
    "linear": module("linear"),
    "a batch norm in eval mode": module("settled_norm"),
    "a dropout in eval mode": module("settled_dropout"),
    "a graph module that doesn't write": module("quiet_graph"),
}
CALLS = KNOWN_TO_TORCH | UNKNOWN_TO_TORCH | HARMLESS
