"""Unlike the core: whatever a graph holds, and modules that can be copied, stored and edited.

- Whatever is inside a container, and objects of any type, can be arguments. Numbers and names that
  need care are written so that Python reads what was meant.
- Attributes, operators in place, and ``x[0] = y`` are written as such. Annotations may be of any
  kind, and nodes may share a name.
- A graph's ``CodeGen`` may write the first line, the ``return`` and the body: pytrees are taken
  apart and built again.
- A root may be a dict. Graph modules are copied and pickled with their graph: nothing is traced
  again. Submodules can be added and deleted. ``LazyGraphModule`` generates code when it is asked
  for.
- Python's debugger and tracebacks show generated lines, and an error says which one failed.
"""

from __future__ import annotations

import copy
import enum
import inspect
import keyword
import linecache
import operator
import weakref
from dataclasses import dataclass
from itertools import accumulate, count
from operator import attrgetter
from textwrap import indent
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.fx import _pytree as fx_pytree
from torch.fx import graph as torch_fx
from torch.fx.node import map_aggregate
from torch.utils import _pytree as pytree

from .. import code as core
from ..code import PythonCode, attribute, install, last_uses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch.fx import Graph, Node

__all__ = [
    "CodeGen",
    "CodeWriter",
    "GraphModule",
    "LazyGraphModule",
    "PyTreeCodeGen",
    "PythonCode",
    "attribute",
    "compiled",
    "install",
    "last_uses",
    "python_code",
]

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
    body = "\n    ".join(writer.lines()) or "pass"
    source = f"\n{writer.wrapped()}\n\n{writer.signature()}\n    {body}\n    "
    return PythonCode(source, writer.globals)


