"""Unlike the core: a graph may hold values of any type, and nodes that share a name.

In-place operators, assignments to elements and attributes are written as such.
"""

from __future__ import annotations

import enum
import inspect
import keyword
import operator
import typing
from types import GenericAlias
from typing import TYPE_CHECKING, Any, get_args, get_origin

import torch
from torch.fx import _pytree as fx_pytree
from torch.fx import graph as torch_fx
from torch.utils import _pytree as pytree

from ... import code as core
from ...code import PythonCode
from ..graph import Graph, Namespace
from .codegen import codegen_of

if TYPE_CHECKING:
    from ... import graph as core_graph
    from ...graph import Node

IN_PLACE = {
    getattr(operator, f"i{name.strip('_')}"): sign
    for name, sign in zip(core.NAMES.split(), core.SIGNS.split(), strict=True)
    if hasattr(operator, f"i{name.strip('_')}")
}
# The types of values that `repr` turns into an expression.
PLAIN = [int, float, bool, str, bytes, range, type(None), type(...), torch.device]
PLAIN += [torch.dtype, torch.layout, torch.memory_format]
# The types of operators, which are below `torch.ops` although `__module__` is another.
OPERATOR_TYPES: tuple[Any, ...] = (torch._ops.OperatorBase, torch._ops.OpOverloadPacket)
# What annotations with parts are called in `typing`.
GENERICS = {list: typing.List, dict: typing.Dict, tuple: typing.Tuple, typing.Union: typing.Union}  # noqa: UP006
# What a text may name besides the core's names.
NAMED = {"fx_pytree": fx_pytree, "pytree": pytree}


def python_code(graph: core_graph.Graph, root_module: str = "self") -> PythonCode:
    """Return a function ``forward`` that does what a graph says, as its ``CodeGen`` wants it.

    Args:
        graph: The graph.
        root_module: The name of the object that has the attributes and modules.

    In torch: ``Graph.python_code``.

    >>> graph = Graph()
    >>> result = graph.output(graph.get_attr("layer.weight"))
    >>> print(graph.python_code("root").src.strip())
    def forward(self):
        layer_weight = root.layer.weight
        return layer_weight
    """
    writer = CodeWriter(graph)
    writer.root_module = root_module
    return PythonCode(writer.source(), writer.globals)


# `graph` is an earlier lesson and doesn't know this one, so its class gets the method here.
setattr(Graph, python_code.__name__, python_code)


