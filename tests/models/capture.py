"""What is captured: models that write, repeat and ask; and what torch makes of the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import zip_longest
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten

from tests.suite import equal, holds, same_numbers
from tests.suite.chance import function_of, several, showing
from tests.suite.programs import export
from tests.zoo import Model

aten = torch.ops.aten


# --- how it is judged -----------------------------------------------------------------------------


def operators(graph: Any) -> list[str]:
    """The operators that a graph calls, in order; ``detach`` and ``alias`` compute nothing.

    Nor does a class: ``make_fx`` builds a named tuple by a node.
    """
    calls = [node.target for node in graph.nodes if node.op == "call_function"]
    names = [str(target) for target in calls if not isinstance(target, type)]
    return [name for name in names if name not in ("aten.detach.default", "aten.alias.default")]


def recorded(recorder_class: Any, function: Callable[[], object], table: Any = None) -> Any:
    """A recorder after it has watched a function; without a table it breaks nothing up."""
    recorder = recorder_class(table or {})
    if table is None:
        recorder.decompose = lambda *_: NotImplemented
    with recorder.fake_mode, recorder:
        function()
    return recorder


def watched(lesson, model: nn.Module, x: Tensor, table: Any = None) -> Any:
    recorder = lesson.Recorder(table or {})
    recorder.finish(recorder.run(model, (x,), {}))
    return recorder.graph


def runs_as_eager(capture: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    """Fail unless the captured graph computes what eager does; return what was captured."""
    captured = capture(model, args, kwargs)
    result = run(captured, model, *args, **kwargs)
    with torch.no_grad():
        expected = model(*args, **kwargs)
    same_numbers(result, expected, hint="compare `module.code` with the model, line by line")
    return captured


def trains_as_eager(lesson, model: nn.Module, *args: Any) -> None:
    """Fail unless the captured graph gives eager's numbers and the model's own gradients."""
    expected, wanted = trained(model, model, *args)
    captured = lesson.capture(model, args)
    result, gradients = trained(model, captured, *model.parameters(), *model.buffers(), *args)
    same_numbers(result, expected)
    for (name, _), our, their in zip(model.named_parameters(), gradients, wanted, strict=True):
        holds(
            (our is None) == (their is None),
            f"a gradient for {name}" if our is None else f"no gradient for {name}",
            got=our,
            hint="a gradient passes what the graph records, and eager's may not, or not so",
        )
        same_numbers(our, their)


def trained(model: nn.Module, call: Any, *args: Any) -> tuple[Any, list[Tensor | None]]:
    """The result of a call, and the gradients of the model's parameters."""
    model.zero_grad()
    result = call(*args)
    results = result if isinstance(result, tuple) else (result,)
    sum(each.pow(2).sum() for each in results).backward()
    return result, [each.grad for each in model.parameters()]


