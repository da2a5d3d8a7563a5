"""Models, odd values and tracers for the tests of ``create_arg``."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx import Graph, Node
from torch.fx.proxy import Scope, TracerBase

from tests import zoo
from tests.models.path_of_module import Equal
from tests.suite import holds, own


class Model(nn.Module):
    """A parameter, a buffer and a plain tensor attribute on two levels; two have a second name."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(2))
        self.register_buffer("mean", torch.rand(2))
        self.table = torch.rand(2)
        self.child = Equal()
        self.child.weight = nn.Parameter(torch.rand(2))
        self.child.register_buffer("mean", torch.rand(2))
        self.child.table = torch.rand(2)
        self.child.inner = Equal()
        self.child.inner.table = torch.rand(2).as_subclass(Named)
        self.child.tied = self.weight
        self.child.alias = self.mean

    def forward(self, x):
        return x


def plugged(lesson, base: type[TracerBase] = torch.fx.Tracer) -> TracerBase:
    """Return a tracer with the lesson's class as its first base."""
    return type("Plugged", (own(lesson.CreateArg, "create_arg"), base), {})()


def tracer_at(lesson, root: nn.Module, base: type[TracerBase] = torch.fx.Tracer) -> TracerBase:
    """Return a tracer with the lesson's class as its first base, at the beginning of a trace."""
    return standing(plugged(lesson, base), root)


def standing(tracer: TracerBase, root: nn.Module) -> TracerBase:
    """Set the tracer up as a trace of ``root`` would, and list the nodes that it makes."""

    def create_node(*args, **options):
        tracer.made.append(type(tracer).create_node(tracer, *args, **options))
        return tracer.made[-1]

    tracer.scope, tracer.module_stack, tracer.node_name_to_scope = Scope("", None), {}, {}
    tracer.root, tracer.graph, tracer.made, tracer.create_node = root, Graph(), [], create_node
    vars(tracer).pop("tensor_attrs", None)  # a trace begins without
    return tracer


def target_of(tracer, value: object) -> str | NameError:
    """Return the path that the node for ``value`` reads, or the ``NameError`` raised instead."""
    try:
        node = tracer.create_arg(value)
    except NameError as error:
        if error.name is not None:  # Python's own, for a name that the code misspells
            raise
        return error
    holds(
        isinstance(node, Node) and node.op == "get_attr",
        "a get_attr node that reads the value from the model",
        got=node,
        cause=[
            (node is value, "the value itself was put into the graph"),
            (isinstance(node, torch.fx.Proxy), "`create_proxy` was called: a graph holds nodes"),
        ],
        hint="`self.create_node('get_attr', path, (), {})` and return the node",
    )
    made_by_it(tracer, node)
    return node.target


def made_by_it(tracer, node: Node) -> None:
    """Fail unless the tracer was asked for the node: a subclass may make it in its own way."""
    hint = "`self.create_node(op, target, args, kwargs)`, so that subclasses have their say"
    holds(node in tracer.made, "a new node that `self.create_node` made", got=node, hint=hint)


def is_refused(got: object) -> bool:
    return isinstance(got, NameError)


def is_constant(got: object) -> bool:
    return isinstance(got, str) and got.startswith("_tensor_constant")


def kept_on_the_root(tracer, value: object, name: str, hint: str = "") -> None:
    """Fail unless the root has the value itself under a new name."""
    path = target_of(tracer, value)
    holds(
        not is_refused(path) and vars(tracer.root).get(path) is value,
        f"an attribute `{name}N` of the root that is the value itself",
        got=path,
        cause=[
            (lambda path: not hasattr(tracer.root, path), "nothing was stored on the root"),
            (lambda path: getattr(tracer.root, path) is value, "it is on the class of the root"),
            (lambda path: path.startswith(name), "another tensor was stored, such as a copy"),
            (lambda path: isinstance(path, str), "another value of the model was taken for it"),
        ],
        hint=hint,
    )
    holds(path.startswith(name), f"a name that begins with `{name}`", got=path)


def proxy(tracer):
    return tracer.create_proxy("placeholder", "x", (), {})


class Named(torch.Tensor):
    """A tensor of a class of its own."""


class Unknown:
    """A class that the tracer doesn't know."""


def holds_many(size: int) -> nn.Module:
    """As many parameters, buffers and modules as wanted; the parameters are read."""
    weights = {f"weight{number}": nn.Parameter(torch.zeros(1)) for number in range(size)}
    buffers = {f"buffer{number}": nn.Buffer(torch.zeros(1)) for number in range(size)}
    modules = {f"module{number}": nn.Identity() for number in range(size)}
    add_all = lambda model, x: sum((getattr(model, name) for name in weights), x)
    return zoo.Model(add_all, **weights, **buffers, **modules)
