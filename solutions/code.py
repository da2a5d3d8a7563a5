"""A graph becomes Python again, and a module that runs.

A graph is a list of calls, and so is a function without loops and branches: each node becomes one
line. The care is in the text of a line. Names have to be legal and unique; a value has to become
an expression that gives that value again; and what the line calls has to be found when it runs, by
its path from ``torch`` or as a global variable of the generated function.
"""

from __future__ import annotations

import builtins
import keyword
import math
import operator
import re
from operator import attrgetter
from textwrap import indent
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.fx import Graph, Node


class PythonCode(NamedTuple):
    """The source of a function, and the objects that its global names stand for.

    In torch: ``torch.fx.graph.PythonCode``.
    """

    src: str
    globals: dict[str, Any]


def python_code(graph: Graph) -> PythonCode:
    """Return a function ``forward`` that does what a graph says.

    Args:
        graph: The graph; its ``get_attr`` and ``call_module`` nodes refer to ``self``.

    Each node is one line, ``name = …``. A placeholder is a parameter, the output the ``return``.
    After a line, values that no later line needs are set to ``None``. An empty body is ``pass``.

    In torch: ``Graph.python_code("self")``.

    >>> from torch.fx import symbolic_trace
    >>> print(python_code(symbolic_trace(lambda x, y: torch.relu(x) + 2 * y).graph).src)
    def forward(self, x, y):
        relu = torch.relu(x);  x = None
        mul = 2 * y;  y = None
        add = relu + mul;  relu = mul = None
        return add
    """
    writer = CodeWriter(graph)
    body = "\n    ".join(writer.lines()) or "pass"
    return PythonCode(f"{writer.signature()}\n    {body}", writer.globals)


def last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """Return for each node those whose values are not needed after it.

    These are the inputs that no later node takes, in their order, and the node itself where nobody
    takes it.

    In torch: ``Interpreter.user_to_last_uses``, without what nobody takes.

    >>> from torch.fx import symbolic_trace
    >>> graph = symbolic_trace(lambda x: torch.relu(x) + x).graph
    >>> {str(node): freed for node, freed in last_uses(graph).items() if freed}
    {'output': [add, output], 'add': [relu, x]}
    """
    needed: set[Node] = set()
    freed = {}
    for node in reversed(list(graph.nodes)):
        freed[node] = [each for each in (*node.all_input_nodes, node) if each not in needed]
        needed.update(freed[node])
    return freed


def attribute(base: str, path: Any) -> str:
    """Return an expression for what is at a path below another expression.

    Args:
        base: The expression.
        path: Names with dots between them. One that Python doesn't take after a dot, such as
            ``0`` in ``nn.Sequential``, is fetched by ``getattr``.

    In torch: ``torch.fx.graph._format_target``.

    >>> attribute("self", "layer1.0.conv1")
    'getattr(self.layer1, "0").conv1'
    """
    for name in path.split("."):
        is_legal = name.isidentifier() and not keyword.iskeyword(name)
        base = f"{base}.{name}" if is_legal else f'getattr({base}, "{name}")'
    return base


# How calls of the functions of `operator` are written.
SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%"}
SIGNS |= {"pow": "**", "matmul": "@", "lshift": "<<", "rshift": ">>", "and": "&", "or": "|"}
SIGNS |= {"xor": "^", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">="}
TEMPLATES = {name: f"{{}} {sign} {{}}" for name, sign in SIGNS.items()}
TEMPLATES |= {"getitem": "{}[{}]", "pos": "+{}", "neg": "-{}", "invert": "~{}"}
OPERATORS = {getattr(operator, f"__{name}__"): text for name, text in TEMPLATES.items()}

# The types of values that `repr` turns into an expression, and what these expressions name.
PLAIN = [int, float, bool, complex, str, bytes, range, type(None), type(...), torch.device]
PLAIN += [torch.dtype, torch.layout, torch.memory_format]
NAMED = {"torch": torch, "device": torch.device, "inf": math.inf, "nan": math.nan}
IN_SCOPE = SimpleNamespace(**vars(builtins), **NAMED)


