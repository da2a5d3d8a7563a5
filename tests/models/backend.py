"""Functions to be fused, the flat graphs of them, and how kernels are judged."""

from __future__ import annotations

import math
import random
from functools import cache
from types import FunctionType
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx.experimental.proxy_tensor import make_fx

from given.backend import HEADER, TABLE, library_of, taking_tensors
from tests.suite import holds, same_numbers
from tests.suite.engine import graph_module, new_graph
from tests.suite.expect import Words, mismatch

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


CAPTURED = {}


def flat(lesson, function, *args, dynamic=False):
    """The operators of a function, with the lesson's table, as a graph module of the engine."""
    captured = captured_once(function, args, lesson.TABLE, dynamic)
    graph = new_graph()
    graph.output(graph.graph_copy(captured.graph, {}))
    return graph_module(captured, graph)


def captured_once(function, args, table=TABLE, dynamic=False):
    """The operators of a function, as torch's graph module; no test changes it."""
    layouts = tuple((each.shape, each.stride(), each.dtype, each.device) for each in args)
    # A function that a test defines is another one at each run, with the same code.
    held = getattr(function, "__closure__", None) or getattr(function, "__defaults__", None)
    is_plain = isinstance(function, FunctionType) and not held
    key = function.__code__ if is_plain else function, layouts, id(table), dynamic
    if key not in CAPTURED:
        captured = make_fx(
            function,
            tracing_mode="symbolic" if dynamic else "fake",
            decomposition_table=table,
            _allow_non_fake_inputs=True,
        )(*args)
        captured.graph.eliminate_dead_code()
        CAPTURED[key] = captured, table  # or the id might be that of another table one day
    return CAPTURED[key][0]


def call(lesson, function, *args, dynamic=False):
    """The last node of a function that has a result of its own."""
    module = flat(lesson, function, *args, dynamic=dynamic)
    return [node for node in module.graph.nodes if node.op == "call_function"][-1]


def fused(lesson, module):
    """The kernels of a flat graph, without the partitions of a single node."""
    return [each for each in lesson.kernels(module) if each.is_fused]


def kernels(lesson, function, *args):
    return fused(lesson, flat(lesson, function, *args))


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


def writer_of(lesson, function, *args):
    """Return what writes the only kernel of a function, and its nodes by their names."""
    kernel = only_kernel(lesson, function, *args)
    return lesson.CWriter(kernel), {node.name: node for node in kernel.nodes}


# --- printed C ------------------------------------------------------------------------------------


def softmax(x):
    return torch.softmax(x * 2, -1)


def kept_for_long(x, y):
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True) + x * y


def stored_and_read(x, y):
    product = x * y
    return product, product / (product * product).sum(-1, keepdim=True)


def means(x):
    """Values per row, of which one is computed from another, and both are stored."""
    mean = x.mean(-1, keepdim=True)
    return mean, mean * 2 + 1, x - mean


def threshold(grad, x):
    return aten.threshold_backward(grad, x, 0.5) * 2


def twice(function):
    return lambda x: function(x) * 2


INF, NAN = math.inf, math.nan
SPECIAL = torch.tensor([INF, -INF, NAN, 0.0, -0.0, 1e-6, 88.0, -100.0, 1e30, -2.0, 1e-40, -90.0])
WIDE = torch.cat([SPECIAL, torch.linspace(-110, 110, 990), torch.linspace(-6, 6, 1000)])
OPERANDS = (
    lambda x, row, column, single: (x + row) * column - single,
    (torch.randn(5, 3), torch.randn(5, 1), torch.randn(3), torch.randn(1, 1)),
)
THREE = torch.tensor([-2.0, 0.5, 3.0])


def cases():
    """What the printed C is judged by: a function of a single kernel, and its arguments."""
    yield from ((name, (each, inputs(6, 5))) for name, each in FUNCTIONS.items() if each != around)
    rows = torch.stack([SPECIAL, SPECIAL.flip(0), torch.ones(12), torch.full((12,), -INF)])
    yield "operands", OPERANDS
    yield "three_dimensions", (lambda x: x / x.sum(2, keepdim=True), (torch.rand(2, 3, 4) + 1,))
    yield "kept_for_long", (kept_for_long, inputs(4, 3))
    yield "stored_and_read", (stored_and_read, inputs(4, 3))
    yield "means", (means, inputs(4, 3, count=1))
    yield "threshold", (threshold, inputs(4, 3))
    yield "rows_of_special_numbers", (lambda x: (torch.softmax(x, -1), x.amax(-1, True)), (rows,))
    for shape in ((20_001,), (1, 20_001), (7, 2)):
        yield f"scaled_{shape}", (scaled, inputs(*shape))
        yield f"widest_{shape}", (widest, inputs(*shape))
    for each in (torch.relu, torch.tanh, torch.sigmoid, torch.exp, torch.erf, F.silu):
        yield f"special_{each.__name__}", (twice(each), (WIDE,))
    yield "special_gelu", (twice(F.gelu), (WIDE[1:],))  # of infinity, eager's is nan
    yield "special_gelu_tanh", (twice(gelu_tanh), (WIDE,))
    yield "integers", (lambda x: (x / 2 + 0.75).clamp(max=INF) * 10**10 + True, (THREE,))
    yield "large_integers", (lambda x: torch.add(x, 100_000, alpha=100_000) * 2, (THREE,))
    yield "minus_infinity", (lambda x: x.clamp(-INF, 1) * 2, (THREE,))
    yield "all_digits", (lambda x: (x + 1e-8) * 1e8 + x / 3 * (1 / 3), (THREE * 1e-7,))
    yield "tiny_powers", (lambda x: torch.exp(x).clamp(max=1e-37) * 1e37, (WIDE,))
    yield "equal_products", (lambda x, y: torch.sqrt(x * x - y * y), (x := torch.rand(999), x))
    yield "tails", (lambda x: (torch.erf(x).abs().clamp(min=1) - 1) * 1e8 + F.gelu(x) * 0, (WIDE,))


