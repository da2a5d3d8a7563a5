"""Unlike the core: a graph has methods that generate its code.

``graph`` is the earlier lesson and doesn't know this one, so they are added to its class here.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch.fx import graph as torch_fx

from ..graph import Graph
from .codegen import CodeGen
from .writing import CodeWriter, ReadableWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Transform = Callable[[list[str]], list[str]]

__all__ = ["Graph"]


def python_code(
    self: Graph,
    root_module: str,
    *,
    verbose: bool = False,
    include_stride: bool = False,
    include_device: bool = False,
) -> torch_fx.PythonCode:
    """Return a function ``forward`` that does what the graph says.

    Args:
        self: The graph.
        root_module: The name of the object that has the attributes and modules; usually ``"self"``.
        verbose: Whether shapes from the nodes' metadata are written beside the names.
        include_stride: Whether strides are written as well.
        include_device: Whether devices are.

    In torch: ``Graph.python_code``.

    >>> graph = Graph()
    >>> result = graph.output(graph.get_attr("layer.weight"))
    >>> print(graph.python_code("root").src.strip())
    def forward(self):
        layer_weight = root.layer.weight
        return layer_weight
    """
    writer = ReadableWriter(self, include_stride, include_device) if verbose else CodeWriter(self)
    writer.root_module = root_module
    return torch_fx.PythonCode(writer.source(), writer.globals, None)


def on_generate_code(
    self: Graph, make_transformer: Callable[[Transform | None], Transform]
) -> AbstractContextManager[None]:
    """Transform the lines of the body: from this call on, or until a ``with`` block ends.

    Args:
        self: The graph.
        make_transformer: Gets the transformer that is there already, or ``None``. Returns the new
            one, which gets the lines and returns those to use instead.

    In torch: ``Graph.on_generate_code``.
    """
    if self._codegen is None:
        self.set_codegen(CodeGen())
    codegen, before = self._codegen, self._codegen._body_transformer
    codegen._body_transformer = make_transformer(before)

    @contextmanager
    def restoring() -> Iterator[None]:
        try:
            yield
        finally:
            codegen._body_transformer = before

    return restoring()


for _method in (python_code, on_generate_code):
    setattr(Graph, _method.__name__, _method)
