"""Run a graph node by node, and see every value on the way.

The nodes of a graph are in an order in which they can run. An interpreter goes through them, looks
up the arguments, does what the node says, and keeps the value until its last use. The rest of this
file is the same loop with a different job at each node: ``Transformer`` records it in a new graph,
``ShapeProp`` writes down the shape of its value, and ``profile`` measures its time.
"""

from __future__ import annotations

from functools import partialmethod
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from given.code import keep_persistence
from given.interpreter import describe

from .code import last_uses
from .proxy import GraphAppendingTracer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .graph import Graph, Node

    Args = tuple[Any, ...]
    Kwargs = dict[str, Any]


class Interpreter:
    """Runs the graph of a module node by node; subclasses override what happens at a node.

    Args:
        module: A module with a graph, and with the submodules and attributes that nodes name.
        garbage_collect_values: Whether a value is freed after its last use.
        graph: The graph to run instead of ``module.graph``.

    Attributes:
        env: The values of the nodes that have run, by node.
        last_uses: The values that can be freed after each node, from the lesson ``code``; empty if
            values are kept.

    In torch: ``torch.fx.Interpreter``.
    """

    def __init__(  # given
        self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.graph: Any = module.graph if graph is None else graph
        self.last_uses = last_uses(self.graph) if garbage_collect_values else {}
        self.env: dict[Node, Any] = {}

    def run(self, *args: Any) -> Any:  # given
        """Run the graph with these values of its placeholders; return the value of its output.

        >>> from torch import fx
        >>> interpreter = Interpreter(fx.symbolic_trace(lambda x: x + 1), False)
        >>> interpreter.run(2)
        3
        >>> interpreter.env
        {x: 2, add: 3, output: 3}
        """
        self.env, self.args_iter = {}, iter(args)
        return self.run_nodes()

    def run_nodes(self) -> Any:  # step 3
        """Execute the nodes in order up to the output, and return its value."""
        raise NotImplementedError("interpreter: Interpreter.run_nodes")

    def execute(self, n: Node) -> None:  # steps 3, 4
        """Run a node, put its value into ``env``, and remove the inputs that no later node uses.

        If the node raises an error, pass it to ``explain`` and let the same error reach the caller:
        "shapes cannot be multiplied" helps only if you know where.

        >>> from torch import fx
        >>> interpreter = Interpreter(fx.symbolic_trace(lambda x: x + 1))
        >>> x, add, output = interpreter.graph.nodes
        >>> interpreter.env = {x: 2}
        >>> interpreter.execute(add)
        >>> interpreter.env
        {add: 3}
        """
        raise NotImplementedError("interpreter: Interpreter.execute")

    def explain(self, error: Exception, n: Node) -> None:  # given
        """Add a note to an error that names the node. In torch the message itself is extended."""
        error.add_note(f"While executing {n.format_node()}")

    def run_node(self, n: Node) -> Any:  # step 2
        """Return the value of a node, from the method that has the name of its opcode.

        A subclass that overrides ``call_function``, say, changes every call of a function; one that
        overrides this method sees every node.

        >>> from torch import fx
        >>> class Verbose(Interpreter):
        ...     def run_node(self, n):
        ...         value = super().run_node(n)
        ...         print(n.op, n.name, value)
        ...         return value
        >>> _ = Verbose(fx.symbolic_trace(lambda x: x.conjugate() * 2)).run(3)
        placeholder x 3
        call_method conjugate 3
        call_function mul 6
        output output 6
        """
        raise NotImplementedError("interpreter: Interpreter.run_node")

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Args, Kwargs]:  # step 2
        """Return the arguments of a node, with each node in them replaced by its value in ``env``.

        The nodes may be inside lists, tuples, dicts and slices, as in ``torch.cat([x, y])``.
        """
        raise NotImplementedError("interpreter: Interpreter.fetch_args_kwargs_from_env")

    def placeholder(self, target: str, args: Args, kwargs: Kwargs) -> Any:  # step 1
        """Return the next argument of ``run``; if there is none, the default, ``args[0]``.

        ``run`` keeps its arguments in the iterator ``args_iter``. ``None`` is an argument like any
        other. A ``StopIteration`` must not reach the caller of ``run``: a loop or ``map`` there
        would take it for its own end.

        Raises:
            RuntimeError: There is neither; the error names the input.
        """
        raise NotImplementedError("interpreter: Interpreter.placeholder")

    def get_attr(self, target: str, args: Args, kwargs: Kwargs) -> Any:  # step 1
        """Return an attribute of the module; ``target`` is its path, such as ``layer.weight``."""
        raise NotImplementedError("interpreter: Interpreter.get_attr")

    def call_function(
        self, target: Callable[..., Any], args: Args, kwargs: Kwargs
    ) -> Any:  # step 1
        """Call a function."""
        raise NotImplementedError("interpreter: Interpreter.call_function")

    def call_method(self, target: str, args: Args, kwargs: Kwargs) -> Any:  # step 1
        """Call a method of the first argument with the other arguments."""
        raise NotImplementedError("interpreter: Interpreter.call_method")

    def call_module(self, target: str, args: Args, kwargs: Kwargs) -> Any:  # step 1
        """Call a submodule; ``target`` is its path."""
        raise NotImplementedError("interpreter: Interpreter.call_module")

    def output(self, target: str, args: Args, kwargs: Kwargs) -> Any:  # step 1
        """Return the only argument, which is the result of the graph."""
        raise NotImplementedError("interpreter: Interpreter.output")

    def fetch_attr(self, target: str) -> Any:  # given
        """Return the object at a dotted path in the module, such as a submodule or a parameter."""
        return attrgetter(target)(self.module)


