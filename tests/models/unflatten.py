"""Models whose programs are unflattened, and what the tests of the lesson share."""

from __future__ import annotations

import copy
import functools
from collections import namedtuple
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from tests import random_models, zoo
from tests.suite import same_numbers
from tests.suite.programs import export, exported, program_of
from tests.zoo import Model


def x(*shape: int) -> torch.Tensor:
    """A seeded input."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(shape or (2, 3), generator=generator)


def names(tree: nn.Module) -> list[str]:
    """The names of all modules, parameters and state, without the bodies of later calls.

    A module or a tensor of the state has all its names, and a parameter its first one.
    """
    modules = [name for name, _ in tree.named_modules(remove_duplicate=False)]
    found = [*modules, *dict(tree.named_parameters()), *tree.state_dict()]
    return [name for name in found if "@" not in name]


class Run(NamedTuple):
    eager: nn.Module
    tree: nn.Module


def like_eager(lesson, model, *args, runs: int = 2, **options) -> Run:
    """Compare runs and state of an unflattened program with those of the eager model."""

    def judge(actual, expected, what: str) -> None:
        hint = f"{what} differs: print the graphs of the tree's modules beside the program's"
        same_numbers(actual, expected, hint=hint)

    if isinstance(model, nn.Module):
        eager, program = copy.deepcopy(model), export(model, *args, **options)
    else:
        eager, program = exported(model, *args, **options)
    tree = lesson.unflatten(program)
    for _ in range(runs):
        theirs, ours = copy.deepcopy(args), copy.deepcopy(args)
        judge(tree(*ours), eager(*theirs), "what the model returns")
        judge(ours, theirs, "the inputs after the run")
    expected = dict(eager.state_dict())
    state = {name: functools.reduce(getattr, name.split("."), tree).data for name in expected}
    judge(state, expected, "the state")
    return Run(eager, tree)


class Block(nn.Module):
    """A linear layer between two operations of its own."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x * 2).relu()


class Nested(nn.Module):
    """Modules in modules, a list of modules, and operations between them."""

    def __init__(self):
        super().__init__()
        self.second = Block()
        self.first = nn.Sequential(Block(), nn.Tanh())
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, x):
        y = self.second(self.first(x) + 1)
        for layer in self.layers:
            y = layer(y) - x
        return y


class Steps(nn.Sequential):
    """A sequence whose input is called ``x``."""

    def forward(self, x):
        return super().forward(x)


def steps(*makes) -> Callable[[], nn.Module]:
    """Return a function that makes a sequence of these."""
    return lambda: Steps(*(make() for make in makes))


one_tanh = steps(nn.Tanh)
one_block = steps(Block)
block_and_tanh = steps(Block, nn.Tanh)
three_and_one = steps(steps(nn.ReLU, nn.Tanh, nn.Sigmoid), nn.SiLU)
norm = functools.partial(nn.BatchNorm1d, 3)
training_norms = steps(norm, functools.partial(nn.Linear, 3, 3), norm)


def called_twice():
    """One module called twice in the same way."""
    return Model(lambda model, x: model.block(model.block(x)), block=Block())


