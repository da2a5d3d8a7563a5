"""``exec_order``: the record of a forward pass, beside the one that FSDP makes."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.distributed.fsdp._trace_utils import _ExecOrderTracer
from torch.fx import Tracer
from torch.fx.proxy import TracerBase
from torch.nn import functional as F

from tests import zoo
from tests.suite import equal, growth, holds, refuses, same_graph, star_import

LINEAR = 2.5
Record = dict[str, object]


def watched(watcher, model: nn.Module, tracer: Tracer | None = None, **options: object):
    """Trace a model under a watcher's eyes; return its record."""
    tracer = Tracer() if tracer is None else tracer
    with watcher.patch_tracer(tracer, model):
        tracer.trace(model, **options)
    return watcher.exec_info


def readable(info, model: nn.Module) -> Record:
    """A record with names for modules and parameters: what is equal here is the same object."""
    modules = {module: name or "(root)" for name, module in model.named_modules()}
    parameters = {parameter: name for name, parameter in model.named_parameters()}
    return {
        "current": modules[info.curr_module],
        "modules": [modules[module] for module in info.module_forward_order],
        "usages": {
            modules[user]: [
                (modules[used], [(name, parameters[each]) for name, each in named_params])
                for used, named_params in usages
            ]
            for user, usages in info.module_to_param_usage_infos.items()
        },
        "parameters": [parameters[parameter] for parameter in info.param_forward_order],
        "visited": sorted(parameters[parameter] for parameter in info.visited_params),
    }


def record(lesson, model: nn.Module, tracer: Tracer | None = None) -> Record:
    return readable(watched(lesson.ExecOrderTracer(), model, tracer), model)


CAUSES = {
    "current": "the current module isn't put back after a call",
    "modules": "a call is missing, doubled, or recorded after the calls inside it",
    "usages": "a usage is noted for another module, in another order, or under other names",
    "parameters": "a parameter is noted at another use than its first, or not at all",
    "visited": "the set and the list don't hold the same parameters",
}


def same_record(lesson, model: nn.Module, tracer=Tracer) -> None:
    """Fail unless the lesson records what FSDP's own watcher records, field for field."""
    actual = record(lesson, model, tracer())
    expected = readable(watched(_ExecOrderTracer(), model, Tracer()), model)
    for field, cause in CAUSES.items():
        hint = f"compare `{field}` call by call: print when a call begins and when a node is made"
        equal(actual[field], expected[field], cause=cause, hint=hint)
        equal(list(actual["usages"]), list(expected["usages"]), cause="modules in another order")


class Mixed(nn.Module):
    """A parameter of a child is used directly, then the child is called, twice."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(4))
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = F.linear(x * self.scale, self.linear.weight)
        return self.linear(self.linear(x)) + self.scale


class Tied(nn.Module):
    """Two layers share one weight."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(4, 4)
        self.decode = nn.Linear(4, 4, bias=False)
        self.decode.weight = self.encode.weight

    def forward(self, x):
        return self.decode(self.encode(x)) * self.decode.weight.sum()


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(Mixed(), nn.ReLU())
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.inner(x))


class ByKeyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4, 4))
        self.bias = nn.Parameter(torch.rand(4))

    def forward(self, x):
        return F.linear(x, self.weight, bias=self.bias).add(other=self.bias)


