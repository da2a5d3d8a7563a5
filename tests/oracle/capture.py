"""``make_fx`` and ``torch.export`` under the lesson's names; its steps aren't torch's."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from tests.suite.programs import export, specs_are_copied

aten = torch.ops.aten
NORM = aten.native_batch_norm.default


def capture(model, args, kwargs=None, *, table=None):
    """Return what ``make_fx`` records of a model, as a function of its state and leaves."""
    state = {}
    if isinstance(model, nn.Module):
        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    leaves, structure = tree_flatten((args, kwargs or {}))

    def flat(*values):
        given = dict(zip(state, values, strict=False))
        args, kwargs = tree_unflatten(values[len(state) :], structure)
        if isinstance(model, nn.Module):
            return torch.func.functional_call(model, given, args, kwargs)
        return model(*args, **kwargs)

    values = (*state.values(), *leaves)
    rules = {NORM: NORM.decompose, **dict(table or {})}
    captured = recorded(flat, values, rules)
    if any(
        getattr(node.target, "_schema", NORM._schema).is_mutable for node in captured.graph.nodes
    ):
        without_writes = torch.func.functionalize(flat, remove="mutations")
        captured = recorded(without_writes, values, rules)
    captured.graph.eliminate_dead_code()
    captured.recompile()
    return captured


def recorded(function, values, table):
    """Return what ``make_fx`` records on fake tensors."""
    return make_fx(
        function, tracing_mode="fake", decomposition_table=table, _allow_non_fake_inputs=True
    )(*values)


def program(model, args, kwargs=None, *, table=None):
    """Return what ``torch.export`` makes of a model, with the operators of the table broken up."""
    with specs_are_copied():
        return export(model, *args, kwargs=kwargs).run_decompositions(dict(table or {}))
