"""Import torchvision, also where its compiled operators cannot be loaded.

torchvision's wheel is compiled against one build of torch. Beside another one (a CPU-only torch,
say) its extension does not load, and its import then fails with ``operator torchvision::nms does
not exist``, because it registers shape rules for operators that nobody has declared. The models
need none of these operators, so declaring their schemas is enough. With matching wheels the
extension has declared them, and nothing is patched.

>>> from kata.torchvision_compat import torchvision
>>> torchvision.models.resnet18.__name__
'resnet18'
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

import torch

SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def import_torchvision() -> ModuleType:
    """Import torchvision; where that fails for a missing operator, declare it and import again.

    Returns:
        The ``torchvision`` package.

    Raises:
        ImportError: torchvision isn't installed.
        RuntimeError: its import fails for another reason than a missing operator.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        missing = missing_operators()
        if not missing or "torchvision::" not in str(error):
            raise
    forget_partial_import()
    declare(missing)
    return importlib.import_module("torchvision")


def missing_operators() -> list[str]:
    """The operators torchvision's import relies on and nobody has declared."""
    return [name for name in SCHEMAS if not hasattr(torch.ops.torchvision, name)]


def declare(names: list[str]) -> None:
    """Declare the schemas of ``names`` in the ``torchvision`` namespace, without any kernel."""
    for name in names:
        _LIBRARY.define(SCHEMAS[name])
        DECLARED.append(name)


def forget_partial_import() -> None:
    """Drop what a failed import left in ``sys.modules``, so that the next one starts afresh."""
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]


# What had to be declared here: nothing beside matching wheels.
DECLARED: list[str] = []
# A library's declarations last as long as the object does.
_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")

torchvision = import_torchvision()
