"""``exec_order`` beyond the core: a tracer that is left as it was, and FSDP2 with your plan."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.fx import Tracer

from tests.models.exec_order import (
    Mixed,
    gathers_of,
    parameter,
    readable,
    record,
    same_names,
    watched,
)
from tests.suite import equal, holds, is_linear
from tests.suite.chance import by_chance
from tests.zoo import Model

# --- the tracer -----------------------------------------------------------------------------------


def test_options_of_the_tracer_still_work(lesson):
    def branches(model, x):
        return x * model.weight if model.weight.dim() == 1 else x

    model, tracer = Model(branches, weight=parameter(2)), Tracer(param_shapes_constant=True)
    info = watched(lesson.ExecOrderTracer(), model, tracer)
    same_names("parameters", readable(info, model)["parameters"], ["weight"])


@pytest.mark.beyond("torch puts the methods back as attributes of the object")
def test_the_tracer_has_no_attribute_that_it_did_not_have_before(lesson):
    tracer = Tracer()
    watched(lesson.ExecOrderTracer(), Mixed(), tracer)
    assigned = (bool, "the bound method was assigned: it now hides the one of the class")
    equal(sorted(vars(tracer).keys() & {"call_module", "create_proxy"}), [], cause=assigned)


class SixArguments(Tracer):
    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None):
        return super().create_proxy(kind, target, args, kwargs, name, type_expr)


@pytest.mark.beyond("torch passes a seventh argument to every `create_proxy`")
def test_a_tracer_whose_create_proxy_takes_six_arguments_can_be_watched(lesson):
    parameters = record(lesson, Mixed(), SixArguments())["parameters"]
    same_names("parameters", parameters, ["scale", "linear.weight", "linear.bias"])


def test_the_work_is_linear_in_the_calls(lesson):
    def work(calls: int) -> Callable[[], object]:
        model = nn.Sequential(*(nn.Linear(1, 1) for _ in range(calls)))
        return lambda: watched(lesson.ExecOrderTracer(), model)

    is_linear(work, 30, "calls")


# --- units inside units


def nested(chance: Random, depth: int = 3) -> nn.Module:
    """A module that calls one to three modules in turn, at most three levels deep."""
    parts = [nested(chance, depth - 1) for _ in range(chance.randint(1, 3))] if depth else []
    return nn.Sequential(*parts)


@by_chance(20)
def test_no_gather_exceeds_the_budget_whatever_runs_inside_what(lesson, chance):
    model = nested(chance)
    units = [module for module in model.modules() if chance.random() < 0.7]
    sizes = {unit: chance.randint(1, 9) for unit in units}
    budget = chance.randint(5, 40)
    fetches = lesson.prefetch_plan(units, sizes, budget)
    held: set[nn.Module] = set()
    gathered = []

    def begin(unit, args):
        held.add(unit)
        for each in (fetch for fetch in fetches if fetch.during is unit):
            held.add(each.module)
            gathered.append(sum(map(sizes.get, held)))

    for unit in units:
        unit.register_forward_pre_hook(begin)
        unit.register_forward_hook(lambda unit, args, result: held.discard(unit))
    model(torch.ones(1))
    equal(len(gathered), len(fetches))
    holds(all(each <= budget for each in gathered), f"at most {budget}", got=gathered)


# --- a real run of FSDP2


EXPECTED = {"alone": (8, 0), "registered": (11, None), "recorded": (8, 7)}


@pytest.mark.slow
@pytest.mark.parametrize("how", EXPECTED)
def test_fsdp_gathers_ahead_in_the_recorded_order(lesson, how):
    fsdp = pytest.importorskip("torch.distributed.fsdp", reason="this torch has no FSDP")
    if not hasattr(fsdp, "fully_shard") or not dist.is_gloo_available():
        pytest.skip("this torch has no FSDP2, or no gloo")
    gathers, early = gathers_of(lesson, how)
    wanted, ahead = EXPECTED[how]
    equal(gathers, wanted)
    if ahead is not None:
        equal(early, ahead)
