"""Unlike the core: options reach the tracer, tags survive a copy, and three more tracers.

- ``ModulePathTracer``, ``LowerReluTracer`` and ``TaggingTracer`` derive from the tracer of the
  stretch, and take its options. ``create_proxy`` names its parameters, because the tracer looks for
  one of them in the signature. The tag is also in ``node.meta``, which is copied with a graph.
- ``LowerTracer`` traces through modules of any types.
- ``SourceLineTracer`` records the line of your code that created a node.
- ``OutOfPlaceTracer`` refuses operations that change a tensor in place.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from torch import nn
from torch._ops import OpOverload
from torch.fx import Node, Proxy
from torch.fx.node import Target

from .. import custom_tracers as core
from .tracer import Tracer

__all__ = [
    "InPlaceError",
    "LowerReluTracer",
    "LowerTracer",
    "ModulePathTracer",
    "OutOfPlaceTracer",
    "SourceLine",
    "SourceLineTracer",
    "TaggingTracer",
]


class ModulePathTracer(core.ModulePathTracer, Tracer):
    """Record, for each node, the path of the module whose ``forward`` made it.

    It is the core's, except for the signature of ``create_proxy``.

    >>> tracer = ModulePathTracer(param_shapes_constant=True)
    >>> graph = tracer.trace(nn.Sequential(nn.ReLU()))
    >>> list(tracer.node_to_originating_module.values())
    ['', '0']
    """

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Create the proxy as ``Tracer`` does, and record the current path for its node.

        In torch: ``TracerBase.create_proxy``; the tracer passes ``proxy_factory_fn`` only if it
        finds a parameter of that name.
        """
        return super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)


class LowerReluTracer(core.LowerReluTracer, Tracer):
    """Trace through every ``nn.ReLU``; other modules are leaves if they are for ``Tracer``.

    >>> graph = LowerReluTracer().trace(nn.Sequential(nn.ReLU()))
    >>> [node.op for node in graph.nodes]
    ['placeholder', 'call_function', 'output']
    """


class LowerTracer(Tracer):
    """Trace through modules of the given types; others are leaves if they are for ``Tracer``.

    In torch: a subclass of ``torch.fx.Tracer``.

    Args:
        *types: The classes of modules to trace through, subclasses included.
        **options: What ``Tracer`` takes.

    >>> model = nn.Sequential(nn.GELU(), nn.Sigmoid())
    >>> for node in LowerTracer(nn.GELU).trace(model).nodes:
    ...     print(node.op, node.name)
    placeholder input_1
    call_function gelu
    call_module _1
    output output
    """

    def __init__(self, *types: type[nn.Module], **options: Any) -> None:
        super().__init__(**options)
        self.types = types

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Tell whether a call of ``m`` is one node: never if it is of the given types."""
        return not isinstance(m, self.types) and super().is_leaf_module(m, module_qualified_name)


class TaggingTracer(core.TaggingTracer, Tracer):
    """Put a tag on every node, as ``node.tag`` and as ``node.meta["tag"]``.

    A copy of a graph has a copy of ``meta``, and of no other attribute of a node.

    >>> from copy import deepcopy
    >>> graph = deepcopy(TaggingTracer("encoder").trace(lambda x: x + 1))
    >>> [node.meta["tag"] for node in graph.nodes]
    ['encoder', 'encoder', 'encoder']
    """

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """Create the node as the core does, and put the tag in ``meta``, too."""
        node = super().create_node(*args, **kwargs)
        node.meta["tag"] = self.tag
        return node


class SourceLine(NamedTuple):
    """A line of code: the file, the line's number, and the function it is in."""

    filename: str
    lineno: int
    function: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.lineno} in {self.function}"


class SourceLineTracer(Tracer):
    """Record, for each operation, the line of your code that created it.

    The line is the innermost one that the trace runs and that is neither in torch nor in this
    package. It is in ``node.meta["source_line"]`` as a ``SourceLine``. Nodes that no line of yours
    created have no entry: placeholders, the output, and what torch's own containers call.

    In torch: ``Tracer.record_stack_traces`` keeps the whole stack, as text.

    >>> from colorsys import rgb_to_yiq
    >>> operation = SourceLineTracer().trace(rgb_to_yiq).output_node().prev
    >>> print(operation.op, "from", operation.meta["source_line"].function)
    call_function from rgb_to_yiq
    """

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """Create the node as ``Tracer`` does, and record the line that created it."""
        node = super().create_node(*args, **kwargs)
        line = next(_source_lines(), None)
        if line is not None:
            node.meta["source_line"] = line
        return node


def _source_lines() -> Iterator[SourceLine]:
    """Yield the running lines that are neither in torch nor in this package, innermost first."""
    for frame in _frames_of_the_run():
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package not in ("torch", __name__.partition(".")[0]):
            code = frame.f_code
            yield SourceLine(code.co_filename, frame.f_lineno, code.co_name)


def _frames_of_the_run() -> Iterator[FrameType]:
    """Yield the frames that ``trace`` runs, innermost first, without what called ``trace``."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not Tracer.trace.__code__:
        yield frame
        frame = frame.f_back


class InPlaceError(RuntimeError):
    """An operation changes a tensor in place, and the tracer refuses such operations."""


class OutOfPlaceTracer(Tracer):
    """Refuse to record operations that change a tensor in place.

    These are: methods and functions whose name ends in one underscore (``add_``), augmented
    operators (``operator.iadd``, ``operator.setitem``), modules and functions with
    ``inplace=True``, calls with ``out=``, and operators whose schema says so.

    In torch: ``Tracer.check_mutable_operations``, which checks functions by their schemas, and
    doesn't check methods and modules.

    >>> try:
    ...     OutOfPlaceTracer().trace(lambda x: x.add(1).relu_())
    ... except InPlaceError as error:
    ...     print(error)
    node 'relu_' (call_method relu_) works in place: use the form that returns a new tensor
    """

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """Create the node as ``Tracer`` does, unless it works in place.

        Raises:
            InPlaceError: The operation works in place; the error names the node and its target.
        """
        node = super().create_node(*args, **kwargs)
        if _is_in_place(node, self):
            raise InPlaceError(
                f"node {node.name!r} ({node.op} {_name_of(node.target)}) works in place: "
                "use the form that returns a new tensor"
            )
        return node


def _is_in_place(node: Node, tracer: Tracer) -> bool:
    """Whether a node changes one of its arguments, or is a call of a module that does."""
    if node.op == "call_module":
        return bool(getattr(tracer.root.get_submodule(str(node.target)), "inplace", False))
    if node.op not in ("call_function", "call_method"):
        return False
    writes_to_argument = node.kwargs.get("inplace") or node.kwargs.get("out") is not None
    return bool(writes_to_argument) or _mutates(node.target)


def _mutates(target: Callable[..., Any] | str) -> bool:
    """Whether a function or method changes its argument, by its schema or by its name."""
    if isinstance(target, OpOverload):
        return target._schema.is_mutable
    name = _name_of(target)
    return target in _AUGMENTED or (name.endswith("_") and not name.endswith("__"))


def _name_of(target: Any) -> str:
    return target if isinstance(target, str) else target.__name__


# `iadd`, which has `__add__` beside it, and so on.
_AUGMENTED = {operator.setitem, operator.delitem} | {
    function
    for name, function in vars(operator).items()
    if name.startswith("i") and hasattr(operator, f"__{name[1:]}__")
}
