"""Import torchvision, also where its compiled operators cannot be loaded.

torchvision's wheel is compiled against one build of torch. Beside another one (a CPU-only torch,
say) its import fails with ``operator torchvision::nms does not exist``, because it registers shape
rules for operators that aren't declared. The models need none of these operators, so declaring
their schemas is enough. With matching wheels nothing is declared here.

>>> from kata.torchvision_compat import torchvision
>>> torchvision.models.resnet18.__name__
'resnet18'
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import torch

SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
# The operators that had to be declared here.
DECLARED: list[str] = []
# A library's declarations last as long as the object does.
LIBRARY = torch.library.Library("torchvision", "FRAGMENT")


def import_torchvision() -> ModuleType:
    """Import torchvision; where that fails for a missing operator, declare it and import again."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    # The next import would find what the failed one left.
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    for name, schema in SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            LIBRARY.define(schema)
            DECLARED.append(name)
    return importlib.import_module("torchvision")


torchvision = import_torchvision()
