"""Step 3: settle what each call returns."""

from __future__ import annotations

from .calls import ModuleCall


def settle_outputs(root: ModuleCall) -> None:
    """Decide for each call which of the values made in it are needed after it.

    A call returns the values, made by its own nodes or returned by the calls inside it, that a
    node after the call's last one uses, in the order in which they were made. One value travels
    bare, several as a list. A value that only the call itself uses stays inside. A preserved
    signature counts as a use, even if the module ignores the argument, or its caller the result.

    Args:
        root: the outline. ``outputs`` of every call below the root are filled in; the root
            returns what the flat graph's ``output`` node returns.

    Where torch does this: ``_ModuleFrame.finalize_outputs`` in ``torch/export/unflatten.py``.

    Example:
        >>> import torch
        >>> from .outlines import outline
        >>> program = torch.export.export(torch.nn.Sequential(torch.nn.ReLU()), (torch.ones(1),))
        >>> root = outline(program.graph)
        >>> settle_outputs(root)
        >>> root.calls[0].outputs
        [relu]
    """
    raise NotImplementedError(
        "unflatten: decide for each call which of the values made in it are needed after it"
    )
