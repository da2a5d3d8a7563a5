"""Hostile input: an answer equal to torch's, or a clear error; never a hang, never nonsense."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from solutions.stretch.custom_tracers import ModulePathTracer, TaggingTracer
from solutions.stretch.exec_order import ExecOrderTracer
from solutions.stretch.inlining import inline_all
from solutions.stretch.inversion import NotInvertibleError, invert
from solutions.stretch.split_module import split_module
from solutions.stretch.tracer import Tracer, symbolic_trace
from solutions.stretch.unflatten import unflatten
from tests.suite import same_graph, same_numbers

SECONDS = 30
X = torch.rand(2, 2)


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """Fail a test that takes half a minute."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"no answer within {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# --- the models -----------------------------------------------------------------------------------


class Cycle(nn.Module):
    """A child that holds its parent."""

    def __init__(self) -> None:
        super().__init__()
        self.child = nn.Sequential(nn.Linear(2, 2))
        self.child.add_module("parent", self)
        self.weight = nn.Parameter(torch.rand(2))
        self.constant = torch.rand(2)

    def forward(self, x):
        return self.child[0](x) * self.weight + self.constant


class Itself(nn.Module):
    """A module that is its own child."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.Linear(2, 2)
        self.add_module("me", self)

    def forward(self, x):
        return self.relu(x)


class SaysEqual(nn.Module):
    """Equal to everything."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1

    def forward(self, x):
        return self.linear(x)


class RaisesOnCompare(SaysEqual):
    def __eq__(self, other: object) -> bool:
        raise ValueError("compared")

    def __hash__(self) -> int:
        raise ValueError("hashed")


class HasEverything(nn.Module):
    """A ``__getattr__`` that knows every name."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def __getattr__(self, name: str) -> object:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return 42

    def forward(self, x):
        return self.linear(x) + self.anything


class RaisesOnBool(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def __bool__(self) -> bool:
        raise ValueError("asked whether it is true")

    def __len__(self) -> int:
        raise ValueError("asked for its length")

    def forward(self, x):
        return self.linear(x)


class Unicode(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.größe = nn.Linear(2, 2)
        self.add_module("层", nn.Linear(2, 2))
        self.Δ = nn.Parameter(torch.rand(2))

    def forward(self, x):
        return getattr(self, "层")(self.größe(x)) * self.Δ


class Grows(nn.Module):
    """Makes its layer at the first call."""

    def forward(self, x):
        if not hasattr(self, "late"):
            torch.manual_seed(0)
            self.late = nn.Linear(2, 2)
        return self.late(x)


def pair(module: type[nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(module(), module())


RUNS: dict[str, Callable[[], nn.Module]] = {
    "cycle": Cycle,
    "itself": Itself,
    "says it is equal": pair(SaysEqual),
    "has every attribute": pair(HasEverything),
    "raises when asked for its truth": pair(RaisesOnBool),
    "unicode": Unicode,
    "grows": Grows,
    "empty": nn.Sequential,
}
CANNOT_BE_EXPORTED = ("cycle", "itself", "grows")
ALL = {**RUNS, "raises when compared": pair(RaisesOnCompare)}
# Where torch gives up: it walks round the cycle, compares modules, or knows only those of before.
TORCH_FAILS = {"cycle", "itself", "says it is equal", "raises when compared", "grows"}


def built(build: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return build()


# --- the tracer and its pieces --------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ALL if name not in TORCH_FAILS])
def test_a_hostile_model_gives_the_graph_of_torch(name):
    model = built(ALL[name])
    same_graph(Tracer().trace(model), torch.fx.Tracer().trace(model), meta=("nn_module_stack",))


@pytest.mark.parametrize("name", RUNS)
def test_a_hostile_model_traced_computes_the_same(name):
    model = built(RUNS[name])
    same_numbers(symbolic_trace(model)(X), model(X))


@pytest.mark.parametrize("name", ALL)
def test_a_hostile_model_gives_every_node_its_own_path(name):
    model, tracer = built(ALL[name]), ModulePathTracer()
    calls = tracer.trace(model).find_nodes(op="call_module")
    assert [tracer.node_to_originating_module[node] for node in calls] == [
        node.target for node in calls
    ]


def test_a_name_with_a_dot_is_recorded_as_torch_does_and_refused_when_a_module_is_made():
    named = type("Named", (nn.Module,), {"forward": lambda self, x: self._modules["a.b"](x)})()
    named._modules["a.b"] = nn.ReLU()
    graph = Tracer().trace(named)
    same_graph(graph, torch.fx.Tracer().trace(named))
    with pytest.raises(AttributeError, match="no attribute 'a'"):
        GraphModule(named, graph)


def nested(depth: int) -> nn.Module:
    module: nn.Module = nn.ReLU()
    for _ in range(depth):
        module = nn.Sequential(module)
    return module


@pytest.mark.parametrize("tracer", [Tracer(), torch.fx.Tracer()], ids=["ours", "torch"])
def test_ten_thousand_calls_inside_each_other_end_in_a_recursion_error(tracer):
    with pytest.raises(RecursionError):
        tracer.trace(nested(10_000))
    assert Tracer().trace(nn.ReLU()) is not None


FUNCTIONS: dict[str, Callable] = {
    "no arguments": lambda: torch.ones(2),
    "no arguments, no tensor": lambda: 3,
    "nothing": lambda: None,
    "a huge integer": lambda x: (x, 10**5000),
    "a huge tensor": lambda x: x + torch.arange(4_000_000).reshape(-1, 2)[:2],
    "not a number": lambda x: x + math.nan - math.inf,
    "a long list": lambda x: (x, list(range(100_000))),
    "a long string": lambda x: (x, "long" * 100_000),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_hostile_function_gives_the_graph_of_torch(name):
    function = FUNCTIONS[name]
    same_graph(Tracer().trace(function), torch.fx.Tracer().trace(function))
    same_graph(TaggingTracer().trace(function), torch.fx.Tracer().trace(function))


def test_a_list_that_holds_itself_ends_in_a_recursion_error():
    endless: list = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        Tracer().trace(lambda x: endless)


def test_a_module_without_forward_says_so():
    with pytest.raises(NotImplementedError, match="forward"):
        Tracer().trace(nn.Module())


# --- the other lessons ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
def test_a_hostile_model_inlined_computes_the_same(name):
    model = built(RUNS[name])
    expected = model(X)
    gm = inline_all(symbolic_trace(model))
    assert not gm.graph.find_nodes(op="call_module")
    same_numbers(gm(X), expected)


@pytest.mark.parametrize("name", RUNS)
def test_a_hostile_model_split_computes_the_same(name):
    model = built(RUNS[name])
    expected, gm = model(X), symbolic_trace(model)
    numbers = {node: number for number, node in enumerate(gm.graph.nodes)}
    same_numbers(split_module(gm, model, numbers.__getitem__)(X), expected)


# export itself can't walk round a cycle, and it doesn't export the grown layer
@pytest.mark.parametrize("name", [name for name in RUNS if name not in CANNOT_BE_EXPORTED])
def test_a_hostile_model_unflattened_computes_what_was_exported(name):
    # which isn't what the model computes where torch takes its modules for equal
    program = torch.export.export(built(RUNS[name]), (X,))
    same_numbers(unflatten(program)(X), program.module()(X))


@pytest.mark.parametrize("name", RUNS)
def test_the_order_of_a_hostile_model_names_each_module_that_was_called(name):
    model, watcher, tracer = built(RUNS[name]), ExecOrderTracer(), Tracer()
    with watcher.patch_tracer(tracer, model):
        graph = tracer.trace(model)
    leaves = [node.target for node in graph.nodes if node.op == "call_module"]
    order = watcher.exec_info.module_forward_order
    assert [id(model.get_submodule(path)) for path in leaves] == [
        id(module) for module in order if isinstance(module, nn.Linear)
    ]


NOT_A_CHAIN: dict[str, Callable] = {
    **{name: FUNCTIONS[name] for name in ("no arguments", "no arguments, no tensor", "nothing")},
    "a constant": lambda x: 3,
    "two values": lambda x: (x, x),
    "not a number": lambda x: x * math.nan,
    "infinity": lambda x: x + math.inf,
    "text": lambda x: x + "text",
}


@pytest.mark.parametrize("name", NOT_A_CHAIN)
def test_what_is_no_chain_of_numbers_has_no_inverse(name):
    with pytest.raises(NotInvertibleError, match="cannot invert node"):
        invert(NOT_A_CHAIN[name])


@pytest.mark.parametrize("build", [Cycle, Itself, pair(SaysEqual), Grows])
def test_a_hostile_model_without_an_inverse_is_refused(build):
    with pytest.raises(NotInvertibleError):
        invert(built(build))


def test_an_empty_model_is_its_own_inverse():
    same_numbers(invert(nn.Sequential())(X), X)


def test_a_callee_that_calls_itself_without_end_cannot_be_inlined():
    class Endless(nn.Linear):
        def forward(self, x):
            return self(x)

    class Leaf(Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    model = nn.Sequential(Endless(2, 2))
    gm = GraphModule(model, Leaf().trace(model))
    with pytest.raises((ValueError, RecursionError)):
        inline_all(gm)
    assert [node.op for node in gm.graph.nodes] == ["placeholder", "call_module", "output"]