class Branch(nn.Module):
    """Does more the second time."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x, more: bool):
        y = self.linear(x) * self.scale
        return y.tanh() if more else y


def in_turns(*turns: bool) -> Model:
    def forward(model, x):
        for more in turns:
            x = model.branch(x, more)
        return x

    return Model(forward, branch=Branch())


def called_differently():
    return in_turns(False, True, False)


def called_alike_in_the_end():
    """The last call does what the one before it does, not the first."""
    return in_turns(False, False, True, True)


def tied():
    """Two layers with one weight, and one of them under a second name."""
    encoder, decoder = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3, bias=False))
    decoder[0].weight = encoder.weight
    return Model(lambda model, x: model.decoder(model.encoder(x)), encoder=encoder, decoder=decoder)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


def counted_twice():
    return Model(
        lambda model, x: model.counter(model.linear(model.counter(x))) + model.counter.count,
        counter=Counter(),
        linear=nn.Linear(3, 3),
    )


def outlined(lesson, program: ExportedProgram):
    """The outliner of a program, before any call is taken out."""
    return lesson.Outliner(lesson.flat_of(program))


def calls_in(lesson, program: ExportedProgram, name: str, depth: int = 1) -> tuple:
    """The outliner of a program, and one call with its borders found and its state read."""
    outliner = outlined(lesson, program)
    (call,) = (each for each in outliner.calls_at(depth) if each.name == name)
    lesson.find_borders(call)
    lesson.build_graph(call)
    outliner.read_state(call)
    return outliner, call


def calls_of(lesson, program: ExportedProgram, reads: bool = False) -> dict:
    """All calls of a program by name, with their borders; with graphs too if they read state."""
    outliner = outlined(lesson, program)
    calls = [call for depth in (1, 2, 3) for call in outliner.calls_at(depth)]
    for call in calls:
        lesson.find_borders(call)
        if reads:
            lesson.build_graph(call)
            outliner.read_state(call)
    return {call.name: call for call in calls}


def shown(calls: list) -> list[tuple[str, list[str]]]:
    return [(call.name, [node.name for node in call.nodes]) for call in calls]


def shown_state(call) -> list[str]:
    """What a call reads from its module, sorted."""
    return sorted(node.target for node in call.graph.find_nodes(op="get_attr"))


def interrupted_program(make) -> ExportedProgram:
    """A program in which a node of the root interrupts the first call of three steps."""
    program = program_of(make, x())
    relu, tanh, sigmoid = list(program.graph.nodes)[1:4]
    stack = dict(list(relu.meta["nn_module_stack"].items())[:2])
    relu.meta["nn_module_stack"] = sigmoid.meta["nn_module_stack"] = stack
    tanh.meta["nn_module_stack"] = dict(list(stack.items())[:1])
    return program


class HandsOn(nn.Module):
    """Hands two inputs on, in the other order, to a module that computes a function of them."""

    def __init__(self, function):
        super().__init__()
        self.inner = zoo.Runs(function)

    def forward(self, x, y, unused):
        return self.inner(y, x)


twice = functools.partial(HandsOn, lambda y, x: (y - x) * y)
in_a_list = functools.partial(HandsOn, lambda y, x: torch.cat([y, x]))
as_a_keyword = functools.partial(HandsOn, lambda y, x: torch.searchsorted(y, y, sorter=x))


def owns_everything():
    """Uses a parameter of two names, a buffer, a constant, and one of a child it doesn't call."""
    weight = nn.Parameter(torch.rand(3))
    owner = Model(
        lambda model, x: model.weight * x + model.buffer - model.constant + model.child.bias,
        weight=weight,
        same=weight,
        buffer=nn.Buffer(torch.rand(3)),
        constant=torch.rand(3),
        child=nn.Linear(3, 3),
    )
    return Steps(owner)


class Subtract(nn.Module):
    def forward(self, x, y):
        return (x - y) * x


class Scale(nn.Module):
    def forward(self, x, factor):
        return x * factor


def hands_its_parameter_down():
    return Model(
        lambda model, x: model.scale(x, model.weight).add(x, alpha=2),
        weight=nn.Parameter(torch.ones(3)),
        scale=Scale(),
    )


def looks_like_the_owner():
    """``low`` uses a parameter of ``lower``."""
    lower = nn.ParameterDict({"weight": nn.Parameter(torch.ones(3))})
    return Model(lambda model, x: model.low(x, model.lower["weight"]), low=Scale(), lower=lower)


def without_unused_specs(program: ExportedProgram) -> ExportedProgram:
    """The program, whose signature lists only what the graph uses: as strict export writes it."""
    specs = program.graph_signature.input_specs
    specs[:] = [spec for spec in specs if "unused" not in str(spec.target)]
    return program


def root_of(lesson, program: ExportedProgram) -> nn.Module:
    """The root of the tree of a program that calls no modules."""
    flat = lesson.flat_of(program)
    root = lesson.UnflattenedModule(lesson.Outliner(flat), flat)
    root.finalize()
    return root


def subtraction(lesson) -> nn.Module:
    graph = torch.fx.Graph()
    left, right = graph.placeholder("left"), graph.placeholder("right")
    graph.output(graph.call_function(torch.sub, (left, right)))
    module = lesson.InterpreterModule(graph)
    module.finalize()
    return module


def uses_several():
    """A module returns three values, one of them unused, and one made by a module inside."""

    def uses(model, x):
        first, second, _ = model.several(x)
        return -second - first

    several = Model(lambda model, x: (x + 1, model.inner(x), x + 2), inner=nn.Tanh())
    return Model(uses, several=several)


class Aliased(nn.Module):
    """One parameter, one buffer, one constant, each under two names, and two views of a buffer."""

    def __init__(self):
        super().__init__()
        self.weight = self.same_weight = nn.Parameter(torch.rand(3))
        self.buffer = self.same_buffer = nn.Buffer(torch.rand(3))
        self.memory = nn.Buffer(torch.rand(6, dtype=torch.double))
        self.even = nn.Buffer(self.memory[::2])
        self.constant = self.same_constant = torch.rand(3)

    def forward(self, x):
        y = x * self.weight + self.same_weight + self.buffer - self.same_buffer
        return y + self.constant * self.same_constant + self.even + self.memory[3:]


ALIASES = [("weight", "same_weight"), ("buffer", "same_buffer"), ("constant", "same_constant")]