class CodeGen:
    """Writes what is around the statements; a subclass may change it.

    In torch: ``torch.fx.graph.CodeGen``.
    """

    _body_transformer: Callable[[list[str]], list[str]] | None = None

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the first line, or lines.

        Args:
            free_vars: The parameters, with their annotations and defaults.
            maybe_return_annotation: ``" -> int"``, or nothing.
        """
        parameters = free_vars if free_vars[:1] == ["self"] else ["self", *free_vars]
        return f"def forward({', '.join(parameters)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr) -> str:
        """Return the last statement."""
        return "return " + repr_fn(output_args)

    def process_inputs(self, *args: Any) -> Any:
        """Return what the placeholders receive when the module receives ``args``."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return what the module returns when the output node has ``outputs``."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return what the lines of this class name."""
        return []


class PyTreeCodeGen(CodeGen):
    """Takes containers apart for the placeholders, and builds them from the outputs.

    Args:
        pytree_info: ``orig_args``, ``in_spec`` and ``out_spec``: the names of the parameters, and
            the structure of arguments and result; a spec of ``None`` leaves the result as it is.

    In torch: ``torch.fx.graph._PyTreeCodeGen``.
    """

    def __init__(self, pytree_info: Any) -> None:
        self.pytree_info = pytree_info

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        names, spec = self.pytree_info.orig_args, self.pytree_info.in_spec
        first = super().gen_fn_def(names, maybe_return_annotation)
        annotated = [each for each in free_vars if ":" in each]
        # a target of several names has no annotations: these are statements of their own
        annotations = f"\n    {''.join(f'{each}; ' for each in annotated)}\n" if annotated else ""
        leaves = ", ".join(
            each.split(":")[0] for each in [*names[: names[:1] == ["self"]], *free_vars]
        )
        if not free_vars:
            return first
        inputs = f"[{', '.join(names)}]"
        if has_keywords(spec):
            number = spec.child(0).num_children
            pairs = zip(spec.child(1).context, names[number:], strict=True)
            by_name = ", ".join(f"{key!r}:{name}" for key, name in pairs)
            inputs = f"([{', '.join(names[:number])}], {{{by_name}}})"
        flattened = f"fx_pytree.tree_flatten_spec({inputs}, self._in_spec)"
        return f"{first}{annotations}\n    {leaves}, = {flattened}"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr) -> str:
        if not self.pytree_info.out_spec:
            return super().generate_output(output_args, repr_fn=repr_fn)
        leaves = repr_fn(output_args)
        return f"return pytree.tree_unflatten({leaves}, self._out_spec)"

    def process_inputs(self, *args: Any) -> Any:
        return pytree.arg_tree_leaves(*args)

    def process_outputs(self, outputs: Any) -> Any:
        spec = self.pytree_info.out_spec
        if spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, list | tuple) else [outputs]
        return pytree.tree_unflatten(leaves, spec)


def has_keywords(spec: pytree.TreeSpec) -> bool:
    """Return whether a spec is that of ``(args, kwargs)``."""
    types = [spec.child(each).type for each in range(spec.num_children)]
    return spec.type is tuple and types == [tuple, dict]


def codegen_of(graph: Graph) -> Any:
    """Return what writes the first line and the last one: a graph may have one of its own.

    torch's own two are the same as ours.
    """
    own = getattr(graph, "_codegen", None)
    if type(own) is torch_fx._PyTreeCodeGen and own.pytree_info is not None:
        ours: Any = PyTreeCodeGen(own.pytree_info)
    elif own is None or type(own) is torch_fx.CodeGen:
        ours = CodeGen()
    else:
        return own
    ours._body_transformer = getattr(own, "_body_transformer", None)
    return ours


class CodeWriter(core.CodeWriter):
    """The core's, for all that a graph may hold.

    >>> from torch.fx import Graph
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> node = graph.call_function(operator.pow, (-2, x))
    >>> CodeWriter(graph).expression(node)
    '(-2) ** x'
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.codegen = codegen_of(graph)
        self.globals |= PYTREES | dict(self.codegen.additional_globals())
        self.names: dict[int, str] = {}  # of nodes, by identity
        self.node_names = set()
        for node in graph.nodes:
            name = node.name
            while name in self.node_names:
                name += "_"
            self.node_names.add(name)
            self.names[id(node)] = name

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

        ``-2 ** x`` is ``-(2 ** x)``, and ``2.bit_length()`` is no Python.
        """
        operands = map(self.argument, node.args)
        if node.target is getattr and len(node.args) == 2 and is_identifier(node.args[1]):
            return f"{next(operands)}.{node.args[1]}"
        if node.target in IN_PLACE:  # `name = ` is in front of it
            value, other = operands
            return f"{value};  {self.argument(node)} {IN_PLACE[node.target]}= {other}"
        text = super().expression(node)
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
        """Return the core's; keywords that are no names of Python's are handed over in a dict."""
        named = {name: value for name, value in kwargs.items() if is_identifier(name)}
        others = {name: value for name, value in kwargs.items() if name not in named}
        text = super().arguments(args, named)
        return ", ".join(filter(None, [text, f"**{self.argument(others)}" if others else ""]))


def is_identifier(name: Any) -> bool:
    """Return whether Python takes it as a name."""
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)


NUMBERS = count()


def compiled(generated: PythonCode) -> Callable[..., Any]:
    """Return the function, whose source Python finds as long as the function is there."""
    filename = f"<generated code {next(NUMBERS)}>"
    namespace = dict(generated.globals)
    exec(compile(generated.src, filename, "exec", dont_inherit=True), namespace)
    function = namespace.pop("forward")
    linecache.cache[filename] = len(generated.src), None, generated.src.splitlines(True), filename
    weakref.finalize(function, linecache.cache.pop, filename, None)
    return function


class GraphModule(core.GraphModule):
    """The core's module, for people who copy it, store it, change it and look for its errors.

    In torch: ``torch.fx.GraphModule``.

    >>> import pickle
    >>> from torch.fx import symbolic_trace
    >>> module = GraphModule({}, symbolic_trace(lambda x: x + 1).graph)
    >>> pickle.loads(pickle.dumps(module))(2)
    3
    """

    # `torch.jit.script` would compile it.
    __jit_unused_properties__ = ("graph",)

    def __init__(
        self, root: nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        targets = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        root = module_of(root, targets)
        super().__init__(root, graph, class_name)
        self.training = root.training
        self.meta: dict[str, Any] = {}
        for target in targets:
            path, _, name = target.rpartition(".")
            owner = attrgetter(path)(root) if path else root
            if name in getattr(owner, "_non_persistent_buffers_set", ()):
                self.get_submodule(path)._non_persistent_buffers_set.add(name)

    @property
    def graph(self) -> Graph:
        """The graph; a new one is compiled at once."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        is_first = not hasattr(self, "_graph")  # that one is compiled by `__init__`
        self._graph = graph
        if not is_first:
            self.recompile()

    def recompile(self) -> PythonCode:
        """Generate the code again, and that of graph modules inside."""
        self._graph.owning_module = self  # type: ignore[assignment]  # it says torch's class
        info = getattr(codegen_of(self._graph), "pytree_info", None)
        if info is not None:
            self._in_spec, self._out_spec = info.in_spec, info.out_spec
        generated = python_code(self._graph)
        self.code = generated.src
        type(self).forward = compiled(generated)  # type: ignore[assignment]
        for module in self.children():
            if isinstance(module, GraphModule):
                module.recompile()
        return generated

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module; an error of one of its lines says which."""
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            *_, (frame, number) = walk_tb(error.__traceback__)
            if frame.f_code is type(self).forward.__code__:
                error.add_note(f"line {number} of the generated code:\n{self.excerpt(number)}")
            raise

    def excerpt(self, number: int) -> str:
        """Return a line of the code between its neighbours, with a mark."""
        numbered = enumerate(self.code.splitlines(), start=1)
        near = [(each, line) for each, line in numbered if abs(each - number) <= 1]
        return "\n".join(f"{'>' if each == number else ' '} {line}" for each, line in near)

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.code}\n# print_readable() shows shapes as well"

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
    ) -> str:
        """Print the code inside its class, with shapes, and that of graph modules inside.

        Args:
            print_output: Whether to print it.
            include_stride: Whether strides are shown, too.
            include_device: Whether devices are.

        Returns:
            The text. What a node's ``meta`` has under ``val``, ``tensor_meta`` or
            ``example_value`` says the shape.
        """
        text = self.readable(self._get_name(), include_stride, include_device)
        if print_output:
            print(text)
        return text

    def readable(self, name: str, *details: bool) -> str:
        """Return what ``print_readable`` prints, with a name for the class."""
        writer = ReadableWriter(self.graph, *details)
        body = "\n    ".join(writer.lines()) or "pass"
        parts = [f"{writer.signature()}\n    {body}"]
        for child, module in self.named_children():
            if isinstance(module, GraphModule):
                parts.append(module.readable(child, *details))
        body = indent("\n\n".join(parts), "    ")
        return f"class {name}(torch.nn.Module):\n{body}"

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Put a module at a path, and empty ones on the way; return whether that is possible."""
        *path, name = target.split(".")
        parent: nn.Module = self
        for part in path:
            if not hasattr(parent, part):
                parent.add_module(part, nn.Module())
            parent = getattr(parent, part)
            if not isinstance(parent, nn.Module):
                return False
        parent.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a path; return whether there was one."""
        path, _, name = target.rpartition(".")
        try:
            self.get_submodule(target)
        except AttributeError:
            return False
        if name:
            delattr(self.get_submodule(path), name)
        return bool(name)

    def delete_all_unused_submodules(self) -> None:
        """Delete each module that the graph names neither itself nor through what is in it.

        A module that a node names is used, and so is all that is inside it.
        """
        modules = dict(self.named_modules(remove_duplicate=False))
        used = {""}
        for node in self.graph.nodes:
            if node.op in ("get_attr", "call_module"):
                used.update(accumulate(node.target.split("."), "{}.{}".format))
                used.update(each for each in modules if each.startswith(f"{node.target}."))
        for target in modules:
            if target not in used:
                self.delete_submodule(target)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        """Copy everything, the graph as well, which is not traced again."""
        twin = memo[id(self)] = blank(type(self).__bases__[0], type(self).__name__)
        for name, value in vars(self).items():
            vars(twin)[name] = copy.deepcopy(value, memo)
        twin.recompile()
        return twin

    def __copy__(self) -> GraphModule:
        """Return another module with the same graph and the same state."""
        twin = blank(type(self).__bases__[0], type(self).__name__)
        for name, value in vars(self).items():
            vars(twin)[name] = copy.copy(value) if isinstance(value, dict) else value
        twin.recompile()
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        """Store the state and the nodes."""
        state = {
            name: value for name, value in vars(self).items() if name not in ("_graph", "code")
        }
        kind = type(self).__bases__[0], type(self).__name__
        return restored, (*kind, state, stored(self.graph))


class LazyGraphModule(GraphModule):
    """A graph module that generates its code when that is asked for, or the module is called.

    In torch: ``torch.fx._lazy_graph_module._LazyGraphModule``.

    >>> from torch.fx import symbolic_trace
    >>> module = LazyGraphModule({}, symbolic_trace(lambda x: x + 1).graph)
    >>> "forward" in vars(type(module)), module(2), "forward" in vars(type(module))
    (False, 3, True)
    """

    def recompile(self) -> None:  # type: ignore[override]
        """Forget the code; it is generated when it is needed."""
        if "forward" in vars(type(self)):
            del type(self).forward

    def real_recompile(self) -> None:
        """Generate the code, unless it is there."""
        if "forward" not in vars(type(self)):
            super().recompile()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Generate the code, and run it."""
        self.real_recompile()
        return type(self).forward(self, *args, **kwargs)

    @property
    def code(self) -> str:
        """The source of ``forward``."""
        self.real_recompile()
        return vars(self)["code"]

    @code.setter
    def code(self, code: str) -> None:
        vars(self)["code"] = code


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


