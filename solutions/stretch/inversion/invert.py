"""Walk a graph backwards, and put each step's inverse into a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.fx import Graph, GraphModule

from ._chain import record_chain
from ._undo import Undoing


def invert(model: nn.Module | Callable[..., Any]) -> GraphModule:
    """Return the module that gives, for what ``model`` returns, what ``model`` was given.

    Each step of the model must be one of these:

    - a function with a registered inverse, also spelled as a method or an operator;
    - ``+``, ``-``, ``*`` or ``/`` of the value and a constant: a number, a parameter, a buffer, or
      what is computed from those. A factor must be finite and not zero;
    - a module with a method ``inverse``.

    The result computes what undoes the steps, the last one first. It is right where the model can
    be undone: ``sin`` takes many values to one, and its inverse finds the one between -π/2 and π/2.
    A constant must not enlarge the value by broadcasting. Parameters are shared with the model.

    torch has no function for this; its documentation has an example that knows functions of one
    argument.

    Args:
        model: a module or function of one input. It isn't changed.

    Returns:
        A module whose placeholder has the name of the model's output.

    Raises:
        NotInvertibleError: the graph isn't a chain of such steps; the error names the node.

    >>> import torch
    >>> print(invert(lambda x: torch.exp(torch.tan(x)) * 2).code.strip())
    def forward(self, output):
        truediv = output / 2;  output = None
        log = torch.log(truediv);  truediv = None
        arctan = torch.arctan(log);  log = None
        return arctan
    """
    chain = record_chain(model)
    undoing = Undoing(chain, Graph())
    value = undoing.graph.placeholder(chain.output.name)
    undoing.copy_constants()
    for step in chain.steps_back():
        value = undoing.undo(step, value)
    undoing.graph.output(value)
    return GraphModule(undoing.attributes, undoing.graph)
