"""torch's ``create_arg``."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx.node import Argument


class CreateArg(torch.fx.Tracer):
    """torch's ``Tracer``, whose ``create_arg`` may also be asked outside a trace.

    ``Tracer.trace`` collects the tensors that hang on modules before it starts; so does this, for
    the root it finds.
    """

    tensor_attrs: dict[Any, str] = {}
    of_torch = torch.fx.Tracer.create_arg

    def create_arg(self, a: Any) -> Argument:
        if not self.tensor_attrs:
            self.tensor_attrs = {
                value: f"{path}.{name}".lstrip(".")
                for path, module in self.root.named_modules()
                for name, value in vars(module).items()
                if isinstance(value, torch.Tensor)
            }
        return self.of_torch(a)
