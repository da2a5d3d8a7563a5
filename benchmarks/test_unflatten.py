"""Exported programs made trees of modules again."""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import nn
from torch.export import ExportedProgram

from benchmarks.case import Call, Case, sized, timed
from tests.suite import equal
from tests.zoo import classifier

TARGET = 0.50


@cache
def exported_classifier(name: str) -> ExportedProgram:
    """One of torchvision's models; its parameters have numbers, which are copied."""
    specimen = classifier(name.lower(), side=64)
    return torch.export.export(specimen.model, specimen.inputs)


@cache
def exported_encoder() -> ExportedProgram:
    """Six layers of a transformer."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    return torch.export.export(encoder, (torch.rand(2, 5, 32),))


@cache
def exported_mlp(layers: int) -> ExportedProgram:
    """Linear layers of one neuron each: many modules, and nothing to compute."""
    mlp = nn.Sequential(*(nn.Linear(1, 1) for _ in range(layers)))
    return torch.export.export(mlp, (torch.rand(1, 1),))


def unflatten(lesson, program: ExportedProgram) -> Call:
    """``unflatten`` of one program, which it doesn't change."""
    return partial(lesson.unflatten, program)


def same_tree(ours: nn.Module, theirs: nn.Module) -> None:
    """The same tree of modules with the same operations, and the same state.

    Only the core of a body is compared: torch keeps the names of values that it passed through
    calls before it took them out again, and bodies of later calls that ours shares.
    """
    equal(operations(ours), operations(theirs), cause="other modules, or other operations")
    equal(list(ours.state_dict()), list(theirs.state_dict()), cause="other state")


def operations(tree: nn.Module) -> dict[str, list[tuple]]:
    """Return what each body does; a container that is never called has no graph, or an empty one.

    Inputs count by their place: their names come from the first or the last of several calls.
    """
    graphs = {
        name: getattr(module, "graph", None)
        for name, module in tree.named_modules()
        if "@" not in name
    }
    return {
        name: [(n.op, n.op == "placeholder" or n.target) for n in (graph.nodes if graph else ())]
        for name, graph in graphs.items()
    }


CASES = [
    *(
        Case(name, unflatten, partial(exported_classifier, name), same_tree, TARGET)
        for name in ("ResNet18", "ResNet152")
    ),
    Case("TransformerEncoder", unflatten, exported_encoder, same_tree, TARGET),
    *sized("linear layers", unflatten, exported_mlp, same_tree, (100, 300, 1000, 3000), 0.06),
]

test_unflatten = timed