class InAList(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Parameter(torch.rand(4)), nn.Parameter(torch.rand(4))

    def forward(self, x):
        return x + torch.cat([self.left, self.right])[:4]


class LooksLikeAParameter(nn.Module):
    """The second input has the name of a parameter, which is never used."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4))

    def forward(self, x, weight):
        return x * weight


class FeedsALayer(nn.Module):
    """A parameter is the input of a module."""

    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.rand(1, 4))
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return x + self.linear(self.query)


class Reused(nn.Module):
    """One block is called twice, and uses its parameter in a way that changes."""

    def __init__(self):
        super().__init__()
        self.block = OneSided()

    def forward(self, x):
        return self.block(self.block(x, left=True), left=False)


class OneSided(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Parameter(torch.rand(4)), nn.Parameter(torch.rand(4))

    def forward(self, x, left: bool):
        return x * (self.left if left else self.right)


class Branching(nn.Module):
    """Can't be traced: it branches on its input."""

    def forward(self, x):
        return x if x.sum() > 0 else -x


class Encoder(nn.Module):
    """A transformer encoder layer as one leaf, between two others."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.layer(self.embed(x)).mean(1))


MODELS = [Mixed, Tied, Outer, ByKeyword, InAList, LooksLikeAParameter, FeedsALayer, Reused, Encoder]


# --- the same record as FSDP ----------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_the_record_is_the_one_of_fsdp(lesson, model):
    same_record(lesson, model())


@pytest.mark.parametrize("name", zoo.SMALL)
def test_the_record_of_a_small_model_is_the_one_of_fsdp(lesson, name):
    same_record(lesson, zoo.SMALL[name]().model)


@pytest.mark.parametrize("seed", range(20))
def test_the_record_of_a_random_module_tree_is_the_one_of_fsdp(lesson, seed):
    same_record(lesson, zoo.grown(seed).model)


def test_what_a_star_import_brings_is_enough_to_record(lesson):
    same_record(star_import(lesson), Mixed())


def test_the_record_of_resnet18_is_the_one_of_fsdp(lesson):
    same_record(lesson, zoo.resnet18().model)


@pytest.mark.parametrize("model", [Mixed, Outer, Encoder])
def test_the_configured_tracer_serves_as_well(lesson, model):
    same_record(lesson, model(), tracer=lambda: lesson.TracingConfig().tracer)


def test_each_configuration_has_a_tracer_of_its_own_and_no_concrete_arguments(lesson):
    first, second = lesson.TracingConfig(), lesson.TracingConfig()
    watched(lesson.ExecOrderTracer(), Mixed(), first.tracer)
    holds(
        isinstance(first.tracer, TracerBase) and first.tracer is not second.tracer,
        "two tracers",
        got=f"{first.tracer} and {second.tracer}",
        cause="a default that is made once is the same object everywhere",
        hint="a dataclass makes one for each: `field(default_factory=...)`",
    )
    equal(first.concrete_args, None, cause="arguments are proxies unless somebody says otherwise")


def test_concrete_arguments_go_into_the_trace(lesson):
    config = lesson.TracingConfig(Tracer(), {"left": True})
    model = OneSided()
    info = watched(
        lesson.ExecOrderTracer(), model, config.tracer, concrete_args=config.concrete_args
    )
    equal(
        readable(info, model)["parameters"],
        ["left"],
        cause="operations on concrete values were recorded, or none",
        hint="what the tracer records is up to the tracer",
    )


# --- what the record says -------------------------------------------------------------------------


def test_modules_come_in_the_order_of_their_calls(lesson):
    equal(
        record(lesson, Outer())["modules"],
        ["(root)", "inner", "inner.0", "inner.0.linear", "inner.0.linear", "inner.1", "last"],
        cause=CAUSES["modules"],
        hint="append the module before it is called: its children are called within",
    )


def test_a_parameter_comes_at_its_first_use_and_only_there(lesson):
    equal(
        record(lesson, Mixed())["parameters"],
        ["scale", "linear.weight", "linear.bias"],
        cause=CAUSES["parameters"],
        hint="ask `visited_params` before you append",
    )


def test_a_shared_parameter_comes_once(lesson):
    equal(
        record(lesson, Tied())["parameters"],
        ["encode.weight", "encode.bias"],
        cause="two names of one parameter were taken for two parameters",
        hint="compare parameters by identity, not by name",
    )


def test_direct_and_indirect_uses_are_told_apart(lesson):
    linear = ("linear", [("weight", "linear.weight"), ("bias", "linear.bias")])
    equal(
        record(lesson, Mixed())["usages"]["(root)"],
        [
            ("(root)", [("scale", "scale")]),
            ("(root)", [("linear.weight", "linear.weight")]),
            linear,
            linear,
            ("(root)", [("scale", "scale")]),
        ],
        cause="an operation notes the current module and names below the root; a call notes the "
        "module that is called and names below that module",
        hint="one entry for each call and each operation that takes parameters",
    )


def test_a_call_of_a_module_without_parameters_is_no_usage(lesson):
    equal(
        record(lesson, nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))["usages"]["0"],
        [],
        cause="the module has no list, or an empty usage was noted",
        hint="every module that is called gets a list; note what has parameters",
    )


def test_each_call_is_noted_in_the_list_of_its_caller(lesson):
    usages = record(lesson, Outer())["usages"]
    equal(
        [[used for used, _ in usages[user]] for user in ("(root)", "inner")],
        [["inner", "last"], ["inner.0"]],
        cause="the usage is noted after the current module was changed",
        hint="note it in the caller's list, then make the callee the current module",
    )


def test_the_root_is_current_again_after_the_trace(lesson):
    equal(record(lesson, Outer())["current"], "(root)", cause=CAUSES["current"])


# --- the oddities of the original -----------------------------------------------------------------


def test_a_second_call_empties_the_list_of_the_module(lesson):
    equal(
        record(lesson, Reused())["usages"]["block"],
        [("block", [("block.right", "block.right")])],
        cause="the list of the first call was kept: sensible, but torch starts afresh",
        hint="set the list at each call; `CompleteExecOrderTracer` is the place to keep it",
    )


def test_parameters_passed_by_keyword_are_not_seen(lesson):
    equal(
        record(lesson, ByKeyword())["parameters"],
        ["weight"],
        cause="keyword arguments were looked at: sensible, but torch doesn't",
        hint="look at the positional arguments; `CompleteExecOrderTracer` looks at all",
    )


def test_parameters_inside_a_list_are_not_seen(lesson):
    equal(
        record(lesson, InAList())["parameters"],
        [],
        cause="the list was looked into: sensible, but torch doesn't",
        hint="look at the arguments themselves; `CompleteExecOrderTracer` looks into them",
    )


def test_an_input_named_like_a_parameter_is_taken_for_it(lesson):
    equal(
        record(lesson, LooksLikeAParameter())["parameters"],
        ["weight"],
        cause="the node's opcode was looked at: sensible, but torch compares names alone",
        hint="compare the target; `CompleteExecOrderTracer` is the place to be right",
    )


# --- the tracer before, meanwhile and after -------------------------------------------------------


def test_watching_leaves_the_graph_as_it_is(lesson):
    model, tracer = Outer(), Tracer()
    with lesson.ExecOrderTracer().patch_tracer(tracer, model):
        graph = tracer.trace(model)
    same_graph(
        graph,
        Tracer().trace(model),
        meta=("nn_module_stack",),
        cause="the replaced method doesn't pass on its arguments, or returns something else",
        hint="call the original with all you get, and return what it returns",
    )


def test_there_is_no_record_before_a_trace_and_a_new_one_for_each(lesson):
    watcher, model = lesson.ExecOrderTracer(), Outer()
    equal(watcher.exec_info, None)
    first = watched(watcher, model)
    second = watched(watcher, model)
    holds(
        first is not second and first.module_forward_order == second.module_forward_order,
        "each trace to have a record of its own",
        cause="the second trace writes into the record of the first",
        hint="make a new `ExecutionInfo` when `patch_tracer` begins",
    )


def test_a_trace_outside_the_block_is_not_recorded(lesson):
    watcher, tracer = lesson.ExecOrderTracer(), Tracer()
    info = watched(watcher, Outer(), tracer)
    calls = len(info.module_forward_order)
    tracer.trace(Outer())
    equal(
        len(info.module_forward_order),
        calls,
        cause="the tracer still has the replaced methods",
        hint="put them back when the block ends",
    )


def test_the_tracer_is_itself_again_after_a_failure(lesson):
    watcher, tracer = lesson.ExecOrderTracer(), Tracer()
    with refuses(ValueError, "control flow", cause="the trace's own error must come through"):
        watched(watcher, Branching(), tracer)
    equal(
        (tracer.call_module, tracer.create_proxy),
        (Tracer.call_module.__get__(tracer), Tracer.create_proxy.__get__(tracer)),
        cause="an error in the block skipped the lines that put the methods back",
        hint="put them back in a `finally`",
    )


def test_after_a_failure_the_record_tells_where(lesson):
    watcher, model = lesson.ExecOrderTracer(), nn.Sequential(nn.ReLU(), Branching())
    with refuses(ValueError, "control flow"):
        watched(watcher, model)
    equal(
        readable(watcher.exec_info, model)["current"],
        "1",
        cause="the current module was put back although the call failed: torch leaves it",
        hint="put it back after the call, and not in a `finally`",
    )


def test_a_method_that_was_replaced_before_is_put_back(lesson):
    tracer, model = Tracer(), Outer()
    calls = []
    original = tracer.call_module

    def counting(module, *how):
        calls.append(module)
        return original(module, *how)

    tracer.call_module = counting
    info = watched(lesson.ExecOrderTracer(), model, tracer)
    equal(len(calls), len(info.module_forward_order) - 1, cause="another's replacement was lost")
    equal(tracer.call_module, counting, hint="restore what was there before, whatever it was")


def test_two_watchers_can_watch_one_tracer(lesson):
    first, second, tracer, model = (
        lesson.ExecOrderTracer(),
        lesson.ExecOrderTracer(),
        Tracer(),
        Mixed(),
    )
    with first.patch_tracer(tracer, model), second.patch_tracer(tracer, model):
        tracer.trace(model)
    equal(
        readable(first.exec_info, model),
        readable(second.exec_info, model),
        cause="the inner watcher replaced the outer one instead of calling it",
        hint="call the method that the tracer had before",
    )


def test_only_this_tracer_is_watched(lesson):
    watcher, tracer, model = lesson.ExecOrderTracer(), Tracer(), Mixed()
    with watcher.patch_tracer(tracer, model):
        Tracer().trace(Outer())
        tracer.trace(model)
    equal(
        len(watcher.exec_info.module_forward_order),
        3,
        cause="the methods of the class were replaced: every tracer is watched",
        hint="replace them on the object",
    )


def test_a_custom_tracer_keeps_its_own_decisions(lesson):
    class NoLeaves(Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    expected = readable(watched(_ExecOrderTracer(), model, NoLeaves()), model)
    equal(
        record(lesson, model, NoLeaves()),
        expected,
        cause="the watcher decides what is a leaf, or bypasses the tracer's own methods",
        hint="call the tracer's original methods, whatever they are",
    )


def test_the_names_that_a_custom_tracer_gives_arrive(lesson):
    class Naming(Tracer):
        def call_module(self, m, forward, args, kwargs):
            path = self.path_of_module(m)
            return self.create_proxy("call_module", path, args, kwargs, f"layer_{path}")

    model, tracer = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), Naming()
    with lesson.ExecOrderTracer().patch_tracer(tracer, model):
        graph = tracer.trace(model)
    equal(
        [node.name for node in graph.nodes],
        ["input_1", "layer_0", "layer_1", "output"],
        cause="the name is the fifth argument of `create_proxy`, and was not passed on",
        hint="pass on exactly what you get",
    )


def test_options_of_the_tracer_still_work(lesson):
    class Shaped(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(2))

        def forward(self, x):
            return x * self.weight if self.weight.dim() == 1 else x

    watcher, tracer, model = lesson.ExecOrderTracer(), Tracer(param_shapes_constant=True), Shaped()
    with watcher.patch_tracer(tracer, model):
        holds(
            "proxy_factory_fn" in inspect.signature(tracer.create_proxy).parameters,
            "create_proxy to have a parameter `proxy_factory_fn`, while it is watched too",
            cause="the tracer reads the signature before it passes that argument",
            hint="keep the original's signature: `functools.update_wrapper`",
        )
        tracer.trace(model)
    equal(readable(watcher.exec_info, model)["parameters"], ["weight"], cause=CAUSES["parameters"])


@pytest.mark.beyond("it puts the methods back as attributes of the object")
def test_the_tracer_has_no_attribute_that_it_did_not_have_before(lesson):
    tracer = Tracer()
    watched(lesson.ExecOrderTracer(), Mixed(), tracer)
    equal(
        sorted(vars(tracer).keys() & {"call_module", "create_proxy"}),
        [],
        cause="the bound method was assigned: it now hides the one of the class",
        hint="delete the attribute, unless the object had one of its own before",
    )


@pytest.mark.beyond("it passes a seventh argument to every create_proxy")
def test_a_tracer_whose_create_proxy_takes_six_arguments_can_be_watched(lesson):
    class Old(Tracer):
        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None):
            return super().create_proxy(kind, target, args, kwargs, name, type_expr)

    equal(
        record(lesson, Mixed(), Old())["parameters"],
        ["scale", "linear.weight", "linear.bias"],
        cause="the replaced method passes more than it was given",
        hint="pass on exactly what you get",
    )


# --- CompleteExecOrderTracer ----------------------------------------------------------------------


def complete(lesson, model: nn.Module) -> Record:
    return readable(watched(lesson.CompleteExecOrderTracer(), model), model)


@pytest.mark.stretch
@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (ByKeyword, ["weight", "bias"]),
        (InAList, ["left", "right"]),
        (LooksLikeAParameter, []),
        (FeedsALayer, ["linear.weight", "linear.bias", "query"]),
        (Mixed, ["scale", "linear.weight", "linear.bias"]),
    ],
)
def test_the_complete_record_has_every_parameter_that_is_used(lesson, model, parameters):
    equal(
        complete(lesson, model())["parameters"],
        parameters,
        cause="arguments by keyword, in lists or of modules aren't looked at, or names deceive",
        hint="the new node knows all its inputs; only a `get_attr` reads a parameter",
    )


@pytest.mark.stretch
def test_the_complete_record_keeps_the_usages_of_every_call(lesson):
    equal(
        complete(lesson, Reused())["usages"]["block"],
        [("block", [("block.left", "block.left")]), ("block", [("block.right", "block.right")])],
        cause="a second call emptied the list",
        hint="override what gives a module its list",
    )


@pytest.mark.stretch
@pytest.mark.parametrize("model", [Mixed, Tied, Outer, Encoder])
def test_the_complete_record_has_the_modules_of_the_other(lesson, model):
    built = model()
    equal(
        complete(lesson, built)["modules"],
        record(lesson, built)["modules"],
        cause="the order of calls has nothing to do with parameters",
        hint="override two small methods, and leave `patch_tracer` alone",
    )


@pytest.mark.stretch
def test_the_work_is_linear_in_the_calls(lesson):
    def work(calls: int) -> Callable[[], object]:
        model = nn.Sequential(*(nn.Linear(1, 1) for _ in range(calls)))
        return lambda: watched(lesson.ExecOrderTracer(), model)

    factor = growth(work, 30)
    holds(
        factor < LINEAR,
        "twice the steps for twice the calls",
        got=f"{factor:.1f} times the steps",
        cause="every call goes through all that was recorded, or through all parameters",
        hint="a set beside the list knows what was visited; a dict knows parameters by name",
    )
