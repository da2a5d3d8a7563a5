"""Functions to be fused, the flat graphs of them, and how kernels are judged."""

from __future__ import annotations

import random
from graphlib import TopologicalSorter

import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from tests.suite import holds, same_numbers
from tests.suite.engine import graph_module, new_graph

aten = torch.ops.aten


# --- functions ------------------------------------------------------------------------------------


def chain(x, y):
    """Eight operations, and each is element by element."""
    return torch.sigmoid(x * y + 1) * torch.tanh(x - y) + F.silu(x) * 0.5


def block(x, residual):
    """LayerNorm, GELU, a residual and a softmax."""
    return torch.softmax(F.gelu(F.layer_norm(x, x.shape[-1:])) + residual, -1)


def rms(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


def scaled(x, y):
    return torch.add(x, y, alpha=2).clamp(None, 1) * 3 - 1


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def two_results(x, y):
    total = (x * y).sum(-1, keepdim=True)
    return total * 2, x / (total + 1)


def widest(x, y):
    return (x + y) - (x + y).amax(-1, keepdim=True)


def around(x, y):
    """A value leaves for a matrix product, and comes back."""
    a = torch.relu(x + y)
    return (a * 2) + a.mm(a) * 0.5


def written_between(x, y):
    a = x.neg() * 2
    y.add_(1)
    return a, y.neg() * 2, y


def written_after(x, y):
    a = x.neg()
    x.add_(1)
    return a + x.exp() * y


FUNCTIONS = {
    each.__name__: each for each in (chain, block, rms, scaled, two_results, widest, around)
}


def inputs(*shape, count=2):
    """Random tensors, the same each time."""
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator) for _ in range(count))


# --- graphs ---------------------------------------------------------------------------------------


def flat(lesson, function, *args, dynamic=False):
    """The operators of a function, with the lesson's table, as a graph module of the engine."""
    mode = "symbolic" if dynamic else "fake"
    captured = make_fx(
        function,
        tracing_mode=mode,
        decomposition_table=lesson.TABLE,
        _allow_non_fake_inputs=True,
    )(*args)
    captured.graph.eliminate_dead_code()
    graph = new_graph()
    graph.output(graph.graph_copy(captured.graph, {}))
    return graph_module(captured, graph)


def call(lesson, function, *args, dynamic=False):
    """The last node of a function that has a result of its own."""
    module = flat(lesson, function, *args, dynamic=dynamic)
    return [node for node in module.graph.nodes if node.op == "call_function"][-1]


def kernels(lesson, function, *args):
    return lesson.kernels(flat(lesson, function, *args).graph)


def operators(kernel):
    """The operators of a kernel, without their overloads."""
    return [str(node.target).split(".")[1] for node in kernel.nodes]


def counts(lesson, function, *args):
    """Return how many nodes each kernel has."""
    return [len(kernel.nodes) for kernel in kernels(lesson, function, *args)]


def only_kernel(lesson, function, *args):
    found = kernels(lesson, function, *args)
    holds(len(found) == 1, "one kernel", got=[kernel.nodes for kernel in found])
    return found[0]


# --- judging --------------------------------------------------------------------------------------


def runs_as_eager(lesson, make, function, *args):
    """Make a function of the only kernel, and compare its outputs with eager's."""
    kernel = only_kernel(lesson, function, *args)
    names = [node.target for node in flat(lesson, function, *args).graph.nodes]
    given = dict(zip([name for name in names if isinstance(name, str)], args, strict=False))
    before = -12345.678
    outputs = {n.name: torch.full(tuple(n.meta["val"].shape), before) for n in kernel.outputs}
    make(kernel)(*[given[node.target] for node in kernel.inputs], *outputs.values())
    expected = function(*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    left = [name for name, each in outputs.items() if (each == torch.full_like(each, before)).any()]
    words = f"not every element of `{'` and `'.join(left)}` was written"
    same_numbers(tuple(outputs.values()), expected, cause=(bool(left), words))


def compiled_by(backend, model):
    """Compile a model; an error of the backend is raised as it is, not wrapped."""
    compiled = torch.compile(model, backend=backend)

    def run(*args):
        try:
            return compiled(*args)
        except BackendCompilerFailed as error:
            raise error.inner_exception from None

    return run


class Watch(TorchDispatchMode):
    """Notes the sizes of new tensors, the results that were resized, and how many were written."""

    def __init__(self):
        super().__init__()
        self.made, self.resized, self.written = [], [], 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = kwargs or {}
        outs = [given[each.name] for each in func._schema.arguments if each.is_out]
        before = [each.shape for each in outs]
        result = func(*args, **given)
        self.written += len(outs)
        self.resized += [str(func)] if [each.shape for each in outs] != before else []
        if all(each.alias_info is None for each in func._schema.returns):
            self.made.append(result.numel())
        return result


def watched(lesson, function, *shape):
    """Run the only kernel of a function of two tensors as Python, and note what it does."""
    x, y = inputs(*shape)
    kernel, result = only_kernel(lesson, function, x, y), torch.empty(shape)
    run = lesson.python_function(kernel)
    with Watch() as watch:
        run(x, y, result)
    return kernel, watch


def no_kernel_waits_for_itself(found):
    """Fail if the results of a kernel go, through others, into the same kernel."""
    home = {node: kernel for kernel in found for node in kernel.nodes}
    sorter = TopologicalSorter()
    for node in found[0].nodes[0].graph.nodes if found else ():
        unit = home.get(node, node)
        needed = (home.get(each, each) for each in node.all_input_nodes)
        sorter.add(unit, *(each for each in needed if each is not unit))
    try:
        sorter.prepare()
    except ValueError as error:
        circle = dict.fromkeys(each for each in error.args[1] if each in found)
        message = "kernels that each can run before what needs them"
        holds(False, message, got=[kernel.nodes for kernel in circle])


def random_program(seed, steps=25):
    """A program of pointwise operators, reductions and matrix products, of two square inputs."""
    choose = random.Random(seed)
    pointwise = (torch.relu, torch.tanh, lambda a: a * 0.5, lambda a: a + 1)
    pairs = (torch.add, torch.mul, torch.maximum, lambda a, b: a.mm(b) * 0.1)
    rows = (lambda a: a - a.mean(-1, keepdim=True), lambda a: a.amax(-1, True) + a, lambda a: a.t())
    plan = [
        (choose.choice(["one", "one", "pair", "pair", "row"]), choose.random(), choose.random())
        for _ in range(steps)
    ]
    picks = [(choose.choice(pointwise), choose.choice(pairs), choose.choice(rows)) for _ in plan]

    def function(x, y):
        values = [x, y]
        for (kind, first, second), (one, pair, row) in zip(plan, picks, strict=True):
            a, b = (values[int(each * len(values))] for each in (first, second))
            values.append({"one": one, "row": row}[kind](a) if kind != "pair" else pair(a, b))
        return values[-1], values[-2]

    return function


class Net(nn.Module):
    """Normalises, mixes and gates; everything in it has a gradient."""

    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(8), nn.Linear(8, 16)
        self.act, self.down = nn.GELU(), nn.Linear(16, 8)

    def forward(self, x):
        return torch.softmax(torch.tanh(self.down(self.act(self.up(self.norm(x)))) + x) * 2, -1)
