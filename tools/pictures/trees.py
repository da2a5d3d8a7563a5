"""Pictures of a list beside a tree."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn
from torch.fx import Graph
from torch.fx import Node as FxNode

from drawing import Link, Node, Panel, Picture
from drawing.listing import target_of
from solutions.exec_order import ExecOrderTracer, ExecutionInfo
from solutions.stretch.tracer import Tracer
from tools.pictures.models import OutOfOrder


def flat_row(node: FxNode) -> Node:
    stack = [path or "root" for path, _ in node.meta.get("nn_module_stack", {}).values()]
    return Node(node.name, node.op, target_of(node), note=" > ".join(stack))


def tree_rows(root: nn.Module) -> Iterator[Node]:
    """A module's own nodes in order, each called module in the place of its call."""
    yield Node("(root)", "module", note=crossing(root))
    yield from rows_below(root, "(root)", "")


def rows_below(module: nn.Module, parent: str, path: str) -> Iterator[Node]:
    for node in graph_of(module).nodes:
        if node.op == "call_module":
            below = f"{path}{node.target}"
            callee = module.get_submodule(str(node.target))
            yield Node(below, "module", parent=parent, note=crossing(callee))
            yield from rows_below(callee, below, f"{below}.")
        elif node.op in ("call_function", "call_method") or (not path and node.op == "output"):
            yield Node(node.name, node.op, target_of(node), parent=parent)


def crossing(module: nn.Module) -> str:
    """Return the inputs and outputs of a module, in words."""
    graph = graph_of(module)
    takes = ", ".join(node.name for node in graph.find_nodes(op="placeholder"))
    returns = ", ".join(node.name for node in graph.output_node().all_input_nodes)
    return f"takes {takes}, returns {returns}"


def graph_of(module: nn.Module) -> Graph:
    graph = module.graph
    assert isinstance(graph, Graph)
    return graph


def exec_order() -> Picture:
    """Show parameters as they are registered and as they are used, and who uses them."""
    model = OutOfOrder()
    info = watched(model)
    names = {parameter: name for name, parameter in model.named_parameters()}
    paths = {module: path or "(root)" for path, module in model.named_modules()}
    used = [names[parameter] for parameter in info.param_forward_order]
    called = [paths[module] for module in info.module_forward_order]
    return Picture(
        title="Parameters and modules in the order of use",
        description=(
            "On the left five parameters as they are registered: scale, then those of second, "
            "then those of first. In the middle as they are used: those of first, then scale, then "
            "those of second. On the right the modules in the order in which they are called: the "
            "root, block, block.first, block.second, relu."
        ),
        panels=(
            Panel(tuple(Node(name, "parameter") for name in names.values()), "as registered"),
            Panel(tuple(Node(name, "parameter") for name in used), "as used"),
            Panel(tuple(called_row(path) for path in called), "modules as called"),
        ),
        links=(
            *(Link(0, name, name) for name in names.values()),
            *(Link(1, name, name.rpartition(".")[0]) for name in used),
        ),
    )


def watched(model: nn.Module) -> ExecutionInfo:
    """The record of one trace."""
    tracer, watcher = Tracer(), ExecOrderTracer()
    with watcher.patch_tracer(tracer, model):
        tracer.trace(model)
    assert watcher.exec_info is not None
    return watcher.exec_info


def called_row(path: str) -> Node:
    parent, dot, _ = path.rpartition(".")
    above = parent if dot else "(root)"
    return Node(path, "module", parent="" if path == "(root)" else above)
