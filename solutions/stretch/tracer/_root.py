"""What to trace: the function behind a root, and what is to be said of it on the graph."""

from __future__ import annotations

from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.fx._lazy_graph_module import _LazyGraphModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch.fx import Graph

    from . import Tracer


def function_to_trace(root: nn.Module | Callable[..., Any], method: str) -> FunctionType:
    """Return the function that a trace of ``root`` calls.

    Raises:
        TypeError: ``root`` is neither a module nor a Python function.
        AttributeError: The module's class has no such method.
    """
    function = method_of(root, method) if isinstance(root, nn.Module) else root
    if not isinstance(function, FunctionType):
        raise TypeError(
            f"can trace a module or a Python function, not a {type(function).__name__}: "
            "wrap it in a function that calls it"
        )
    return function


def method_of(root: nn.Module, name: str) -> Any:
    """Return the plain function ``name`` of the module's class."""
    # A lazily compiled GraphModule has no forward worth tracing until it is compiled.
    _LazyGraphModule.force_recompile(root)  # type: ignore[arg-type]
    if not hasattr(type(root), name):
        raise AttributeError(
            f"{type(root).__name__} has no method {name!r} to trace: "
            "set `traced_func_name` to one that it has"
        )
    return getattr(type(root), name)


def describe(graph: Graph, function: FunctionType) -> None:
    """Note on the graph where its function was written; generated code refers to that."""
    code = function.__code__
    graph._co_fields = {
        field: getattr(code, field) for field in ("co_name", "co_filename", "co_firstlineno")
    }


@contextmanager
def forgetting_failure(tracer: Tracer) -> Iterator[None]:
    """Leave nothing of a failed trace on the tracer, but the code so far on some errors."""
    num_calls, scopes = tracer.num_calls.copy(), tracer.node_name_to_scope.copy()
    try:
        yield
    except BaseException as error:
        tracer.num_calls, tracer.node_name_to_scope = num_calls, scopes
        if (
            isinstance(error, RuntimeError)
            and error.args
            and "data-dependent" in str(error.args[0])
        ):
            code = tracer.graph.python_code(root_module="self", verbose=True)
            error.partial_fx_graph = code.src  # type: ignore[attr-defined]
        raise
