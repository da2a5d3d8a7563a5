"""``backend``: the plan for the memory, and more functions, modules and programs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.models.backend import (
    FUNCTIONS,
    compiled_by,
    flat,
    inputs,
    no_kernel_waits_for_itself,
    random_program,
)
from tests.suite import equal, holds, same_numbers

# --- the plan for the memory ----------------------------------------------------------------------


def long_chain(x, y):
    for _ in range(10):
        x = x.sin().cos() + y
    return x


class Layer(nn.TransformerEncoderLayer):
    def __init__(self):
        super().__init__(16, 2, 32, batch_first=True, dropout=0.0)


PLANNED = {
    "chain": (long_chain, inputs(100, 100)),
    "branches": (lambda x, y: torch.cat([x.sin(), y.cos() * x.exp(), x[:50].sin()]), inputs(99, 7)),
    "views": (lambda x, y: x.sin().t().view(-1).cos()[:50] + y.sin().view(-1)[:50], inputs(1, 70)),
    "tuples": (lambda x, y: x.sin().split(10)[0].cos() + y.sin().split(10)[1], inputs(20, 5)),
    "layer": (Layer().eval(), inputs(2, 8, 16, count=1)),
}


@pytest.mark.parametrize("name", PLANNED)
def test_values_that_are_needed_together_do_not_share_bytes(lesson, name):
    function, args = PLANNED[name]
    with torch.no_grad():
        places = lesson.plan(flat(lesson, function, *args).graph).places
    for first, a in places.items():
        for second, b in places.items():
            if first is not second and first.meets(second):
                holds(
                    a + first.size <= b or b + second.size <= a,
                    f"places apart for {first.node} and {second.node}",
                    got=(a, b),
                )


@pytest.mark.parametrize("name", PLANNED)
def test_the_arena_is_as_small_as_it_can_be(lesson, name):
    function, args = PLANNED[name]
    with torch.no_grad():
        plan = lesson.plan(flat(lesson, function, *args).graph)
    equal(plan.size, plan.least)


def test_a_view_keeps_its_source_alive(lesson):
    module = flat(lesson, lambda x: x.sin().view(-1) + x.cos().exp().view(-1), torch.ones(4, 4))
    (sin,) = [each for each in lesson.lives(module.graph) if each.node.name == "sin"]
    equal(list(module.graph.nodes)[sin.end].name, "add")


def test_what_is_returned_has_no_place(lesson):
    module = flat(lesson, lambda x: (x.sin().view(-1), x.cos().exp()), torch.ones(4, 4))
    equal([each.node.name for each in lesson.lives(module.graph)], ["cos"])


# --- numbers, on more functions -------------------------------------------------------------------

ACTIVATIONS = (
    "relu gelu silu sigmoid tanh hardswish hardtanh hardsigmoid relu6 elu selu celu leaky_relu "
    "softplus mish softsign logsigmoid tanhshrink"
).split()
FIFTY = {
    **{name: getattr(F, name) for name in ACTIVATIONS},
    "softmax": lambda x: F.softmax(x * 2, -1),
    "softmax_0": lambda x: F.softmax(x * 2, 0),
    "log_softmax": lambda x: F.log_softmax(x * 2, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]) + 1,
    "layer_norm_2": lambda x: F.layer_norm(x, x.shape) + 1,
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]) + 1,
    "normalize": lambda x: F.normalize(x, dim=-1),
    "var": lambda x: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + 1).sqrt(),
    "std": lambda x: x.std(-1) * 2,
    "squares": lambda x: (x**2 + x**3).sum(-1, keepdim=True) * 2,
    "powers": lambda x: (x.abs() + 1) ** 0.5 + 2**x,
    "minmax": lambda x: torch.maximum(x, x.flip(0)) - torch.minimum(x, x * 2),
    "rounded": lambda x: x.round() + x.floor() * 2,
    "where": lambda x: torch.where(x > 0, x * 2, x - 1),
    "masked": lambda x: (x * 2).masked_fill(x < 0, -torch.inf).softmax(-1),
    "bool": lambda x: (x > 0) & (x * 2 < 1),
    "cumsum": lambda x: (x + 1).cumsum(-1) * 2,
    "topk": lambda x: (x + 1).topk(2).values * 2,
    "cat": lambda x: torch.cat([x + 1, x * 2], -1).relu() * 2,
    "index": lambda x: (x + 1)[:, [0, 2]].neg() * 2,
    "strided": lambda x: x[:, ::2] * 2 + 1,
    "transposed": lambda x: (x.t() + 1).t() * 2,
    "expanded": lambda x: (x[:1].expand(3, -1) + 1) * 2,
    "outer": lambda x: x[:, :1] * x[:1] + x,
    "one": lambda x: (x.mean() + 1) * 2,
    "scalar": lambda x: x / x.sum() + x.max(),
    "empty": lambda x: (x[:0] + 1) * 2,
    "double": lambda x: (x.double() + 1) * 2,
    "half": lambda x: (x.half() + 1) * 2,
    "mixed": lambda x: (x.int() + x) * x.bool(),
    "complex": lambda x: (x * 1j + 1).real * 2,
    "matmul": lambda x: (x @ x.t()).relu() * 2 @ x + x,
    "inplace": lambda x: (x + 1).mul_(2).relu_() + x,
    "einsum": lambda x: torch.einsum("ij,kj->ik", x * 2, x + 1).tanh() * 2,
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", FIFTY)
def test_numbers_and_gradients_are_eagers(lesson, name):
    torch._dynamo.reset()
    function = FIFTY[name]
    ours, theirs = (inputs(4, 6, count=1)[0].requires_grad_() for _ in range(2))
    result, expected = compiled_by(lesson.backend, function)(ours), function(theirs)
    same_numbers(result, expected)
    if expected.requires_grad and expected.numel():
        result.abs().sum().backward()
        expected.abs().sum().backward()
        same_numbers(ours.grad, theirs.grad)
    torch._dynamo.reset()


@pytest.mark.compiler
def test_a_transformer_layer_trains(lesson):
    torch._dynamo.reset()
    model, x = Layer().train(), torch.randn(2, 8, 16)
    compiled_by(lesson.backend, model)(x).pow(2).sum().backward()
    ours = [each.grad.clone() for each in model.parameters()]
    model.zero_grad()
    model(x).pow(2).sum().backward()
    same_numbers(ours, [each.grad for each in model.parameters()])
    torch._dynamo.reset()


@pytest.mark.parametrize("seed", range(100, 160))
def test_random_programs_have_eagers_numbers(lesson, seed, monkeypatch):
    """As Python: to compile the kernels of sixty programs takes a minute."""
    function, args = random_program(seed), inputs(5, 5)
    module = flat(lesson, function, *args)
    found = lesson.kernels(module.graph)
    no_kernel_waits_for_itself(found)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.warns(RuntimeWarning, match="C\\+\\+") if found else monkeypatch.context():
        lowered = lesson.lower(module)
    same_numbers(lowered(*args), function(*args))


@pytest.mark.compiler
@pytest.mark.parametrize("seed", range(100, 110))
def test_random_programs_have_eagers_numbers_in_cpp(lesson, seed):
    function, args = random_program(seed), inputs(5, 5)
    same_numbers(lesson.lower(flat(lesson, function, *args))(*args), function(*args))


@pytest.mark.compiler
@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_threads_compute_what_one_does(lesson, name):
    args = inputs(300, 300)
    lowered, before = lesson.lower(flat(lesson, FUNCTIONS[name], *args)), torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(lowered(*args))
    finally:
        torch.set_num_threads(before)
    same_numbers(*results)