def module_of(root: Any, targets: list[str]) -> nn.Module:
    """Return a root as a module: a dict becomes one, what is less deep first.

    Raises:
        RuntimeError: It is something else, or a dict that lacks a target.
    """
    if isinstance(root, nn.Module):
        return root
    if not isinstance(root, dict):
        name = type(root).__name__
        raise RuntimeError(f"a root is a module or a dict, not a {name}")  # noqa: TRY004  # torch's
    missing = [target for target in targets if target not in root]
    if missing:
        raise RuntimeError(f"the graph needs {missing[0]!r}, but it was not provided in `root`")
    module = nn.Module()
    for target in sorted(targets, key=lambda target: target.count(".")):
        install(module, target, root[target])
    return module


def blank(base: type[GraphModule], name: str) -> GraphModule:
    """Return a module of a class of its own, which has no state yet."""
    own: type[GraphModule] = type(name, (base,), {})
    return own.__new__(own)


@dataclass(frozen=True)
class Position:
    """Stands for a node in a stored graph: the node of that number."""

    number: int


@dataclass(frozen=True)
class OperatorName:
    """Stands for an operator in a stored graph: what is at that path below ``torch.ops``."""

    path: str


class StoredGraph(NamedTuple):
    """A graph without references between its nodes, so that many of them are no deep nest."""

    graph_type: type[Graph]
    attributes: dict[str, Any]
    nodes: list[tuple[Any, ...]]
    metas: list[dict[str, Any]]


