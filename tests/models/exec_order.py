"""Models for ``exec_order``, their records in words, and the records of torch's own watcher.

torch's watcher belongs to FSDP1 and may be removed with it. So its records in torch 2.13 are kept
in ``tests/data/exec_order.json``, written by ``python -m tests.models.exec_order``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn
from torch.fx import Tracer
from torch.nn import functional as F

from tests import zoo
from tests.suite import equal, noting
from tests.zoo import Model

GOLDEN = Path(__file__).parent.parent / "data" / "exec_order.json"
FOREIGN = "(not of this model)"
Record = dict[str, object]


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.rand(shape))


class Mixed(nn.Module):
    """A parameter of a child is used directly, then the child is called, twice."""

    def __init__(self):
        super().__init__()
        self.scale = parameter(4)
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = F.linear(x * self.scale, self.linear.weight)
        return self.linear(self.linear(x)) + self.scale


def tied() -> Model:
    """Two layers share one weight."""
    encode, decode = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
    decode.weight = encode.weight
    return Model(
        lambda model, x: model.decode(model.encode(x)) * model.decode.weight.sum(),
        encode=encode,
        decode=decode,
    )


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(Mixed(), nn.ReLU())
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.inner(x))


class LooksLikeAParameter(nn.Module):
    """The second input has the name of a parameter, which is never used."""

    def __init__(self):
        super().__init__()
        self.weight = parameter(4)

    def forward(self, x, weight):
        return x * weight


class OneSided(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = parameter(4), parameter(4)

    def forward(self, x, left: bool):
        return x * (self.left if left else self.right)


# The parameters that some models use. torch's watcher misses some, and counts an input as one.
MISREAD = {
    "ByKeyword": ["weight", "bias"],
    "InAList": ["left", "right"],
    "LooksLikeAParameter": [],
    "FeedsALayer": ["linear.weight", "linear.bias", "query"],
}
MODELS: dict[str, Callable[[], nn.Module]] = {
    **{model.__name__: model for model in (Mixed, Outer, LooksLikeAParameter)},
    "Tied": tied,
    "Reused": lambda: Model(
        lambda model, x: model.block(model.block(x, left=True), left=False), block=OneSided()
    ),
    "ByKeyword": lambda: Model(
        lambda model, x: F.linear(x, model.weight, bias=model.bias).add(other=model.bias),
        weight=parameter(4, 4),
        bias=parameter(4),
    ),
    "InAList": lambda: Model(
        lambda model, x: x + torch.cat([model.left, model.right])[:4],
        left=parameter(4),
        right=parameter(4),
    ),
    "FeedsALayer": lambda: Model(
        lambda model, x: x + model.linear(model.query),
        query=parameter(1, 4),
        linear=nn.Linear(4, 4),
    ),
    **{f"zoo {name}": lambda name=name: zoo.SMALL[name]().model for name in zoo.SMALL},
    "resnet18": lambda: zoo.resnet18().model,
}


def watched(watcher, model: nn.Module, tracer=None, **options: object):
    """Trace a model while ``watcher`` watches, and return its record."""
    tracer = Tracer() if tracer is None else tracer
    with (
        watcher.patch_tracer(tracer, model),
        noting(cause=(took_a_node, NODES), on=(AttributeError,)),
    ):
        tracer.trace(model, **options)
    return watcher.exec_info


NODES = "the node's own `args` hold nodes; the proxies are in the `args` that the model passed"


def took_a_node(error: Exception) -> bool:
    """Return whether an attribute of proxies was read from a node, or from its arguments."""
    is_missing = isinstance(error, AttributeError) and error.name in ("node", "target")
    return is_missing and (hasattr(error.obj, "users") or isinstance(error.obj, list))


def readable(info, model: nn.Module) -> Record:
    """A record with the names of its modules and parameters."""
    names = {module: name or "(root)" for name, module in model.named_modules()}
    names |= {parameter: name for name, parameter in model.named_parameters()}

    def named(each: nn.Module | nn.Parameter) -> str:
        return names.get(each, FOREIGN)

    return {
        "current": named(info.curr_module),
        "modules": [named(module) for module in info.module_forward_order],
        "usages": {
            named(user): [
                [named(used), [[name, named(each)] for name, each in named_params]]
                for used, named_params in usages
            ]
            for user, usages in info.module_to_param_usage_infos.items()
        },
        "parameters": [named(parameter) for parameter in info.param_forward_order],
        "visited": sorted(named(parameter) for parameter in info.visited_params),
    }


def record(lesson, model: nn.Module, tracer=None) -> Record:
    return readable(watched(lesson.ExecOrderTracer(), model, tracer), model)


def golden(name: str) -> Record:
    return records()[name]


@cache
def records() -> dict[str, Record]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def same_record(actual: Record, expected: Record) -> None:
    """Fail unless two records are the same, field for field.

    torch keeps only the notes of a module's last call; those of earlier calls may come before it.
    """
    for field in ("current", "modules", "parameters", "visited"):
        same_names(field, actual[field], expected[field])
    ours, theirs = actual["usages"], expected["usages"]
    same_names("usages", list(ours), list(theirs))
    for user in theirs:
        is_called_again = expected["modules"].count(user) > 1
        more = len(ours[user]) - len(theirs[user])
        earlier = more if is_called_again and more > 0 else 0
        same_usages(user, ours[user][earlier:], theirs[user])


def same_names(field: str, actual: object, expected: object, *, cause: Any = ()) -> None:
    both = FOREIGN in actual and {*actual} != {FOREIGN}
    causes = [(both, f"`{field}` names another model, too: the record is shared")]
    causes += [cause] if cause else []
    causes += [(sorted(actual) == sorted(expected), f"the order in `{field}` differs")]
    equal(actual, expected, cause=causes)


def same_usages(user: str, actual: list, expected: list) -> None:
    ours, theirs = ([used for used, _ in usages] for usages in (actual, expected))
    if ours == theirs:
        hint = "a call lists its parameters by their names in the called module, and an operation "
        hint += "lists each argument, by its name in the root"
    elif len(ours) < len(theirs):
        hint = "note each call of a module with parameters, and each operation that takes some, "
        hint += "even if they were used before; the target of a parameter's node is its name"
    else:
        hint = "a call is one entry in the caller's list, and an operation that takes parameters "
        hint += "one in the running module's list"
    foreign = (FOREIGN in str(actual), "another model's parameters: the record is shared")
    equal(actual, expected, cause=foreign, hint=f"in the list of {user}: {hint}")


def main() -> None:
    """Write the records that the installed torch makes."""
    from torch.distributed.fsdp._trace_utils import _ExecOrderTracer

    lines = []
    for name, build in MODELS.items():
        model = build()
        words = json.dumps(readable(watched(_ExecOrderTracer(), model), model))
        lines.append(f"{json.dumps(name)}: {words}")
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


# --- FSDP2 ----------------------------------------------------------------------------------------


def shuffled() -> Model:
    """A model that uses its blocks in another order than it registers them."""

    def forward(model, x):
        x = model.stem(x)
        for number in (3, 0, 4, 1, 5, 2):
            x = torch.relu(model.blocks[number](x))
        return model.head(x)

    blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))
    return Model(forward, head=nn.Linear(8, 4), blocks=blocks, stem=nn.Linear(4, 8))


def gathers_of(lesson, how: str) -> tuple[int, int]:
    """The gathers of one forward under FSDP2, and how many of them begin early."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup

    model = shuffled()
    units = [model.head, *model.blocks, model.stem]
    info = watched(lesson.ExecOrderTracer(), model)
    order = lesson.units_in_order(info.module_forward_order, set(units))
    planned = {"alone": [], "registered": units, "recorded": order}[how]
    plan = lesson.prefetch_plan(planned, dict.fromkeys(planned, 1), 2)
    events: list[tuple[str, nn.Module]] = []
    unshard = FSDPParamGroup.unshard

    def noting(group, async_op=False):
        before = group._all_gather_result
        unshard(group, async_op)
        if before is None and group._all_gather_result is not None:
            events.append(("gather", group.modules[0]))

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        for unit in (*units, model):
            fully_shard(unit, mesh=mesh)
        lesson.apply_prefetch(plan)
        for unit in units:
            unit.register_forward_pre_hook(lambda unit, _: events.append(("run", unit)))
        with patch.object(FSDPParamGroup, "unshard", noting):
            model(torch.rand(8, 4))
    finally:
        dist.destroy_process_group()
    runs = [next((u for k, u in events[at:] if k == "run"), None) for at in range(len(events))]
    gathered = [(unit, then) for (kind, unit), then in zip(events, runs) if kind == "gather"]
    return len(gathered), sum(then not in (None, unit) for unit, then in gathered)


if __name__ == "__main__":
    main()
