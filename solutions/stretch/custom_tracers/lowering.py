"""Look inside modules that are recorded as one call."""

from __future__ import annotations

from typing import Any

import torch

from ..tracer import Tracer


class LowerTracer(Tracer):
    """Trace through modules of the given types, and through others as always.

    A leaf module is recorded as one ``call_module`` node. Modules of ``torch.nn`` are leaves unless
    a tracer says otherwise. This one does: it records what the ``forward`` of these modules does.

    In torch: a subclass of ``torch.fx.Tracer``.

    Args:
        *types: the classes of modules to look into; their subclasses count too.
        **options: what ``Tracer`` takes.

    >>> model = torch.nn.Sequential(torch.nn.GELU(), torch.nn.Sigmoid())
    >>> for node in LowerTracer(torch.nn.GELU).trace(model).nodes:
    ...     print(node.op, node.name)
    placeholder input_1
    call_function gelu
    call_module _1
    output output
    """

    def __init__(self, *types: type[torch.nn.Module], **options: Any) -> None:
        super().__init__(**options)
        self.types = types

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        """Decide whether ``m`` is recorded as one call: never if it is of the given types.

        Args:
            m: the module that is called.
            module_qualified_name: its path.

        Returns:
            Whether it is a leaf.
        """
        return not isinstance(m, self.types) and super().is_leaf_module(m, module_qualified_name)


class LowerReluTracer(LowerTracer):
    """Trace through every ``nn.ReLU``, and through other modules as always.

    In torch: a subclass of ``torch.fx.Tracer``.

    Args:
        **options: what ``Tracer`` takes.

    >>> for node in LowerReluTracer().trace(torch.nn.Sequential(torch.nn.ReLU())).nodes:
    ...     print(node.op, node.name, dict(node.kwargs))
    placeholder input_1 {}
    call_function relu {'inplace': False}
    output output {}
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(torch.nn.ReLU, **options)