class Owner(nn.Module):
    """Owns one thing of every kind, most of it unused."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Parameter(torch.rand(3), requires_grad=False)
        self.unused = nn.Parameter(torch.rand(3))
        self.register_buffer("buffer", torch.rand(3))
        self.register_buffer("unused_buffer", torch.rand(3))
        self.register_buffer("passing", torch.rand(3), persistent=False)
        self.constant = torch.rand(3)

    def forward(self, x):
        return x * self.frozen + self.buffer + self.passing + self.constant


class Follows(nn.Module):
    def __init__(self, *rules):
        super().__init__()
        self.rules = rules
        self.weight = nn.Parameter(torch.rand(3))
        self.bias = nn.Parameter(torch.rand(3))
        self.left, self.right = nn.Sequential(nn.Tanh()), nn.Sequential(nn.Tanh(), nn.Tanh())

    def forward(self, x, turn: int):
        return self.rules[turn](self, x)


def both(first, second) -> Callable[[], nn.Module]:
    follows_both = lambda model, x: (model.follows(x, 0), model.follows(x, 1))
    return lambda: Model(follows_both, follows=Follows(first, second))


def called(path):
    return lambda module, x: module.get_submodule(path)(x)


DIFFERENT = {
    "a number": both(lambda _, x: x * 2, lambda _, x: x * 3),
    "its type": both(lambda _, x: x * 1, lambda _, x: x * 1.0),
    "a node": both(lambda _, x: x * x, lambda _, x: x * 0),
    "a keyword": both(
        lambda _, x: x.sum(0, dtype=torch.float), lambda _, x: x.sum(0, dtype=torch.double)
    ),
    "a list": both(lambda _, x: x.permute((0, 1)), lambda _, x: x.permute((1, 0))),
    "a parameter": both(lambda module, x: x + module.weight, lambda module, x: x + module.bias),
    "a child": both(called("right.0"), called("right.1")),
    "where the child is": both(called("left.0"), called("right.0")),
    "the order": both(lambda _, x: x * 2 - x, lambda _, x: x - x * 2),
    "the result": both(lambda _, x: (x + 1, x + 1 + 1)[0], lambda _, x: (x + 1, x + 1 + 1)[1]),
}


def idle():
    """Has modules that compute nothing, and one that returns nothing which is used."""
    return Model(
        lambda model, x: (model.counter(x), model.identity(x) + model.extras[0])[1],
        counter=Counter(),
        identity=nn.Identity(),
        extras=nn.ParameterList([nn.Parameter(torch.ones(3))]),
        unused=nn.Linear(3, 3),
    )


def two_names():
    """One module under two names, called by both."""
    block = Block()
    return Model(lambda model, x: model.second(model.first(x)), first=block, second=block)


class Mutates(nn.Module):
    """Writes to its inputs, and to a buffer that isn't in the ``state_dict``."""

    def __init__(self):
        super().__init__()
        self.tanh = nn.Tanh()
        self.register_buffer("count", torch.zeros(3), persistent=False)

    def forward(self, x, y):
        self.count.add_(x.sum(0))
        x.add_(self.count)
        y.mul_(self.tanh(x))
        return x + y


Triple = namedtuple("Triple", "first second third")


class Structures(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x, pair, triple, *, named, scale=2):
        y = self.block(x) + pair[0] * named["a"] - named["b"][0] * scale
        return {"sum": y, "rest": (pair, [triple.first, 3, None], Triple(y, x, "text"))}


def structures() -> tuple[tuple, dict]:
    args = (x(3), (x(3), x(3)), Triple(x(3), 5, None))
    return args, {"named": {"a": x(3), "b": [x(3)]}, "scale": 2}


class Keywords(nn.Module):
    def forward(self, pair, *, left, right):
        return [pair[0] + 2 * left - right * pair[1]]


BATCH = {"x": {0: Dim("batch", min=3, max=8)}}


class UsesSizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.reshape = Reshape()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        rows = x.shape[0]
        return self.reshape(self.linear(x)) * rows + x.new_ones(rows, 1)


class Reshape(nn.Module):
    def forward(self, x):
        rows = x.shape[0]
        return x.reshape(rows * 3).reshape(x.shape[0], 3) + rows


transformer = functools.partial(nn.Transformer, 8, 2, 2, 2, 16, dropout=0.0, batch_first=True)
IMAGE = (x(1, 3, 32, 32),)
REAL = {
    "resnet18": (lambda: zoo.torchvision_model("resnet18"), IMAGE),
    "encoder-decoder": (transformer, (x(1, 4, 8), x(1, 3, 8))),
    "resnet50": (lambda: zoo.torchvision_model("resnet50"), IMAGE),
    "mobilenet_v3_small": (lambda: zoo.torchvision_model("mobilenet_v3_small"), IMAGE),
    "vit_b_16": (lambda: zoo.torchvision_model("vit_b_16", image_size=32), IMAGE),
}


@functools.cache
def random_tree(seed: int) -> tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]:
    """A function that makes a random model, and the model's inputs."""
    specimen = random_models.tree(seed)
    return lambda: copy.deepcopy(specimen.model), specimen.inputs
