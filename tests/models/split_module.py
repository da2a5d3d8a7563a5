"""Models and random graphs to cut, and how two splits are compared."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves

from tests.suite import equal, holds, rows, same_graph
from tests.suite.chance import several
from tests.zoo import Model

# --- models


class TwoViews(nn.Module):
    """The lesson's first model: a parameter, a module used twice, keyword arguments."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(3, 4))
        self.encoder = nn.Linear(4, 5)

    def forward(self, left, right):
        first = self.encoder(left * self.scale).softmax(dim=-1)
        second = self.encoder(right).softmax(dim=-1)
        return torch.maximum(first, second)


class Chain(nn.Module):
    """Three calls in a row, the module two levels down: tanh, outer_0_0, relu."""

    def __init__(self):
        super().__init__()
        self.outer = nn.Sequential(nn.Sequential(nn.Linear(3, 3)))

    def forward(self, x):
        return torch.relu(self.outer(torch.tanh(x)))


def uses_tensors_late() -> nn.Module:
    """Two calls of four read the parameter, but not the first; the last reads a buffer."""
    return Model(
        lambda model, x: (torch.relu(x) * model.scale) @ model.scale + model.offset,
        scale=nn.Parameter(torch.rand(3)),
        offset=nn.Buffer(torch.rand(())),
    )


def layers() -> nn.Module:
    """Its argument is called `input`, which is taken: the placeholder's name is `input_1`."""
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))


# --- graphs and callbacks


def calls(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op.startswith("call_")]


def named(graph: Graph) -> dict[str, Node]:
    return {node.name: node for node in graph.nodes}


def names(nodes) -> list[str]:
    return [node.name for node in nodes]


def numbered(**numbers):
    """A callback that knows the partition of each node by its name."""
    return lambda node: numbers[node.name]


