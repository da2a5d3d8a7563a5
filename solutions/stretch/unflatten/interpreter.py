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
        self._check_finalized()
        return self._run(self._bind(args, kwargs))

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        names = self.arg_names
        by_name = names[len(args) :]
        faults = {
            "missing": [name for name in by_name if name not in kwargs],
            "unknown or given twice": [name for name in kwargs if name not in by_name],
            "too many by position": max(0, len(args) - len(names)),
        }
        told = ", ".join(f"{fault} {what}" for fault, what in faults.items() if what)
        if told:
            raise TypeError(f"{self._described()} takes the arguments {names}: {told}")
        return [*args, *(kwargs[name] for name in by_name)]