def qualified_name(value: Any) -> str:  # given
    """Return module and name of a function or class, or those of an object's class.

    >>> [qualified_name(each) for each in (torch.cat, math.sqrt, torch.ops.aten.relu.default, len)]
    ['torch.cat', 'math.sqrt', 'torch.ops.aten.relu.default', 'len']
    """
    name = getattr(value, "__name__", type(value).__name__)
    module = getattr(value, "__module__", None) or "builtins"
    return f"{module}.{name}".removeprefix("builtins.").replace("torch._ops", "torch.ops")


def found_at(path: str) -> Any:  # given
    """Return what is at a path below ``IN_SCOPE``, or ``None``."""
    found: Any = IN_SCOPE
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


class CodeWriter:
    """Writes the lines of one generated function.

    Args:
        graph: The graph.

    Attributes:
        globals: The objects that the lines written so far refer to, by name.
        names: The name of each node, and of each object that got a global, by its ``id``.
        used_names: What no new name may be.
    """

    def __init__(self, graph: Graph) -> None:  # given
        self.graph = graph
        self.globals = dict(NAMED)
        self.used_names = {*keyword.kwlist, *vars(IN_SCOPE)}
        self.names = {id(node): self.unique_name(node.name) for node in graph.nodes}

    def unique_name(self, candidate: str) -> str:  # given
        """Return a name for a variable that is legal and not in ``used_names``, and add it there.

        Each character that can't be in a name becomes an underscore, and there is one more in
        front of a digit. A name that is used gets a number.

        >>> from torch.fx import Graph
        >>> writer = CodeWriter(Graph())
        >>> [writer.unique_name(each) for each in ("math.sqrt", "math_sqrt", "0", "len", "class")]
        ['math_sqrt', 'math_sqrt_1', '_0', 'len_1', 'class_1']
        """
        legal = name = re.sub(r"\W|^(?=\d)", "_", candidate)
        number = 0
        while name in self.used_names:
            number += 1
            name = f"{legal}_{number}"
        self.used_names.add(name)
        return name

    def reference(self, value: Any) -> str:
        """Return an expression for a function, a class, or any other object.

        It is the object's path (module and name) if that leads to it from ``IN_SCOPE``. Else a
        global is made for it, named after the path. An object has one global, however often it is
        asked for; two that are equal have two.

        >>> from torch.fx import Graph
        >>> writer = CodeWriter(Graph())
        >>> [writer.reference(each) for each in (len, torch.relu, math.sqrt)]
        ['len', 'torch.relu', 'math_sqrt']
        >>> writer.globals["math_sqrt"]
        <built-in function sqrt>
        """
        if id(value) not in self.names:
            path = qualified_name(value)
            if found_at(path) is value:
                return path
            self.names[id(value)] = self.unique_name(path)
            self.globals[self.names[id(value)]] = value
        return self.names[id(value)]

    def argument(self, value: Any) -> str:
        """Return an expression for what a node has as an argument.

        Args:
            value: A node, which is written as its name; a tuple, list, dict or slice of arguments;
                or anything else.

        A named tuple is a call of its class. What is no container is written by ``repr`` if its
        type is in ``PLAIN``; else it is a ``reference``.

        >>> from torch.fx import Graph
        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> CodeWriter(graph).argument([1, (x,), slice(x, 2), {"dtype": torch.int8}])
        "[1, (x,), slice(x, 2, None), {'dtype': torch.int8}]"
        """
        if isinstance(value, slice):
            return f"slice({self.arguments((value.start, value.stop, value.step))})"
        if isinstance(value, list):
            return f"[{self.arguments(value)}]"
        if isinstance(value, dict):
            pairs = (f"{key!r}: {self.argument(each)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, tuple):
            named = self.reference(type(value)) if hasattr(value, "_fields") else ""
            return f"{named}({self.arguments(value)}{',' if len(value) == 1 else ''})"
        return repr(value) if type(value) in PLAIN else self.reference(value)

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> str:  # given
        """Return what stands in the brackets of a call."""
        by_name = (f"{name} = {self.argument(value)}" for name, value in (kwargs or {}).items())
        return ", ".join([*map(self.argument, args), *by_name])

    def expression(self, node: Node) -> str:
        """Return an expression for the value of a node.

        Args:
            node: It is a ``call_function``, ``call_method``, ``call_module`` or ``get_attr``.

        A function in ``OPERATORS`` is written as an operator, and ``getattr`` with two arguments
        as an attribute.

        >>> from torch.fx import symbolic_trace
        >>> graph = symbolic_trace(lambda x: x.T[0].sum(dim=0)).graph
        >>> [CodeWriter(graph).expression(node) for node in graph.nodes if "call" in node.op]
        ['x.T', 'getattr_1[0]', 'getitem.sum(dim = 0)']
        """
        args, target = node.args, node.target
        if node.op == "get_attr":
            return attribute("self", target)
        if target in OPERATORS:
            return OPERATORS[target].format(*map(self.argument, args))
        if target is getattr and len(args) == 2:
            return attribute(self.argument(args[0]), args[1])
        if node.op == "call_function":
            function = self.reference(target)
        elif node.op == "call_module":
            function = attribute("self", target)
        else:
            function, args = attribute(self.argument(args[0]), target), args[1:]
        return f"{function}({self.arguments(args, node.kwargs)})"

    def statement(self, node: Node) -> str:
        """Return the statement of a node.

        A placeholder's target is its parameter, such as ``x`` or ``*args``. Its statement gives the
        parameter the name of the node, and is empty if that is its name.

        >>> from torch.fx import symbolic_trace
        >>> graph = symbolic_trace(lambda input: input * 2).graph
        >>> [CodeWriter(graph).statement(node) for node in graph.nodes]
        ['input_1 = input', 'mul = input_1 * 2', 'return mul']
        """
        name = self.reference(node)
        if node.op == "output":
            return f"return {self.argument(node.args[0])}"
        if node.op == "placeholder":
            parameter = str(node.target).strip("*")
            return f"{name} = {parameter}" if name != parameter else ""
        return f"{self.typed(name, node)} = {self.expression(node)}"

    def typed(self, name: str, node: Node) -> str:  # given
        """Return a name, with the annotation that its node carries."""
        return name if node.type is None else f"{name} : {self.argument(node.type)}"

    def lines(self) -> list[str]:
        """Return the body: the statements, each with what frees values after it.

        Nothing is freed after a ``return``, and parameters that nobody takes stay.

        >>> from torch.fx import symbolic_trace
        >>> graph = symbolic_trace(lambda x: torch.relu(x) + 1).graph
        >>> CodeWriter(graph).lines()
        ['relu = torch.relu(x);  x = None', 'add = relu + 1;  relu = None', 'return add']
        """
        lines, freed = [], last_uses(self.graph)
        for node in self.graph.nodes:
            line = self.statement(node)
            if freed[node] and node.op not in ("placeholder", "output"):
                line += f";  {' = '.join(map(self.reference, freed[node]))} = None"
            lines.append(line)
        return [*filter(None, lines)]

    def signature(self) -> str:
        """Return the first line: the parameters, with their annotations and default values.

        >>> from torch.fx import symbolic_trace
        >>> graph = symbolic_trace(lambda x, dim=-1, *more: x.sum((dim, more))).graph
        >>> CodeWriter(graph).signature()
        'def forward(self, x, dim = -1, *more):'
        """
        return f"def forward({', '.join(['self', *self.parameters()])}){self.result()}:"

    def parameters(self) -> list[str]:
        """Return the parameters besides ``self``: ``x``, ``x : int``, ``x : int = 2``, ``*x``."""
        return [
            self.typed(str(node.target), node)
            + "".join(f" = {self.argument(default)}" for default in node.args)
            for node in self.graph.nodes
            if node.op == "placeholder"
        ]

    def result(self) -> str:  # given
        """Return what stands between the brackets and the colon: `` -> int``, or nothing."""
        typed = [self.typed("", node) for node in self.graph.nodes if node.op == "output"]
        return "".join(typed).replace(" : ", " -> ", 1)


def compiled(generated: PythonCode) -> Callable[..., Any]:
    """Return the function ``forward`` whose source and globals are given.

    In torch: ``torch.fx.graph_module._exec_with_source``.

    >>> compiled(PythonCode("def forward(self, x): return root(x)", {"root": math.sqrt}))(None, 4)
    2.0
    """
    namespace = dict(generated.globals)
    # Without the imports from `__future__` of this file, which would make text of annotations.
    exec(compile(generated.src, "<generated>", "exec", dont_inherit=True), namespace)
    return namespace["forward"]


class GraphModule(nn.Module):
    """A module that runs a graph, by the code that is generated for it.

    Args:
        root: Where the targets of ``get_attr`` and ``call_module`` nodes are found: a module that
            has them at these paths, or a dict that has them under these names.
        graph: The graph.
        class_name: The name of the module's class.

    Attributes:
        code: The source of ``forward``.

    The module has what the graph names, at the same paths, and nothing else of ``root``. It is in
    training mode if ``root`` is a module that is.

    In torch: ``torch.fx.GraphModule``.

    >>> from torch.fx import symbolic_trace
    >>> traced = GraphModule({}, symbolic_trace(lambda x: x + 1).graph, class_name="Successor")
    >>> traced, traced(2)
    (Successor(), 3)
    """

    def __init__(
        self, root: nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        # Python looks for `forward` in the class, so each module has a class of its own.
        self.__class__ = type(class_name, (type(self),), {})
        if isinstance(root, nn.Module):
            self.training = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                target = node.target
                found = root[target] if isinstance(root, dict) else attrgetter(target)(root)
                install(self, target, found)
        self.graph = graph

    @property
    def graph(self) -> Graph:  # given
        """The graph. Whoever edits it calls ``recompile``; a new one is compiled at once."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:  # given
        self._graph = graph
        self.recompile()

    def recompile(self) -> PythonCode:
        """Generate the code from the graph as it is now, and return it.

        Afterwards ``code`` is its source, and the module's ``forward`` does what it says.
        """
        generated = python_code(self.graph)
        self.code = generated.src
        type(self).forward = compiled(generated)
        return generated

    def print_readable(self, print_output: bool = True) -> str:  # given
        """Print the code inside its class, and return the text.

        >>> from torch.fx import symbolic_trace
        >>> text = GraphModule({}, symbolic_trace(lambda x: x + 1).graph).print_readable()
        class GraphModule(torch.nn.Module):
            def forward(self, x):
                add = x + 1;  x = None
                return add
        """
        text = f"class {type(self).__name__}(torch.nn.Module):\n{indent(self.code, '    ')}"
        if print_output:
            print(text)
        return text


def install(module: nn.Module, target: str, value: Any) -> None:
    """Set what is at a path below a module, and create the modules on the way there.

    Args:
        module: The module.
        target: Names with dots between them.
        value: A parameter, a buffer or another tensor, which becomes a buffer, a module, or
            anything else. Nothing happens if it is there already.

    In torch: ``torch.fx.graph_module._copy_attr``.

    >>> module = nn.Module()
    >>> install(module, "block.scale", torch.ones(2))
    >>> dict(module.named_buffers())
    {'block.scale': tensor([1., 1.])}
    """
    *path, name = target.split(".")
    for each in path:
        if not hasattr(module, each):
            module.add_module(each, nn.Module())
        module = getattr(module, each)
    if getattr(module, name, None) is value:
        return
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)
