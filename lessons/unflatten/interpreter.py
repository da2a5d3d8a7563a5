"""Step 5: the body of one call, a module with the graph of that call."""

from __future__ import annotations

from typing import Any

from .runner import GraphRunner


class InterpreterModule(GraphRunner):
    """A module that runs its graph with ``torch.fx.Interpreter``.

    Errors then point at the node that was run. Under ``torch.compile``, which can't look into an
    interpreter, it runs generated code.

    Args:
        graph: the graph; its placeholders are the module's parameters.
        ty: the class of the eager module it stands for.
        owner: the module whose attributes the graph reads, if it isn't this one. A later call of
            a module stands on the first one's module, and owns nothing.

    Where torch does this: the class of the same name in ``torch/export/unflatten.py``.

    Example:
        >>> import torch
        >>> from torch.fx import Graph
        >>> graph = Graph()
        >>> doubled = graph.call_function(torch.add, (x := graph.placeholder("x"), x))
        >>> output = graph.output(doubled)
        >>> double = InterpreterModule(graph)
        >>> double.finalize()
        >>> double(torch.tensor(2)), double(x=torch.tensor(3))
        (tensor(4), tensor(6))
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph, each placeholder given by position or by name.

        Raises:
            RuntimeError: the module isn't finalized.
            TypeError: a placeholder without a value or with two, or a value without a placeholder.
        """
        raise NotImplementedError(
            "unflatten: run the graph, each placeholder given by position or by name"
        )
