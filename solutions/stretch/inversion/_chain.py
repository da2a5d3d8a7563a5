"""Record a model as a graph, and refuse it unless the graph is one chain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from torch import nn
from torch.fx import Graph, Node

from ..tracer import Tracer
from .inverses import INVERSES, NotInvertibleError


def record_chain(model: nn.Module | Callable[..., Any]) -> Chain:
    """Record a model, and check that one value goes from its input to its output.

    Args:
        model: the module or function.

    Returns:
        Its chain.

    Raises:
        NotInvertibleError: an input is unused, a value is used twice, or the output isn't a value.
    """
    functions = tuple(f for f in INVERSES if isinstance(f, FunctionType))
    tracer = _StepTracer(autowrap_functions=functions)
    graph = tracer.trace(_twin(model) if isinstance(model, nn.Module) else model)
    chain = Chain(tracer.root, graph, _nodes_that_depend_on_inputs(graph))
    chain.check()
    return chain


@dataclass(frozen=True)
class Chain:
    """A graph in which one value goes from the input to the output.

    Attributes:
        root: the module whose attributes and submodules the graph refers to.
        graph: the graph.
        values: the nodes that depend on an input; all others are constants.
    """

    root: nn.Module
    graph: Graph
    values: set[Node]

    @property
    def output(self) -> Node:
        return self.graph.output_node()

    @property
    def constants(self) -> list[Node]:
        nodes = list(self.graph.nodes)[:-1]  # without the output
        return [node for node in nodes if node not in self.values]

    def check(self) -> None:
        """Refuse outputs that aren't one value, unused inputs, and values used twice."""
        result = self.output.args[0]
        if not isinstance(result, Node):
            raise not_invertible(self.output, f"the output is {result!r}, and must be one value")
        for node in self.graph.nodes:
            if node.op == "placeholder" and not node.users:
                raise not_invertible(node, "the input is unused: the output doesn't tell its value")
            if node in self.values and len(node.users) > 1:
                users = " and ".join(repr(user.name) for user in node.users)
                raise not_invertible(node, f"its value is used twice, by {users}")
        if result not in self.values:
            raise not_invertible(self.output, "the output doesn't depend on any input")

    def steps_back(self) -> Iterator[Node]:
        """Yield the nodes between the output and the input, the last one first."""
        (node,) = self.output.all_input_nodes
        while node.op != "placeholder":
            yield node
            node = self.input_of(node)

    def input_of(self, node: Node) -> Node:
        """The one value that a step works on."""
        inputs = [argument for argument in node.all_input_nodes if argument in self.values]
        if len(inputs) > 1:
            names = " and ".join(repr(argument.name) for argument in inputs)
            raise not_invertible(
                node, f"it has two inputs, {names}, and one result can't tell both"
            )
        return inputs[0]


def not_invertible(node: Node, reason: str) -> NotInvertibleError:
    """Compose the error that names a node and the reason."""
    target = getattr(node.target, "__name__", node.target)
    return NotInvertibleError(f"cannot invert node {node.name!r} ({node.op} {target}): {reason}")


def knows_its_inverse(module: nn.Module) -> bool:
    return callable(getattr(module, "inverse", None))


class _StepTracer(Tracer):
    """Record as one step what is known to have an inverse, and look into what merely wraps one."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if isinstance(m, nn.Sigmoid | nn.Tanh | nn.Identity):
            return False
        return knows_its_inverse(m) or super().is_leaf_module(m, module_qualified_name)


def _twin(model: nn.Module) -> nn.Module:
    """A module with the same contents, for a trace may write constants onto its root."""
    twin: nn.Module = object.__new__(type(model))
    vars(twin).update(vars(model))
    return twin


def _nodes_that_depend_on_inputs(graph: Graph) -> set[Node]:
    values: set[Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder" or not values.isdisjoint(node.all_input_nodes):
            values.add(node)
    return values