def stored(graph: Graph) -> StoredGraph:
    """Return a graph in a form that can be pickled."""
    numbers = {id(node): number for number, node in enumerate(graph.nodes)}

    def portable(value: Any) -> Any:
        if id(value) in numbers:
            return Position(numbers[id(value)])
        return OperatorName(str(value)) if isinstance(value, torch._ops.OpOverload) else value

    nodes = [
        (
            node.op,
            portable(node.target),
            map_aggregate((node.args, node.kwargs), portable),
            node.name,
            node.type,
        )
        for node in graph.nodes
    ]
    kept = ("is_wrapped", "stack_trace")
    metas = [{key: node.meta[key] for key in kept if key in node.meta} for node in graph.nodes]
    attributes = {"_codegen": graph._codegen} if hasattr(graph, "_codegen") else {}
    return StoredGraph(type(graph), attributes, nodes, metas)


def loaded(stored: StoredGraph) -> Graph:
    """Return the graph of a stored one."""
    graph = stored.graph_type()
    vars(graph).update(stored.attributes)
    nodes: list[Node] = []

    def original(value: Any) -> Any:
        if isinstance(value, Position):
            return nodes[value.number]
        return attrgetter(value.path)(torch.ops) if isinstance(value, OperatorName) else value

    for (op, target, inputs, *rest), meta in zip(stored.nodes, stored.metas, strict=True):
        args, kwargs = map_aggregate(inputs, original)
        nodes.append(graph.create_node(op, original(target), args, kwargs, *rest))
        nodes[-1].meta.update(meta)
    return graph


def restored(
    base: type[GraphModule], name: str, state: dict[str, Any], graph: StoredGraph
) -> GraphModule:
    """Return a module that was pickled."""
    module = blank(base, name)
    vars(module).update(state, _graph=loaded(graph))
    module.recompile()
    return module