def run(captured: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    """Call what was captured with the model's state and copies of the arguments."""
    state = []
    if isinstance(model, nn.Module):
        state = [*model.parameters(), *model.buffers()]
    leaves = [
        each.clone() if isinstance(each, Tensor) else each
        for each in tree_flatten((args, kwargs))[0]
    ]
    with torch.no_grad():
        return captured(*(each.detach().clone() for each in state), *leaves)


def as_make_fx(model: nn.Module, *args: Any, table: Any = None, **kwargs: Any) -> list[str]:
    """The operators that torch's ``make_fx`` records, without what it leaves unused.

    It records ``relu_`` where a lesson's graph has ``relu``; where its table breaks that up, too,
    ``relu`` and a copy.
    """
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    # As export has it: make_fx itself takes batch norm as one operator that hides its writes.
    norm = aten.native_batch_norm.default
    graph = make_fx(
        lambda state, *args: torch.func.functional_call(model, state, args, kwargs),
        tracing_mode="fake",
        decomposition_table={norm: norm.decompose, **dict(table or {})},
        _allow_non_fake_inputs=True,
    )(state, *args).graph
    graph.eliminate_dead_code()
    names = [name for name in operators(graph) if name != "aten.copy_.default"]
    return [name.replace("_.", ".") for name in names]


@cache
def makes_fx(make: Callable[..., Any], *name: str) -> list[str]:
    """The operators that ``make_fx`` records without gradients, of a model and its arguments."""
    model, args, kwargs = make(*name)
    with torch.no_grad():
        return as_make_fx(model, *args, **kwargs)


def same_operators(graph: Any, expected: list[str]) -> None:
    """Fail unless a graph calls these operators in this order; show the first difference."""
    got = operators(graph)
    for number, (our, their) in enumerate(zip(got, expected, strict=False)):
        holds(our == their, f"{their} as operator {number}", got=our)
    equal(len(got), len(expected), hint="the operators agree as far as both go")


def pure(graph: Any) -> None:
    """Fail if an operator of a graph writes."""
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        holds(
            schema is None or not schema.is_mutable,
            "no operator that writes",
            got=str(node.target),
            hint="each write should have become the operator that returns the result",
        )


@cache
def exports(make: Callable[[], tuple[Any, ...]]) -> Any:
    """The graph that ``torch.export`` makes of a model and its inputs, decomposed by its table."""
    model, *args = make()
    return export(model, *args, functional=True).graph


def stacks(graph: Any) -> list[dict]:
    calls = [node for node in graph.nodes if node.op == "call_function"]
    return [dict(node.meta["nn_module_stack"]) for node in calls]


def same_stacks(graph: Any, expected: Any) -> None:
    """Fail unless the calls of two graphs ran in the same modules; show the first difference."""
    for number, pair in enumerate(zip(stacks(graph), stacks(expected), strict=False)):
        for our, their in zip_longest(*(stack.items() for stack in pair)):
            unnumbered = our and their and our[0] == their[0].partition("@")[0] != their[0]
            holds(
                our == their,
                f"{their} in the stack of call {number}",
                got=our,
                cause=(bool(unnumbered), "a later call of a module has no number"),
            )
    equal(len(stacks(graph)), len(stacks(expected)))


def hooks() -> tuple[int, int]:
    """Return how many hooks torch has for all modules."""
    module = torch.nn.modules.module
    return len(module._global_forward_hooks), len(module._global_forward_pre_hooks)


# --- models ---------------------------------------------------------------------------------------


class Block(nn.Module):
    """A convolution whose activation writes its input."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.norm(self.conv(x)))


class Net(nn.Module):
    """A module inside another, called twice, and one that is tied."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block()])
        self.head = nn.Linear(4, 4)
        self.tail = nn.Linear(4, 4)
        self.tail.weight = self.head.weight

    def forward(self, x):
        (block,) = self.blocks
        return self.tail(self.head(block(block(x))))


def with_linear(body: Callable[[Tensor, Tensor], Tensor]) -> Model:
    """A linear layer, then a function of its result and of the input."""
    torch.manual_seed(0)
    return Model(lambda model, x: body(model.linear(x), x), linear=nn.Linear(4, 4))


class Cached(nn.Module):
    """A plain attribute that is a tensor, and a buffer that isn't in the ``state_dict``."""

    def __init__(self):
        super().__init__()
        self.plain = torch.arange(3.0)
        self.register_buffer("shift", torch.ones(3), persistent=False)
        self.register_buffer("scale", torch.full((3,), 2.0))

    def forward(self, x):
        return (x + self.plain) * self.scale + self.shift - self.plain


# What is special about the others of the zoo's small models is how Python passes the arguments.
OF_OPERATORS = (
    *("EveryOpcode", "NestedContainers", "NamedTuples", "Buffers", "ParametersWithoutForward"),
    *("SharedModules", "DeepNesting", "InPlace", "Operators", "Unpacking", "UnusedResults"),
    *("NoInput", "Attention", "SmallResNet"),
)


# --- random programs

READS = (
    "{x} + {n}",
    "{x}[{n} % len({x})] if {x}.dim() > 1 else {x} * {n}",
    "{x}.reshape(-1)",
    "{x}[..., 1:3] if {x}.shape[-1] > 3 else {x} * 3",
    "{x}[..., ::2]",
    "{x}.transpose(0, -1)",
    "{x}.unsqueeze(0) if {x}.dim() < 3 else {x} * 2",
    "{x}.sub_(1).relu_()",
    "{x}[:1].squeeze_(0).add_({n}) if {x}.dim() > 1 else {x} * 4",
)
WRITES = (
    "{x}.transpose_(0, -1)",
    "{x}.add_({n})",
    "{x}.mul_(2.0)",
    "{x}.copy_(torch.ones_like({x}) * {n})",
    "{x}[..., 0].fill_({n})",
)


def random_writes(chance: Random) -> str:
    """The text of a program of views and writes; it returns each value that it makes."""
    lines, values = ["def forward(x):", "    a, b = x.clone(), x * 2"], ["a", "b"]
    for _ in several(chance, 14):
        step = chance.choice((*READS, *WRITES))
        line = step.format(x=chance.choice(values), n=chance.randrange(9))
        if step in READS:
            values.append("abcdefghijklmnop"[len(values)])
            line = f"{values[-1]} = {line}"
        lines.append(f"    {line}")
    return "\n".join([*lines, f"    return {', '.join(values)}"])


def written_as_eager(capture: Any, chance: Random) -> None:
    """Fail unless a random program gives eager's numbers, and its graph writes nothing."""
    source = random_writes(chance)
    with showing(source):
        program = function_of(source, torch=torch)
        pure(runs_as_eager(capture, program, torch.arange(20.0).view(4, 5) - 7).graph)