CASES = dict(cases())
LIBRARIES = WeakKeyDictionary()


class Library:
    """The printed C of all cases, compiled at once: a compiler takes longer to start than to run.

    A kernel that can't be printed is left out, and its error is raised when its case is run. If the
    whole doesn't compile, each case is compiled alone.
    """

    def __init__(self, lesson):
        self.errors, self.texts, self.kernels = {}, {}, {}
        for name, (function, args) in CASES.items():
            try:
                self.kernels[name] = kernel = only_kernel(lesson, function, *args)
                text = lesson.CWriter(kernel).function()
            except Exception as error:
                self.errors[name] = error
            else:
                self.texts[name] = text.replace(kernel.symbol, "@")
        distinct = dict.fromkeys(self.texts.values())
        self.symbols = {text: f"case_{number}" for number, text in enumerate(distinct)}
        try:
            self.whole = library_of(self.source(*distinct))
        except OSError:
            self.whole = None

    def source(self, *texts):
        return HEADER + "".join(text.replace("@", self.symbols[text]) for text in texts)

    def run(self, name, *tensors):
        """Run the C of a case on its inputs and outputs."""
        text, kernel = self.texts[name], self.kernels[name]
        library = self.whole or compiled_alone(self.source(text))
        function = getattr(library, self.symbols[text])
        taking_tensors(function, kernel.shape, kernel.columns)(*tensors)


def compiled_alone(text):
    """Compile C; what the compiler refuses is shown with the line that was printed."""
    try:
        return library_of(text)
    except OSError as error:
        raise mismatch(
            expected=Words("C that compiles"), got=Words(str(error)), cause="", hint=""
        ) from None


def library_for(lesson):
    """The library of a lesson's code: it is made once."""
    key = lesson.lower  # a function of the code that is judged
    if key not in LIBRARIES:
        LIBRARIES[key] = Library(lesson)
    return LIBRARIES[key]


def computes_what_eager_does(lesson, name):
    """Compare the outputs of a case's printed C with eager's."""
    library = library_for(lesson)
    if name in library.errors:
        raise library.errors[name]
    function, args = CASES[name]
    kernel = library.kernels[name]
    names = [node.name for node in kernel.nodes[0].graph.find_nodes(op="placeholder")]
    given, before = dict(zip(names, args, strict=True)), -12345.678
    outputs = {n.name: torch.full(tuple(n.meta["val"].shape), before) for n in kernel.outputs}
    library.run(name, *[given[node.name] for node in kernel.inputs], *outputs.values())
    returned = kernel.nodes[0].graph.find_nodes(op="output")
    order = [node.name for output in returned for node in output.all_input_nodes]
    results = [outputs[each] for each in order]
    expected = function(*args)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    left = [name for name, each in outputs.items() if (each == torch.full_like(each, before)).any()]
    words = f"not every element of `{'` and `'.join(left)}` was written"
    same_numbers(results, expected, cause=(bool(left), words))


# --- judging --------------------------------------------------------------------------------------


def compiled_by(backend, model, **options):
    """Compile a model; an error of the backend is raised as it is, not wrapped."""
    compiled = torch.compile(model, backend=backend, **options)

    def run(*args):
        try:
            return compiled(*args)
        except BackendCompilerFailed as error:
            raise error.inner_exception from None

    return run


def trains_as_eager(compile_, model):
    """Fail unless a compiled model gives its parameters the gradients of eager."""
    x = torch.randn(6, 8)
    compile_(model)(x).pow(2).sum().backward()
    ours = [each.grad.clone() for each in model.parameters()]
    model.zero_grad()
    model(x).pow(2).sum().backward()
    same_numbers(ours, [each.grad for each in model.parameters()])


def can_run_in_this_order(partitions):
    """Fail if a partition comes before one whose result it needs, as in a circle."""
    made = set()
    for each in partitions:
        late = [node for node in each.inputs if node.op.startswith("call_") and node not in made]
        holds(not late, "each partition after those that it needs", got=(each.nodes, late))
        made |= {*each.nodes}


@cache
def random_program(seed):
    """A program of pointwise operators, reductions and matrix products, of two square inputs.

    Some operators tell more than ordinary numbers do: results that only denormal numbers have,
    equal products that cancel, and both tails of a function.
    """
    choose = random.Random(seed)
    pointwise = (
        *(torch.relu, torch.tanh, F.gelu, lambda a: a * 0.5, lambda a: a + 1),
        lambda a: torch.exp(a * a * -30).clamp(max=1e-37) * 1e37,
        lambda a: (a * a - a * a) * 1e7 + a,
        lambda a: torch.sigmoid(a * 30) + torch.erf(a * -4),
    )
    pairs = (torch.add, torch.mul, torch.maximum, lambda a, b: a.mm(b) * 0.1)
    rows = (lambda a: a - a.mean(-1, keepdim=True), lambda a: a.amax(-1, True) + a, lambda a: a.t())
    plan = [
        (choose.choice(["one", "one", "pair", "pair", "row"]), choose.random(), choose.random())
        for _ in range(25)
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