class CodeWriter(core.CodeWriter):
    """The core's, for all values that a graph may hold.

    Attributes:
        root_module: The name of the object that has the attributes and modules.
    """

    root_module = "self"

    def __init__(self, graph: core_graph.Graph) -> None:
        super().__init__(graph)
        self.codegen = codegen_of(graph)
        self.globals |= NAMED | dict(self.codegen.additional_globals())
        namespace = Namespace()  # a node may be called `None`, or have the name of another one
        self.names = {id(node): namespace.create_name(node.name) for node in graph.nodes}
        self.node_names |= {*self.names.values(), *self.containers()}

    def containers(self) -> list[str]:
        """Return the parameters that a ``PyTreeCodeGen`` flattens: none is a placeholder."""
        info = getattr(self.codegen, "pytree_info", None)
        return info.orig_args if info else []

    def source(self) -> str:
        """Return the text of the whole function, and the statements before it."""
        body = "\n    ".join(self.lines()) or "pass"
        return f"\n{self.wrapped()}\n\n{self.signature()}\n    {body}\n    "

    def wrapped(self) -> str:
        """Return statements that keep wrapped functions from being traced in this code."""
        wrapped = {
            self.reference(node.target): None
            for node in self.graph.nodes
            if node.op == "call_function" and node.meta.get("is_wrapped")
        }
        wrap = self.reference(torch.fx.wrap) if wrapped else ""
        return "\n".join(f'{wrap}("{name}")' for name in wrapped)

    def lines(self) -> list[str]:
        hidden = [each for each in self.containers() if each in self.globals]
        lines = [f'{each} = globals()["{each}"]' for each in hidden] + [*super().lines()]
        transform = self.codegen._body_transformer
        if transform is None:
            return lines
        return "".join(transform([f"{line}\n" for line in lines])).splitlines()

    def signature(self) -> str:
        outputs = (node for node in self.graph.nodes if node.op == "output")
        result = "".join(self.annotated("", node, " -> ") for node in outputs)
        return self.codegen.gen_fn_def(self.parameters(), result)

    def statement(self, node: Node) -> str:
        if node.op == "output":
            generate = self.codegen.generate_output
            takes_repr = "repr_fn" in inspect.signature(generate).parameters
            return generate(node.args[0], **{"repr_fn": self.argument} if takes_repr else {})
        if node.target is operator.setitem:
            owner, key, value = map(self.argument, node.args)
            return f"{owner}[{key}] = {value};  {self.annotated(self.argument(node), node)} = None"
        return super().statement(node)

    def expression(self, node: Node) -> str:
        """Return the core's, with brackets around a negative base: ``-2 ** x`` is ``-(2 ** x)``."""
        operands = map(self.argument, node.args)
        if node.target is getattr and len(node.args) == 2 and is_identifier(node.args[1]):
            return f"{next(operands)}.{node.args[1]}"
        if node.target in IN_PLACE:  # `name = ` precedes it
            value, other = operands
            return f"{value};  {self.argument(node)} {IN_PLACE[node.target]}= {other}"
        text = super().expression(node)
        if node.op in ("get_attr", "call_module"):
            return text.replace("self", self.root_module, 1)  # only `getattr(` can precede it
        if node.target is operator.pow and (base := next(operands)).startswith("-"):
            return f"({base}){text.removeprefix(base)}"
        return text

    def argument(self, value: Any) -> str:
        if id(value) in self.names:
            return self.names[id(value)]
        if isinstance(value, slice):
            return f"slice({self.arguments((value.start, value.stop, value.step), {})})"
        if isinstance(value, dict):
            pairs = (": ".join(map(self.argument, pair)) for pair in value.items())
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.reference(type(value))}({self.arguments(value, {})})"
        if isinstance(value, tuple | list) or type(value) in PLAIN:
            return super().argument(value)
        return self.reference(value)

    def reference(self, value: Any) -> str:
        if type(value) is complex:  # its `repr` loses the sign of a zero
            return f"{self.reference(complex)}({self.arguments((value.real, value.imag), {})})"
        if isinstance(value, enum.Enum) and value.name in type(value).__members__:
            return f"{self.reference(type(value))}.{value.name}"
        origin = get_origin(value)
        if origin in GENERICS and (parts := get_args(value)):  # the name alone would be `List`
            bare = origin if isinstance(value, GenericAlias) else GENERICS[origin]
            return f"{self.reference(bare)}[{','.join(map(self.argument, parts))}]"
        if isinstance(value, OPERATOR_TYPES):
            return f"{value.__module__}.{value.__name__}".replace("torch._ops.", "torch.ops.")
        return super().reference(value)


class ReadableWriter(CodeWriter):
    """Writes types and shapes from the nodes' metadata instead of annotations.

    Args:
        graph: The graph.
        include_stride: Whether to write strides as well.
        include_device: Whether to write devices as well.
    """

    def __init__(
        self, graph: core_graph.Graph, include_stride: bool = False, include_device: bool = False
    ) -> None:
        super().__init__(graph)
        self.include_stride, self.include_device = include_stride, include_device

    def annotated(self, name: str, node: Node, mark: str = " : ") -> str:
        known = (node.meta.get(key) for key in ("val", "tensor_meta", "example_value"))
        value: Any = next((each for each in known if each is not None), None)
        if node.op == "output" or not hasattr(value, "dtype"):
            return super().annotated(name, node, mark)
        abbreviation = torch_fx.dtype_abbrs[value.dtype]  # type: ignore[attr-defined]
        text = f"{abbreviation}{[*value.shape]}"
        if self.include_stride:
            text += str([*(value.stride() if callable(value.stride) else value.stride)])
        if self.include_device and hasattr(value, "device"):
            text += str(value.device)
        return f'{name}: "{text}"'


def is_identifier(name: Any) -> bool:
    """Return whether this can be a name in Python."""
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)
