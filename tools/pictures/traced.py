"""Pictures of whole graphs and lists: what is recorded, and what a transform makes of it."""

from __future__ import annotations

import inspect
from typing import NamedTuple

import torch
from torch import Tensor, fx, nn

from drawing import Link, Node, Panel, Picture
from drawing.listing import panel, target_of
from kata.torchvision_compat import torchvision
from solutions.stretch.code import CodeWriter
from solutions.stretch.create_arg import CreateArg
from solutions.stretch.custom_tracers import LowerReluTracer
from solutions.stretch.inversion import invert
from solutions.stretch.tracer import Tracer, symbolic_trace
from tools.pictures.models import Nested, Net, Scaled, Values, scaled


def generated() -> Picture:
    """Show beside each node the line that it becomes."""
    graph = Tracer().trace(Scaled())
    writer = CodeWriter(graph)
    lines = {node.name: writer.statement(node) for node in graph.nodes}
    return Picture(
        title="A graph and its code",
        description=(
            "Seven nodes in a column, and beside each the line of code that it becomes: the call "
            "of the layer, the parameter, the product, the activation, the sum and the return. "
            "The placeholder has no line."
        ),
        panels=(panel(graph, note=lambda node: lines[node.name]),),
    )


def resnet18() -> Picture:
    """Trace ResNet18."""
    return Picture(
        title="ResNet18 as a graph",
        description=(
            "The 71 nodes of ResNet18 in two halves: on the left from the placeholder x to the end "
            "of layer2, on the right from layer3 to the output. Each top-level module has a "
            "column, and each column begins where the one before it ends. In every residual block "
            "a lane leads past the block to its addition."
        ),
        panels=(panel(Tracer().trace(torchvision.models.resnet18())),),
    )


def lowered() -> Picture:
    """Trace a model twice, the second time with a tracer that looks into activations."""
    before = panel(Tracer().trace(Nested()), "Tracer: nn.ReLU is a leaf")
    after = panel(
        LowerReluTracer().trace(Nested()),
        "LowerReluTracer",
        marks={"relu": "instead of block_relu"},
    )
    return Picture(
        title="A model traced by two tracers",
        description=(
            "Two graphs of seven nodes side by side. On the left block_relu is a call of a module. "
            "On the right the tracer looked into it, and relu, a call of a function, has its place."
        ),
        panels=(before, after),
    )


def module_paths() -> Picture:
    """Show the modules of a model as a tree; a second name points to the first."""
    root = Net()
    first_names = {id(module): name for name, module in root.named_modules()}
    rows = [
        module_row(path, module, first_names[id(module)])
        for path, module in root.named_modules(remove_duplicate=False)
    ]
    return Picture(
        title="The modules of a model and their paths",
        description=(
            "A tree of modules. Below the root are stem, body and act. body holds two blocks, each "
            "with a convolution and an activation. The root's act is the same object as "
            "body.0.act, and body.0.act is its path."
        ),
        panels=(Panel(tuple(rows)),),
    )


def module_row(path: str, module: nn.Module, first: str) -> Node:
    """One module of a tree; the root's row is called ``(root)``."""
    parent, dot, _ = path.rpartition(".")
    return Node(
        name=path or "(root)",
        op="module",
        label=type(module).__name__,
        note=repr(path),
        target=type(module).__name__,
        mark=f"the same object: {first!r}" if first != path else "",
        parent=(parent if dot else "(root)") if path else "",
    )


class Point(NamedTuple):
    """A pair of values that may be proxies."""

    x: object
    y: object


def arguments() -> Picture:
    """Turn values of every kind into arguments, and show which of them become nodes."""
    tracer = type("OwnTracer", (CreateArg, fx.Tracer), {})()
    net, constant = Values(), torch.rand(2)
    tracer.root, tracer.graph, tracer.tensor_attrs = net, fx.Graph(), {net.table: "table"}
    x = tracer.create_proxy("placeholder", "x", (), {})
    values: dict[str, object] = {
        "x (a proxy)": x,
        "3": 3,
        "[x, (1, x)]": [x, (1, x)],
        "net.linear.weight": net.linear.weight,
        "net.mean (a buffer)": net.mean,
        "net.table (a tensor)": net.table,
        "net.linear (a module)": net.linear,
        "torch.rand(2)": constant,
        "Point(x, 1)": Point(x, 1),
    }
    results = {text: tracer.create_arg(value) for text, value in values.items()}
    return Picture(
        title="Values and the arguments they become",
        description=(
            "On the left nine values, on the right the argument that each becomes. The number and "
            "the list stay what they are. A parameter, a buffer, a tensor and a module become "
            "get_attr nodes, and the named tuple a call_function node."
        ),
        panels=(
            Panel(tuple(Node(text, "value") for text in values), "in: a value"),
            Panel(tuple(map(argument_row, results.values())), "out: an argument"),
        ),
        links=tuple(Link(0, text, str(result)) for text, result in results.items()),
    )


def argument_row(argument: object) -> Node:
    """A node as itself; any other argument as the value it stays."""
    if not isinstance(argument, fx.Node):
        return Node(str(argument), "value", note="no node")
    note = f"{argument.op}, target {target_of(argument)}"
    return Node(argument.name, argument.op, target_of(argument), note=note)


def signature() -> Picture:
    """Show the parameters of a function, and the placeholders they become."""
    parameters = inspect.signature(scaled, eval_str=True).parameters
    nodes = Tracer().trace(scaled).find_nodes(op="placeholder")
    rows = tuple(Node(n.name, n.op, str(n.target), note=f"target {n.target}") for n in nodes)
    name_of = {str(node.target).lstrip("*"): node.name for node in nodes}
    return Picture(
        title="A signature and its placeholders",
        description=(
            "On the left the five parameters of a function in the order of its signature, on the "
            "right the five placeholders. The keyword-only parameter comes before the one with a "
            "star: their lines cross."
        ),
        panels=(
            Panel(
                tuple(Node(n, "parameter", label=str(p)) for n, p in parameters.items()),
                "parameters",
            ),
            Panel(rows, "placeholders"),
        ),
        links=tuple(Link(0, name, name_of[name]) for name in parameters),
    )


def inverted() -> Picture:
    """Show a chain, and the chain that undoes it."""

    def f(x: Tensor) -> Tensor:
        return torch.exp(torch.tan(x) * 3 + 2)

    forwards = panel(symbolic_trace(f).graph, "forwards", note=arguments_of)
    backwards = panel(invert(f).graph, "backwards", note=arguments_of)
    return Picture(
        title="A chain of operations, forwards and backwards",
        description=(
            "On the left the chain x, tan, mul, add, exp, output. On the right the chain that "
            "undoes it: it takes the output, and begins with the inverse of the last operation. "
            "The lines between an operation and its inverse all cross."
        ),
        panels=(forwards, backwards),
        links=tuple(
            Link(0, one.name, other.name)
            for one, other in zip(forwards.nodes, reversed(backwards.nodes), strict=True)
        ),
    )


def arguments_of(node: fx.Node) -> str:
    return f"({', '.join(map(str, node.args))})" if node.op == "call_function" else ""
