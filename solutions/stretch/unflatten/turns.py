"""Step 7: a module whose calls are done by others, in turn."""

from __future__ import annotations

from typing import Any

from torch import nn

from .interpreter import InterpreterModule


class InterpreterModuleDispatcher(nn.Module):
    """A module that is called several times in one run, and does something else each time.

    The calls go to ``call_modules`` in turn, and begin anew after the last one, or after an
    exception. Submodules, parameters and buffers are those of the first of them.

    Args:
        attrs: names of further attributes of the first module that this one has, too.
        call_modules: what to run, one module a call; at least one.

    Raises:
        ValueError: no modules were given.

    Where torch does this: the class of the same name in ``torch/export/unflatten.py``; there,
    the buffers become plain attributes and drop out of the ``state_dict``.

    Example:
        >>> import torch
        >>> from torch.fx import symbolic_trace
        >>> graphs = [symbolic_trace(each).graph for each in (torch.nn.ReLU(), torch.nn.Identity())]
        >>> modules = [InterpreterModule(graph) for graph in graphs]
        >>> for module in modules:
        ...     module.finalize()
        >>> by_turns = InterpreterModuleDispatcher(set(), modules)
        >>> [by_turns(torch.tensor(-1)).item() for call in range(3)]
        [0, -1, 0]
    """

    def __init__(self, attrs: set[str], call_modules: list[InterpreterModule]) -> None:
        super().__init__()
        if not call_modules:
            raise ValueError("InterpreterModuleDispatcher needs at least one module to call")
        first = call_modules[0]
        for name in _REGISTRIES:
            self.__dict__[name] = first.__dict__[name]
        for name in attrs - {*self._modules, *self._parameters, *self._buffers}:
            setattr(self, name, getattr(first, name))
        self._ty = first.type_name()
        self._call_modules = call_modules
        self._turn = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module whose turn it is."""
        turn, last = self._turn, len(self._call_modules) - 1
        self._turn = 0 if turn == last else turn + 1
        try:
            return self._call_modules[turn](*args, **kwargs)
        except Exception:
            self.reset()
            raise

    def reset(self) -> None:
        """Let the next call be the first."""
        self._turn = 0

    def call_modules(self) -> list[InterpreterModule]:  # given
        """The modules in the order of the calls; a module that does two calls is there twice."""
        return self._call_modules

    def type_name(self) -> str | None:  # given
        """The class of the eager module, as export wrote it down."""
        return self._ty

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> str:  # given
        """Return the source of all modules, and print it unless told not to."""
        options = (print_output, include_stride, include_device, colored)
        return "\n".join(module.print_readable(*options) for module in self._call_modules)


# What nn.Module keeps of the things it owns.
_REGISTRIES = ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules")
