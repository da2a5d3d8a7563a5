"""A graph becomes Python again, and a module that runs.

A graph is a list of calls, and so is a function without loops and branches: each node becomes one
line. A node already has a legal and unique name. Two things are left to write: each argument, as an
expression for its value, and the callee, as a path from ``self`` or ``torch`` or as a global
variable of the generated function.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from given.code import keep_persistence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .graph import Graph, Node


class PythonCode(NamedTuple):
    """The source of a function, and the objects that its global names refer to.

    In torch: ``torch.fx.graph.PythonCode``.
    """

    src: str
    globals: dict[str, Any]


def python_code(graph: Graph) -> PythonCode:  # step 4
    """Return a function ``forward`` that does what a graph says.

    Each node is one line, ``name = …``, indented by four spaces. A placeholder is a parameter, and
    the output is the ``return``. After each line, values that no later line needs become ``None``.

    In torch: ``Graph.python_code("self")``.

    >>> from torch.fx import symbolic_trace
    >>> print(python_code(symbolic_trace(lambda x, y: torch.relu(x) + 2 * y).graph).src)
    def forward(self, x, y):
        relu = torch.relu(x);  x = None
        mul = 2 * y;  y = None
        add = relu + mul;  relu = mul = None
        return add
    """
    raise NotImplementedError("code: python_code")


def last_uses(graph: Graph) -> dict[Node, list[Node]]:  # step 3
    """Return, for each node, the nodes whose values aren't needed after it.

    These are its inputs that no later node uses, in order, and then the node itself if no node
    uses it.

    In torch: ``Interpreter.user_to_last_uses``, without the nodes that have no users.

    >>> from torch.fx import symbolic_trace
    >>> graph = symbolic_trace(lambda x: torch.relu(x) + x).graph
    >>> {str(node): freed for node, freed in last_uses(graph).items() if freed}
    {'output': [add, output], 'add': [relu, x]}
    """
    raise NotImplementedError("code: last_uses")


def attribute(base: str, path: Any) -> str:  # step 1
    """Return an expression for the attribute at a path below another expression.

    Args:
        base: The expression.
        path: Names joined by dots. A name that isn't an identifier, such as ``0`` in
            ``nn.Sequential``, is read with ``getattr``.

    In torch: ``torch.fx.graph._format_target``.

    >>> attribute("self", "layer1.0.conv1")
    'getattr(self.layer1, "0").conv1'
    """
    raise NotImplementedError("code: attribute")


# How calls of the functions of `operator` are written.
NAMES = "add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor eq ne lt le gt ge"
SIGNS = "+   -   *   /       //       %   **  @      <<     >>     &    |   ^   == != <  <= >  >="
OPERATORS = {
    getattr(operator, name): f"{{}} {sign} {{}}"
    for name, sign in zip(NAMES.split(), SIGNS.split(), strict=True)
}
OPERATORS |= {operator.neg: "-{}", operator.pos: "+{}", operator.invert: "~{}"}
OPERATORS |= {operator.getitem: "{}[{}]"}

# The names that may occur in the text of an argument or of a path.
NAMED = {"torch": torch, "device": torch.device, "inf": math.inf, "nan": math.nan}
NAMED |= {"slice": slice, "range": range, "getattr": getattr}


class CodeWriter:
    """Writes the lines of one generated function.

    Args:
        graph: The graph.

    Attributes:
        globals: The objects that the lines written so far refer to, by name.
        node_names: The function's local variables: the names of the nodes, and the parameters.
    """

    def __init__(self, graph: Graph) -> None:  # given
        self.graph = graph
        self.globals = dict(NAMED)
        inputs = [str(node.target) for node in graph.nodes if node.op == "placeholder"]
        self.node_names = {each.strip("*") for each in inputs} | {node.name for node in graph.nodes}

    def reference(self, value: Any) -> str:  # step 1
        """Return an expression for a function, a class, or another object.

        The code can write ``torch.relu``, but it never imported ``math``. So if the object's
        ``__module__`` is torch or a module inside it (in ``sys.modules``), and the object is found
        there under its ``__name__``, the expression is ``module.name``. Any other object becomes a
        global, which is entered in ``globals``.

        A global is called ``module.name``, without ``builtins`` and with underscores for
        illegal characters. Append underscores until no node and no other object has that name. An
        object without a ``__module__`` counts as one of ``builtins``, and one without a
        ``__name__`` has that of its type. Each object has only one global.

        >>> from torch.fx import Graph
        >>> writer = CodeWriter(Graph())
        >>> [writer.reference(each) for each in (torch.relu, math.sqrt, len)]
        ['torch.relu', 'math_sqrt', 'len']
        >>> writer.globals["math_sqrt"]
        <built-in function sqrt>
        """
        raise NotImplementedError("code: CodeWriter.reference")

    def argument(self, value: Any) -> str:  # step 2
        """Return an expression for an argument of a node.

        Args:
            value: A node, whose ``repr`` is its name; or anything else that a node can hold.

        Evaluated with ``globals``, it is the value again. Callables, tensors (as a parameter's
        default) and members of an enumeration have no spelling and need a ``reference``, also
        inside lists, tuples and named tuples. Everything else, dicts and slices included, has a
        ``repr`` that is right. A ``torch.Size`` may become a tuple.

        >>> from torch.fx import Graph
        >>> x = Graph().placeholder("x")
        >>> CodeWriter(x.graph).argument([1, (x,), slice(x, 2), {"dtype": torch.int8}, torch.add])
        "[1, (x,), slice(x, 2, None), {'dtype': torch.int8}, torch.add]"
        >>> CodeWriter(x.graph).argument(torch.ones(2))
        'torch_Tensor'
        """
        raise NotImplementedError("code: CodeWriter.argument")

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:  # given
        """Return the text between the brackets of a call."""
        by_name = (f"{name} = {self.argument(value)}" for name, value in kwargs.items())
        return ", ".join([*map(self.argument, args), *by_name])

    def expression(self, node: Node) -> str:  # step 4
        """Return an expression for the value of a node.

        Args:
            node: A ``call_function``, ``call_method``, ``call_module`` or ``get_attr`` node.

        A function in ``OPERATORS`` is written as an operator.

        >>> from torch.fx import symbolic_trace
        >>> graph = symbolic_trace(lambda x: torch.add(x[0], 1).sum(dim=0)).graph
        >>> [CodeWriter(graph).expression(node) for node in graph.nodes if "call" in node.op]
        ['x[0]', 'torch.add(getitem, 1)', 'add.sum(dim = 0)']
        """
        raise NotImplementedError("code: CodeWriter.expression")

    def statement(self, node: Node) -> str:  # step 4
        """Return the statement of a node: ``name = …``, or the ``return`` of the output.

        ``annotated`` adds the annotation to the name, if the node has one: ``x : int = …``.

        A placeholder's target is its parameter, such as ``x`` or ``*args``. Usually the node has
        the same name, and the statement is empty. But for a parameter called ``input``, which is a
        builtin, the node is ``input_1``: assign one to the other. A parameter that is also in
        ``self.globals``, such as ``inf``, would hide what later lines mean by that name, so the
        same line gives the name its global value back.

        >>> from torch.fx import symbolic_trace
        >>> graph = symbolic_trace(lambda input, inf: input * inf).graph
        >>> for node in graph.nodes:
        ...     print(CodeWriter(graph).statement(node))
        input_1 = input
        inf_1 = inf;  inf = globals()["inf"]
        mul = input_1 * inf_1
        return mul
        """
        raise NotImplementedError("code: CodeWriter.statement")

    def annotated(self, name: str, node: Node, mark: str = " : ") -> str:  # given
        """Return a name, with the annotation that its node carries."""
        return name if node.type is None else f"{name}{mark}{self.argument(node.type)}"

    def lines(self) -> Iterable[str]:  # steps 4, 5
        """Yield the lines of the body: each statement, with the code that frees values after it.

        Nothing is freed by a placeholder, so unused parameters are kept, and after a ``return``.
        """
        raise NotImplementedError("code: CodeWriter.lines")

    def signature(self) -> str:  # step 4
        """Return the first line: the parameters, and after ``->`` the annotation of the output.

        >>> from torch.fx import symbolic_trace
        >>> graph = symbolic_trace(lambda x, dim=-1, *more: x.sum((dim, more))).graph
        >>> CodeWriter(graph).signature()
        'def forward(self, x, dim = -1, *more):'
        """
        raise NotImplementedError("code: CodeWriter.signature")

    def parameters(self) -> list[str]:  # step 4
        """Return the parameters besides ``self``: ``x``, ``x : int``, ``x : int = 2``, ``*x``."""
        raise NotImplementedError("code: CodeWriter.parameters")


def compiled(generated: PythonCode) -> Callable[..., Any]:  # step 6
    """Return the function ``forward`` with this source and these globals.

    In torch: ``torch.fx.graph_module._exec_with_source``.

    >>> compiled(PythonCode("def forward(self, x): return root(x)", {"root": math.sqrt}))(None, 4)
    2.0
    """
    raise NotImplementedError("code: compiled")


class GraphModule(nn.Module):
    """A module that runs a graph through the code generated from it.

    Args:
        root: A module that has the targets of ``get_attr`` and ``call_module`` nodes; or a dict
            from these targets, which are paths, to the objects.
        graph: The graph.
        class_name: The name of the module's class.

    Attributes:
        graph: The graph. Call ``recompile`` after editing it; another graph is compiled when you
            assign it.
        code: The source of ``forward``.
        meta: A dict for further information about the module.

    The module has the objects that the graph names, at the same paths. They aren't copied, and the
    module has nothing else from ``root``. A buffer that ``root`` doesn't save isn't saved by this
    module either: if ``root`` is a module, call ``keep_persistence(self, root)`` at the end. This
    belongs to the stretch, because torch before 2.14 saves such buffers.
    ``forward`` belongs to a class, because that is where Python, ``nn.Module`` and tracers look for
    it. Two modules have two different ones, so each module has its own class, a subclass called
    ``class_name``.

    In torch: ``torch.fx.GraphModule``.
    """

    def __init__(
        self, root: nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:  # step 6
        raise NotImplementedError("code: GraphModule.__init__")

    @property
    def graph(self) -> Graph:  # given
        """The graph that the module runs."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:  # given
        """Keep a graph, set its ``owning_module`` to this module, and compile it.

        >>> from torch.fx import symbolic_trace
        >>> module = GraphModule({}, symbolic_trace(lambda x: x + 1).graph)
        >>> module.graph = symbolic_trace(lambda x: x - 1).graph
        >>> module(2)
        1
        """
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    def recompile(self) -> PythonCode:  # step 6
        """Generate the code from the graph as it is now, and return it.

        Afterwards ``code`` is its source, and the module's ``forward`` runs it.
        """
        raise NotImplementedError("code: GraphModule.recompile")

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:  # step 6
        """Return a module with a copy of everything in this one, for ``copy.deepcopy``.

        The copy has its own graph, and its own class with the same bases. If both had one class,
        they would share its ``forward``: after you edit and recompile the copy, the original would
        run the copy's graph.

        ``memo`` has the copies made so far, by the ``id`` of the original. Pass it to
        ``copy.deepcopy`` for whatever is inside the module.

        >>> from copy import deepcopy
        >>> from torch.fx import symbolic_trace
        >>> module = GraphModule({}, symbolic_trace(lambda x: x + 1).graph)
        >>> twin = deepcopy(module)
        >>> twin.graph.output_node().args = (0,)
        >>> _ = twin.recompile()
        >>> module(2), twin(2)
        (3, 0)
        """
        raise NotImplementedError("code: GraphModule.__deepcopy__")


def graph_module_class(module: nn.Module) -> Any:  # given
    """Return the ``GraphModule`` class that a module was made from: yours or torch's.

    Each graph module has its own class; this is its nearest base called ``GraphModule``. Transforms
    construct their results with it, so they work with either kind.

    >>> import torch.fx
    >>> graph_module_class(torch.fx.symbolic_trace(lambda x: abs(x)))
    <class 'torch.fx.graph_module.GraphModule'>
    """
    bases = type(module).__mro__[1:]
    return next(each for each in bases if each.__name__ == "GraphModule")


def install(module: nn.Module, target: str, value: Any) -> None:  # step 6
    """Put a value at a path inside a module, and create missing modules along the way.

    Args:
        module: The module.
        target: Names joined by dots.
        value: A parameter, another tensor (which becomes a buffer), a module, or anything else. If
            this very object is already there, nothing happens; any other object there is replaced,
            which takes a ``delattr``: ``register_buffer`` refuses a name that exists.

    In torch: ``torch.fx.graph_module._copy_attr``.

    >>> module = nn.Module()
    >>> install(module, "block.scale", torch.ones(2))
    >>> dict(module.named_buffers())
    {'block.scale': tensor([1., 1.])}
    """
    raise NotImplementedError("code: install")