class Transformer(Interpreter):
    """Runs a graph on proxies, which records it in a new graph; subclasses rewrite it.

    In torch: ``torch.fx.Transformer``.

    >>> import torch
    >>> from torch import fx
    >>> class Softer(Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         if target is torch.relu:
    ...             return torch.nn.functional.softplus(*args) - 0.5
    ...         return super().call_function(target, args, kwargs)
    >>> module = Softer(fx.symbolic_trace(lambda x: torch.relu(x) * 2)).transform()
    >>> [node.name for node in module.graph.nodes]
    ['x', 'softplus', 'sub', 'mul', 'output']
    """

    def __init__(self, module: Any) -> None:  # given
        super().__init__(module)
        self.new_graph = type(self.graph)()
        self.tracer: Any = GraphAppendingTracer(self.new_graph)

    def transform(self) -> Any:  # step 5
        """Record the graph in ``new_graph``, and return a graph module of it.

        ``run_nodes`` doesn't care whether values are tensors or proxies. It returns a proxy, or a
        container of proxies; ``tracer.create_arg`` replaces them with their nodes. The result is of
        the same kind as the module that you transform, yours or torch's: ``graph_module_class`` of
        the lesson ``code`` knows which. Its buffers are persistent if they were before
        (``keep_persistence(result, module)``, given).
        """
        raise NotImplementedError("interpreter: Transformer.transform")

    def record(self, op: str, target: Any, args: Args, kwargs: Kwargs) -> Any:  # step 5
        """Record a node in the new graph and return its proxy; the tracer creates both.

        All opcodes below arrive here. ``call_method`` needs no recording: a method of a proxy
        records itself. In torch: each opcode has a method of its own.
        """
        raise NotImplementedError("interpreter: Transformer.record")

    placeholder = partialmethod(record, "placeholder")
    get_attr = partialmethod(record, "get_attr")
    call_function = partialmethod(record, "call_function")
    call_module = partialmethod(record, "call_module")


class ShapeProp(Interpreter):
    """Runs a graph and writes the shape and type of each value into its node.

    In torch: ``torch.fx.passes.shape_prop.ShapeProp``.

    >>> import torch
    >>> from torch import fx
    >>> module = fx.symbolic_trace(lambda x: x.sum(dim=0))
    >>> ShapeProp(module).propagate(torch.ones(2, 3))
    tensor([2., 2., 2.])
    >>> [node.meta["tensor_meta"].shape for node in module.graph.nodes]
    [torch.Size([2, 3]), torch.Size([3]), torch.Size([3])]
    """

    def propagate(self, *args: Any) -> Any:  # given
        """Run the graph with these values of its placeholders; return the value of its output."""
        return self.run(*args)

    def run_node(self, n: Node) -> Any:  # step 6
        """Run a node, and describe the value in its ``meta``.

        ``meta["type"]`` is the type. If the value contains tensors, ``meta["tensor_meta"]`` is the
        value with ``describe`` applied to each leaf, so a tuple of tensors has a tuple of
        descriptions; otherwise ``meta`` has no such key.
        """
        raise NotImplementedError("interpreter: ShapeProp.run_node")


class Profiler(Interpreter):
    """Runs a graph and writes into each node how long it took."""

    def run_node(self, n: Node) -> Any:  # step 7
        """Run a node, and write its time in seconds into ``meta["seconds"]``.

        A later run replaces the time of an earlier one.
        """
        raise NotImplementedError("interpreter: Profiler.run_node")


def profile(module: Any, *args: Any) -> str:  # given
    """Return a table of the milliseconds that each node of a module takes, in its second run.

    >>> import torch
    >>> from torch import fx
    >>> module = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> text = profile(module, torch.ones(250_000))
    >>> [line.split()[0] for line in text.splitlines()]
    ['x', 'relu', 'add', 'output']
    """
    for _ in range(2):
        Profiler(module).run(*args)
    return "\n".join(f"{n.name:32}{n.meta['seconds'] * 1e3:10.3f}" for n in module.graph.nodes)