def in_stages(gm: GraphModule, stages: int):
    """A callback that cuts the calls of a graph into equal stretches."""
    nodes = calls(gm.graph)
    numbers = {node: at * stages // len(nodes) for at, node in enumerate(nodes)}
    return numbers.__getitem__


# --- the arguments of a step


def crossed(lesson, m: GraphModule, *groups: str):
    """Partitions 0, 1, ... of the calls named, with their crossings collected."""
    nodes = named(m.graph)
    partitions = [
        lesson.Partition(str(number), nodes=[nodes[name] for name in group.split()])
        for number, group in enumerate(groups)
    ]
    lesson.collect_crossings(m, partitions)
    return partitions


def part(lesson, m: GraphModule, inputs: str, body: str, outputs: str):
    """Partition 0, of the calls in ``body``."""
    nodes = named(m.graph)
    return lesson.Partition(
        "0",
        nodes=[nodes[name] for name in body.split()],
        inputs={nodes[name]: None for name in inputs.split()},
        outputs={nodes[name]: None for name in outputs.split()},
    )


def copied(lesson, m: GraphModule, given: str, body: str, **options):
    """A graph with new placeholders for the values in ``given``, and copies of ``body``."""
    nodes, graph = named(m.graph), type(m.graph)()
    environment = {nodes[name]: graph.placeholder(f"new_{name}") for name in given.split()}
    lesson.copy_nodes([nodes[name] for name in body.split()], graph, environment, **options)
    return graph


def fused(*names: str):
    """A callback that puts the calls named into one partition, and each other into its own."""
    return lambda node: "fused" if node.name in names else node.name


def in_order(lesson, m: GraphModule, callback):
    """The partitions of a graph, with their crossings, in an order in which they can run."""
    partitions = lesson.assign_nodes(m.graph, callback)
    lesson.collect_crossings(m, partitions)
    return lesson.order_partitions(partitions)


def stitched(lesson, m: GraphModule, *partitions: str, **options):
    """The outer module for partitions, each given as ``"0: inputs -> outputs"``."""
    nodes, submodules = named(m.graph), {}
    for partition in partitions:
        name, inputs, outputs = re.fullmatch(r"(\w+):(.*)->(.*)", partition).groups()
        taken, given = (dict.fromkeys(map(nodes.get, ends.split())) for ends in (inputs, outputs))
        stage = lesson.Partition(name, inputs=taken, outputs=given)
        submodules[stage] = torch.fx.symbolic_trace(Chain())
    return lesson.stitch_graph(m, submodules, **options)


def split_with(lesson, m: GraphModule, callback, **options) -> GraphModule:
    """Split with options that a lesson may not have yet: then the test is still to do."""
    known = inspect.signature(lesson.split_module).parameters
    for option in options:
        if option not in known:
            raise NotImplementedError(f"split_module: give split_module an argument `{option}`")
    return lesson.split_module(m, m, callback, **options)


# --- how splits are compared


@contextmanager
def untouched(m: GraphModule) -> Iterator[None]:
    """Fail if the block changes a model or its graph."""

    def facts() -> tuple:
        metas = [dict(node.meta) for node in m.graph.nodes]
        return (
            [(path, each.training) for path, each in m.named_modules(remove_duplicate=False)],
            [str(row) for row in rows(m.graph)],
            metas,
            m.code,
        )

    before = facts()
    yield
    modules, nodes, *_ = zip(before, after := facts(), strict=True)
    equal(
        after,
        before,
        cause=[
            (len(modules[0]) < len(modules[1]), "a module was added to the model that is cut"),
            (nodes[0] != nodes[1], "nodes of the model's own graph were changed"),
        ],
        hint="create new nodes in new graphs, and only read the old ones",
    )


def submodules(split: GraphModule) -> dict[str, GraphModule]:
    called = [node.target for node in split.graph.nodes if node.op == "call_module"]
    return {name: split.get_submodule(name) for name in called}


def same_classes(module: GraphModule, m: GraphModule) -> None:
    """Compare the classes of a module and its graph with those of the model that was cut."""
    (expected,) = {base for base in type(m).__mro__[1:] if base.__name__ == "GraphModule"}
    holds(
        type(module.graph) is type(m.graph) and isinstance(module, expected),
        "a module of the classes of `m` and its graph",
        got=(type(module).__mro__[1], type(module.graph)),
        hint="use type(m.graph)(), and graph_module_class(m) of the lesson `code`",
    )


def same_submodules(ours: GraphModule, theirs: GraphModule, *, meta=(), hint="") -> None:
    """Compare the graphs of the submodules, which may be called in any order."""
    equal(
        sorted(submodules(ours)),
        sorted(submodules(theirs)),
        hint=hint,
    )
    for name, submodule in submodules(theirs).items():
        same_graph(ours.get_submodule(name).graph, submodule.graph, meta=meta, hint=hint)


def same_split(ours: GraphModule, theirs: GraphModule, *, meta=(), hint="") -> None:
    same_graph(ours.graph, theirs.graph, meta=meta, hint=hint)
    same_submodules(ours, theirs, meta=meta, hint=hint)


def numbers_and_gradients(run, model: nn.Module, inputs):
    """Return what ``run`` returns, and the gradients of the model's parameters and the inputs."""
    result = run(*inputs)
    total = sum(value.sum() for value in tree_leaves(result))
    leaves = [leaf for leaf in (*inputs, *model.parameters()) if leaf.requires_grad]
    if not total.requires_grad:
        return result, ()
    return result, torch.autograd.grad(total, leaves, allow_unused=True)


# --- random graphs


class Parts(nn.Module):
    """The parameters, buffers and modules that a random graph uses."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3))
        self.register_buffer("offset", torch.rand(3))
        self.deep = nn.Sequential(nn.Sequential(nn.Linear(3, 3)))


def random_cut(chance: Random) -> tuple[GraphModule, Callable[[Node], int], str]:
    """A graph, a callback, and both in words.

    The partitions' numbers go up, are random, or are other ones for each call.
    """
    m = random_graph(chance)
    nodes = calls(m.graph)
    random = [chance.randrange(4) for _ in nodes]
    numbers = chance.choice((sorted(random), random, range(len(nodes))))
    cut = ", ".join(f"{node}: {number}" for node, number in zip(nodes, numbers, strict=True))
    callback = dict(zip(nodes, numbers, strict=True)).__getitem__
    return m, callback, f"{m.code.strip()}\npartitions: {cut}"


def outcome(split_module, *arguments, **options):
    """The split model, or None where the cut is refused for a cycle."""
    try:
        return split_module(*arguments, **options)
    except NotImplementedError:
        raise
    except RuntimeError:
        return None


def random_graph(chance: Random) -> GraphModule:
    """A graph of up to twelve calls, each of earlier values; it returns up to three of them."""
    graph = Graph()
    values = [graph.placeholder("x"), graph.placeholder("y"), graph.get_attr("weight")]
    values.append(graph.get_attr("offset"))
    for _ in several(chance, 12):
        values.append(chance.choice(CALLS)(graph, chance.choice(values), chance.choice(values)))
    graph.output(tuple(chance.choice(values) for _ in range(chance.randint(1, 3))))
    return GraphModule(Parts(), graph)


CALLS = [
    lambda graph, a, b: graph.call_method("add", (a,), {"other": b}),
    lambda graph, a, b: graph.call_module("deep.0.0", (a,)),
    lambda graph, a, b: graph.call_function(torch.einsum, ("i,i->i", [a, b])),
    lambda graph, a, b: graph.call_function(operator.getitem, (a, slice(None, None))),
    lambda graph, a, b: graph.call_function(torch.add, (a, b), {"alpha": 0.5}),
]
