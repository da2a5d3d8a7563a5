"""Run a graph node by node, and see every value on the way.

The nodes of a graph stand in an order in which they can run: each after the nodes whose values it
takes. An interpreter goes through them, looks up the arguments, does what the node says, and keeps
the value until its last use. The rest of this file is the same loop with something else to do at
each node: ``Transformer`` records it anew, ``ShapeProp`` writes down shapes, ``profile`` measures.
"""

from __future__ import annotations

import time
from collections import defaultdict
from functools import partialmethod
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.shape_prop import TensorMetadata
from torch.fx.proxy import GraphAppendingTracer
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable

    Args = tuple[Any, ...]
    Kwargs = dict[str, Any]

FORMATS = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)


class Interpreter:
    """Runs the graph of a module node by node; subclasses override what happens at a node.

    Args:
        module: A module with a graph, and with the submodules and attributes that nodes name.
        garbage_collect_values: Whether a value is freed after its last use.
        graph: The graph to run instead of ``module.graph``.

    In ``env`` are the values of the nodes that have run, by node.

    In torch: ``torch.fx.Interpreter``.

    >>> import torch
    >>> from torch import fx
    >>> module = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> Interpreter(module).run(torch.tensor([-1.0, 2.0]))
    tensor([1., 3.])
    """

    def __init__(  # given
        self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.graph: Graph = module.graph if graph is None else graph
        self.user_to_last_uses = last_uses(self.graph) if garbage_collect_values else {}
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

    def run_nodes(self) -> Any:
        """Execute the nodes in order up to the output, and return its value."""
        for node in self.graph.nodes:
            self.execute(node)
            if node.op == "output":
                return self.env[node]
        return None

    def execute(self, n: Node) -> None:
        """Run a node, put its value into ``env``, and take out those it was the last to use.

        An error goes on to the caller after ``explain`` has added to it.
        """
        try:
            self.env[n] = self.run_node(n)
        except Exception as error:
            self.explain(error, n)
            raise
        for value in self.user_to_last_uses.get(n, ()):
            del self.env[value]

    def explain(self, error: Exception, n: Node) -> None:  # given
        """Add a note to an error: which node was running, and how to see the values before it.

        In torch: the message itself is extended.
        """
        error.add_note(
            f"While executing {n.format_node()}\n"
            "With garbage_collect_values=False, env has the values of all nodes before"
        )

    def run_node(self, n: Node) -> Any:
        """Return the value of a node, from the method that is named like its opcode.

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
        method = getattr(self, n.op)
        return method(n.target, *self.fetch_args_kwargs_from_env(n))

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Args, Kwargs]:  # given
        """Return the arguments of a node, with values in the place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Return an argument of the node ``n``, with values in the place of nodes.

        The nodes may be inside lists, tuples, dicts and slices.
        """
        return map_aggregate(args, lambda a: self.env[a] if isinstance(a, Node) else a)

    def placeholder(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Return the next of the arguments of ``run``, or the default, which is ``args[0]``.

        Raises:
            RuntimeError: There is neither.
        """
        value = (*islice(self.args_iter, 1), *args)
        if not value:
            raise RuntimeError(f"no value for the input {target}: pass one to run")
        return value[0]

    def get_attr(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Return an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Call a method of the first argument with the other arguments."""
        receiver, *rest = args
        return getattr(receiver, target)(*rest, **kwargs)

    def call_module(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Call a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Return what the graph returns: the only argument."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:  # given
        """Return what has this dotted path in the module: a submodule, a parameter, anything."""
        return attrgetter(target)(self.module)


def last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """Return for each node the nodes whose values nobody needs after it.

    In torch: ``Interpreter.user_to_last_uses``.

    >>> import torch
    >>> from torch import fx
    >>> graph = fx.symbolic_trace(lambda x: torch.relu(x) + x).graph
    >>> [(node, last_uses(graph).get(node)) for node in graph.nodes]
    [(x, None), (relu, None), (add, [x, relu]), (output, [add])]
    """
    last_user = {value: node for node in graph.nodes for value in node.all_input_nodes}
    uses = defaultdict(list)
    for value, user in last_user.items():
        uses[user].append(value)
    return uses


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:  # given
    """Return a copy of nested tuples, lists, dicts and slices, with a function applied inside.

    In torch: ``torch.fx.node.map_aggregate``.

    >>> map_aggregate([1, {"two": (2,)}, slice(3)], str)
    ['1', {'two': ('2',)}, slice('None', '3', 'None')]
    """
    if isinstance(a, tuple):
        items = [map_aggregate(each, fn) for each in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return [map_aggregate(each, fn) for each in a]
    if isinstance(a, dict):
        return {key: map_aggregate(each, fn) for key, each in a.items()}
    if isinstance(a, slice):
        return slice(*map_aggregate((a.start, a.stop, a.step), fn))
    return fn(a)


class Transformer(Interpreter):
    """Runs a graph on proxies, so that it is recorded in a new graph; subclasses rewrite it.

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

    def __init__(self, module: GraphModule) -> None:  # given
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer: Any = GraphAppendingTracer(self.new_graph)

    def transform(self) -> GraphModule:
        """Record the graph anew, and return a module of the new graph."""
        result = self.tracer.create_arg(self.run_nodes())
        self.new_graph.output(result, self.graph.output_node().type)
        return GraphModule(self.module, self.new_graph)

    def record(self, op: str, target: Any, args: Args, kwargs: Kwargs) -> Any:
        """Record a node of the new graph, and return its proxy: the tracer creates both."""
        return self.tracer.create_proxy(op, target, args, kwargs)

    placeholder = partialmethod(record, "placeholder")
    get_attr = partialmethod(record, "get_attr")
    call_function = partialmethod(record, "call_function")
    call_module = partialmethod(record, "call_module")


class ShapeProp(Interpreter):
    """Runs a graph and writes into the nodes what shape and type their values have.

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

    def run_node(self, n: Node) -> Any:
        """Run a node, and describe the value in its ``meta``.

        ``meta["type"]`` is the type. If there are tensors in the value, ``meta["tensor_meta"]`` is
        the value with a ``TensorMetadata`` in the place of each.
        """
        value = super().run_node(n)
        n.meta["type"] = type(value)
        if tensors_in(value):
            n.meta["tensor_meta"] = map_aggregate(value, self.describe)
        return value

    def describe(self, a: Any) -> Any:  # given
        """Return the ``TensorMetadata`` of a tensor; anything else as it is."""
        if not isinstance(a, Tensor):
            return a
        memory_format = next((each for each in FORMATS if self.is_contiguous(a, each)), None)
        described = a.shape, a.dtype, a.requires_grad, a.stride(), memory_format, a.is_quantized
        return TensorMetadata(*described, qparams={})

    def is_contiguous(self, a: Tensor, memory_format: torch.memory_format) -> bool:  # given
        """Return whether the numbers of a tensor lie in memory without gaps, in this order."""
        return a.is_contiguous(memory_format=memory_format)


def tensors_in(values: Any) -> list[Tensor]:  # given
    """Return the tensors in nested containers."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


class Profiler(Interpreter):
    """Runs a graph and writes into the nodes what they cost."""

    def profile(self, *args: Any) -> str:  # given
        """Run the graph twice, first to warm up, and return a table of the second run."""
        self.run(*args)
        self.run(*args)
        return table(self.graph)

    def run_node(self, n: Node) -> Any:
        """Run a node, and write the time it takes and the memory in use into its ``meta``.

        ``meta["seconds"]`` is the time. ``meta["bytes"]`` is the memory of this value and of all
        values in ``env``: what has to be there while the node runs.
        """
        start = time.perf_counter()
        value = super().run_node(n)
        n.meta["seconds"] = time.perf_counter() - start
        n.meta["bytes"] = memory([value, *self.env.values()])
        return value


def memory(values: Any) -> int:  # given
    """Return how many bytes the tensors in nested containers take; views share them."""
    storages = [each.untyped_storage() for each in tensors_in(values)]
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


def table(graph: Graph) -> str:  # given
    """Return what the nodes cost as a table, a line a node."""
    lines = ["node                                    ms        MB"]
    for node in graph.nodes:
        seconds, size = node.meta["seconds"], node.meta["bytes"]
        lines.append(f"{node.name:32}{seconds * 1e3:10.3f}{size / 1e6:10.3f}")
    return "\n".join(lines)


def profile(module: Any, *args: Any) -> str:  # given
    """Return a table of the time and the memory of each node of a module.

    >>> import torch
    >>> from torch import fx
    >>> module = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> text = profile(module, torch.ones(250_000))
    >>> [(node.name, node.meta["bytes"]) for node in module.graph.nodes]
    [('x', 1000000), ('relu', 2000000), ('add', 2000000), ('output', 1000000)]
    """
    return Profiler(module).profile(*args)
