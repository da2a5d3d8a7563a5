"""Exported programs made trees of modules again."""

from __future__ import annotations

from functools import cache

import torch
from torch import nn
from torch.export import ExportedProgram

from benchmarks import models
from benchmarks.case import Call, Case, Family, sizes, timed
from benchmarks.equality import same_tree
from tests.zoo import classifier

TARGET = 0.50
LAYERS = Family("linear layers", 1.2)


@cache
def exported_classifier(name: str) -> ExportedProgram:
    """One of torchvision's models; its parameters have numbers, which are copied."""
    specimen = classifier(models.CLASSIFIERS[name], side=64)
    return torch.export.export(specimen.model, specimen.inputs)


@cache
def exported_encoder() -> ExportedProgram:
    """Six layers of a transformer."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    return torch.export.export(encoder, (torch.rand(2, 5, 32),))


@cache
def exported_mlp(layers: int) -> ExportedProgram:
    """A chain of linear layers."""
    return torch.export.export(models.mlp(layers), (torch.rand(1, 1),))


def unflatten(export):
    """``unflatten`` of one program, which it doesn't change."""

    def prepare(lesson) -> Call:
        program = export()
        return lambda: lesson.unflatten(program)

    return {"prepare": prepare, "same": same_tree}


CASES = [
    *(
        Case(
            name,
            target=TARGET,
            quick=name == "ResNet18",
            **unflatten(lambda name=name: exported_classifier(name)),
        )
        for name in ("ResNet18", "ResNet152")
    ),
    Case("TransformerEncoder", target=TARGET, **unflatten(exported_encoder)),
    *sizes(
        LAYERS,
        lambda size: unflatten(lambda: exported_mlp(size)) | {"quick": False, "slow": size >= 3000},
        {100: TARGET, 300: None, 1000: None, 3000: 0.06},
    ),
]

test_unflatten = timed
