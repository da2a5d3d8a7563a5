"""torch's ``unflatten``. The steps of the lesson have no names of their own in torch."""

import functools
import warnings

import torch
from torch.export.unflatten import (
    FlatArgsAdapter,
    InterpreterModule,
    InterpreterModuleDispatcher,
    UnflattenedModule,
)

__all__ = [
    "FlatArgsAdapter",
    "InterpreterModule",
    "InterpreterModuleDispatcher",
    "UnflattenedModule",
    "unflatten",
]


@functools.wraps(torch.export.unflatten)
def unflatten(*args, **kwargs):
    """torch's, without the warnings that it raises about its own code."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`isinstance\\(treespec, LeafSpec", FutureWarning)
        warnings.filterwarnings("ignore", "Attempted to insert a get_attr Node", UserWarning)
        return torch.export.unflatten(*args, **kwargs)
