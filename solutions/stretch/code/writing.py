"""Unlike the core: whatever a graph holds is written so that Python reads what was meant.

Values of any type, operators in place, attributes, numbers with a sign, keywords that aren't names
of Python's, and nodes that share a name.
"""

from __future__ import annotations

import enum
import inspect
import keyword
import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import _pytree as fx_pytree
from torch.fx import graph as torch_fx
from torch.utils import _pytree as pytree

from ... import code as core
from ...code import PythonCode
from ..graph import Namespace
from .codegen import codegen_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...graph import Graph, Node

IN_PLACE = {
    getattr(operator, f"i{name.strip('_')}"): sign
    for name, sign in zip(core.NAMES.split(), core.SIGNS.split(), strict=True)
    if hasattr(operator, f"i{name.strip('_')}")
}
# The types of values that `repr` turns into an expression.
PLAIN = [int, float, bool, complex, str, bytes, range, type(None), type(...), torch.device]
PLAIN += [torch.dtype, torch.layout, torch.memory_format]
# The types of what is below `torch.ops`, though the module that it names is another.
OPERATOR_TYPES: tuple[Any, ...] = (torch._ops.OperatorBase, torch._ops.OpOverloadPacket)
PYTREES = {"fx_pytree": fx_pytree, "pytree": pytree}


def python_code(graph: Graph) -> PythonCode:
    """Return a function ``forward`` that does what a graph says, as its ``CodeGen`` wants it.

    In torch: ``Graph.python_code("self")``.
    """
    writer = CodeWriter(graph)
    return PythonCode(writer.source(), writer.globals)


class CodeWriter(core.CodeWriter):
    """The core's, for all that a graph may hold.

    Attributes:
        root_module: The name of the object that has the attributes and modules.

    >>> from torch.fx import Graph
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> node = graph.call_function(operator.pow, (-2, x))
    >>> CodeWriter(graph).expression(node)
    '(-2) ** x'
    """

    root_module = "self"

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.codegen = codegen_of(graph)
        self.globals |= PYTREES | dict(self.codegen.additional_globals())
        namespace = Namespace()  # a node of torch's may be called `None`, or like another node
        self.names = {id(node): namespace.create_name(node.name) for node in graph.nodes}
        parameters = {str(node.target) for node in graph.nodes if node.op == "placeholder"}
        self.node_names = {*self.names.values(), *parameters}  # a parameter `len` hides the builtin

    def source(self) -> str:
        """Return the text of the whole function, and the statements that go before it."""
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
        lines = [*super().lines()]
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
        """Return the core's, with brackets around a number where Python would read it otherwise.

        ``-2 ** x`` is ``-(2 ** x)``, and ``2.bit_length()`` isn't Python.
        """
        operands = map(self.argument, node.args)
        if node.target is getattr and len(node.args) == 2 and is_identifier(node.args[1]):
            return f"{next(operands)}.{node.args[1]}"
        if node.target in IN_PLACE:  # `name = ` is before it
            value, other = operands
            return f"{value};  {self.argument(node)} {IN_PLACE[node.target]}= {other}"
        text = super().expression(node)
        if node.op in ("get_attr", "call_module"):
            return text.replace("self", self.root_module, 1)  # only `getattr(` may be before it
        if node.op == "call_method" or node.target is operator.pow:
            first = next(operands)
            if first[0] in ("-0123456789" if node.op == "call_method" else "-"):
                return f"({first}){text.removeprefix(first)}"
        return text

    def argument(self, value: Any) -> str:
        if id(value) in self.names:
            return self.names[id(value)]
        if isinstance(value, slice):
            return f"slice({self.arguments((value.start, value.stop, value.step), {})})"
        if isinstance(value, dict):
            pairs = (f"{key!r}: {self.argument(each)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.reference(type(value))}({self.arguments(value, {})})"
        if isinstance(value, tuple | list) or type(value) in PLAIN:
            return super().argument(value)
        return self.reference(value)

    def reference(self, value: Any) -> str:
        if isinstance(value, enum.Enum) and value.name in type(value).__members__:
            return f"{self.reference(type(value))}.{value.name}"
        if isinstance(value, OPERATOR_TYPES):
            return f"{value.__module__}.{value.__name__}".replace("torch._ops.", "torch.ops.")
        return super().reference(value)

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        """Return the core's; keywords that aren't names of Python's are handed over in a dict."""
        named = {name: value for name, value in kwargs.items() if is_identifier(name)}
        others = {name: value for name, value in kwargs.items() if name not in named}
        text = super().arguments(args, named)
        return ", ".join(filter(None, [text, f"**{self.argument(others)}" if others else ""]))


class ReadableWriter(CodeWriter):
    """Writes what is known about values in the place of their annotations."""

    def __init__(self, graph: Graph, include_stride: bool, include_device: bool) -> None:
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
    """Return whether Python takes it as a name."""
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)
