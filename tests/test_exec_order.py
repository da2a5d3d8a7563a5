"""``exec_order``: the record of a forward pass, beside the one that torch's own watcher made."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx import Graph, Proxy, Tracer

from tests.models.exec_order import (
    MISREAD,
    MODELS,
    Mixed,
    OneSided,
    Outer,
    golden,
    parameter,
    readable,
    record,
    same_names,
    same_record,
    same_usages,
    watched,
)
from tests.suite import equal, holds, is_value, refuses, same_graph
from tests.zoo import Model

# --- step 1: the plan -----------------------------------------------------------------------------


def plan(lesson, sizes, budget: int, order=()) -> list[tuple[int, int]]:
    """A plan for modules of these sizes, by their positions in the order of use."""
    order = order or [nn.Identity() for _ in sizes]
    fetches = lesson.prefetch_plan(order, dict(zip(order, sizes, strict=True)), budget)
    return [(order.index(fetch.during), order.index(fetch.module)) for fetch in fetches]


def test_units_are_in_the_order_of_their_first_use(lesson):
    first, second, unused = (nn.Linear(2, 2) for _ in range(3))
    model = nn.Sequential(second, first, unused)
    names = {first: "first", second: "second", unused: "unused", model: "model"}
    order = iter([model, second, first, second])
    units = lesson.units_in_order(order, (first, second, unused))
    holds(
        units == [second, first],
        "the list [second, first]",
        got=[names[unit] for unit in units],
        cause=[
            (isinstance(units, set), "a set has no order"),
            (is_value(["first", "second"]), "this is the units' own order, or that of last use"),
            (is_value([]), "the order may be an iterator, which can be read only once"),
        ],
    )


PLANS = {
    "budget 1": ([1] * 6, 1, []),
    "budget 2": ([1] * 6, 2, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]),
    "budget 3": ([1] * 6, 3, [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5)]),
    "budget 9": ([1] * 6, 9, [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]),
    "bytes count, not modules": ([3, 1, 1, 2, 1], 5, [(0, 1), (0, 2), (1, 3), (1, 4)]),
    "one never fits, and the others go on": ([1, 5, 1, 1], 2, [(2, 3)]),
}


@pytest.mark.parametrize("case", PLANS)
def test_a_module_is_gathered_as_early_as_the_budget_allows(lesson, case):
    sizes, budget, wanted = PLANS[case]
    got = plan(lesson, sizes, budget)
    same = [module for _, module in got] == [module for _, module in wanted]
    equal(
        got,
        wanted,
        cause=[
            (same and got > wanted, "a module is gathered later than it could be"),
            (is_value([fetch[::-1] for fetch in wanted]), "`during` and `module` are swapped"),
            (lambda got: (0, 2) in got and (0, 1) not in got, "a module overtakes an earlier one"),
            (
                budget == 1,
                "no two modules fit: the running one counts too, and one that is gathered when "
                "its turn comes has no fetch",
            ),
        ],
    )


@pytest.mark.parametrize(
    ("budget", "wanted"),
    [(2, [(0, 1), (2, 3)]), (3, [(0, 1), (0, 2), (2, 3), (2, 4)])],
    ids=["budget 2", "budget 3"],
)
def test_a_module_is_held_until_those_inside_it_have_run(lesson, budget, wanted):
    blocks = [nn.Sequential(nn.Sequential(nn.Identity())) for _ in range(2)]
    order = [module for block in blocks for module in (block, block[0][0])] + [nn.Identity()]
    equal(
        plan(lesson, [1] * 5, budget, order),
        wanted,
        cause=(
            lambda got: (1, budget) in got,
            "the outer module's memory was counted as free while an inner one runs: a module has "
            "run when the last module inside it has, at any depth",
        ),
    )


def test_a_module_that_was_used_before_the_one_around_it_is_not_waited_for(lesson):
    outer = nn.Sequential(nn.Identity())
    equal(plan(lesson, [1] * 3, 2, [outer[0], outer, nn.Identity()]), [(0, 1), (1, 2)])


def test_fsdp_is_told_once_for_each_module(lesson):
    told = []

    class Unit(nn.Module):
        def set_modules_to_forward_prefetch(self, modules):
            told.append((names[self], modules))

    a, b, c, d = units = [Unit() for _ in range(4)]
    names = dict(zip(units, "abcd", strict=True))
    fetches = lesson.Fetch(a, c), lesson.Fetch(b, d), lesson.Fetch(a, b)
    lesson.apply_prefetch(iter(fetches))
    again = "a second call for the same module replaces the first"
    holds(
        told == [("a", [c, b]), ("b", [d])],
        "[('a', [c, b]), ('b', [d])], each with a list",
        got=[
            (name, type(modules).__name__, [names[each] for each in modules])
            for name, modules in told
        ],
        cause=(lambda got: [name for name, *_ in got].count("a") > 1, again),
    )


# --- step 2: the `with` block ---------------------------------------------------------------------


def test_there_is_no_record_before_a_trace_and_a_new_one_for_each(lesson):
    watcher, model = lesson.ExecOrderTracer(), Outer()
    equal(watcher.exec_info, None)
    records = []
    for _ in range(2):
        with watcher.patch_tracer(Tracer(), model):
            records.append(watcher.exec_info)
    hint = "make a new `ExecutionInfo` when `patch_tracer` begins"
    holds(isinstance(records[0], lesson.ExecutionInfo), "a record", got=records[0], hint=hint)
    holds(records[0] is not records[1], "a record of its own for each block", hint=hint)
    holds(watcher.exec_info is records[1], "the record of the last block, after it, too")


def methods(tracer: Tracer) -> tuple[object, object]:
    return tracer.call_module, tracer.create_proxy


def test_the_block_replaces_the_methods_of_one_object(lesson):
    tracer, other = Tracer(), Tracer()
    of_other = methods(other)
    with lesson.ExecOrderTracer().patch_tracer(tracer, Outer()):
        on_class = (lambda got: got != of_other, "the methods were replaced on the class")
        equal(methods(other), of_other, cause=on_class, hint="replace them on the object")


def test_the_tracer_is_itself_again_after_a_failure(lesson):
    tracer = Tracer()
    before = methods(tracer)
    with (
        refuses(LookupError, "on purpose", cause="the block's own error must come through"),
        lesson.ExecOrderTracer().patch_tracer(tracer, Outer()),
    ):
        raise LookupError("on purpose")
    equal(methods(tracer), before, hint="put both methods back, also after an error")


def test_a_method_that_was_replaced_before_is_put_back(lesson):
    tracer, model = Tracer(), Outer()
    calls = []
    original = tracer.call_module

    def counting(module, *how):
        calls.append(module)
        return original(module, *how)

    tracer.call_module = counting
    watcher = lesson.ExecOrderTracer()
    with watcher.patch_tracer(tracer, model):
        tracer.trace(model)
    equal(len(calls), 6, hint="call what was there before")
    equal(tracer.call_module, counting, hint="restore what was there before, whatever it was")


def test_the_replaced_methods_get_the_original_first(lesson):
    if not hasattr(lesson.ExecOrderTracer, "record_call"):
        pytest.skip("torch's methods have other names")

    class Noting(lesson.ExecOrderTracer):
        def record_call(self, original, *how):
            calls.append((original, len(how)))

        def record_node(self, original, *how, **options):
            calls.append((original, len(how) + len(options)))

    calls, tracer, watcher, model = [], Tracer(), Noting(), Outer()
    before = methods(tracer)
    with watcher.patch_tracer(tracer, model):
        tracer.call_module(nn.ReLU(), None, (), {})
        tracer.create_proxy("placeholder", "x", (), {})
    hint = "`record_call(call_module, module, …)`, `record_node(create_proxy, kind, …)`"
    equal(calls, [(method, 4) for method in before], hint=hint)
    names = [name for name, _ in model.named_parameters()]
    hint = "`patch_tracer` sets `parameters`: those of inner modules, too, and no buffers"
    equal([*watcher.parameters], names, hint=hint)
    with watcher.patch_tracer(tracer, nn.BatchNorm1d(2)):
        equal([*watcher.parameters], ["weight", "bias"], hint=hint)


def test_a_node_that_is_made_while_watched_has_its_proxy(lesson):
    tracer, model = Tracer(), Outer()
    tracer.root, tracer.graph = model, Graph()
    with lesson.ExecOrderTracer().patch_tracer(tracer, model):
        proxy = tracer.create_proxy("placeholder", "x", (), {})
    lost = (proxy is None, "the replacement of `create_proxy` returns nothing")
    holds(isinstance(proxy, Proxy), "the proxy of the tracer's own method", got=proxy, cause=lost)


class Naming(Tracer):
    def call_module(self, m, forward, args, kwargs):
        path = self.path_of_module(m)
        return self.create_proxy("call_module", path, args, kwargs, name=f"layer_{path}")


def test_watching_leaves_the_graph_as_it_is(lesson):
    model, tracer = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), Naming()
    with lesson.ExecOrderTracer().patch_tracer(tracer, model):
        graph = tracer.trace(model)
    hint = "call the original with all you get, and return what it returns"
    same_graph(graph, Naming().trace(model), hint=hint)


# --- step 3: a module is called -------------------------------------------------------------------


def test_modules_come_in_the_order_of_their_calls(lesson):
    same_names(
        "modules",
        record(lesson, Outer())["modules"],
        ["(root)", "inner", "inner.0", "inner.0.linear", "inner.0.linear", "inner.1", "last"],
        cause=(lambda got: got[-2:] == ["inner", "last"], "a module was noted after its call"),
    )


def test_each_call_is_noted_in_the_list_of_its_caller(lesson):
    usages = record(lesson, Outer())["usages"]
    equal(
        [[used for used, _ in usages[user]] for user in ("(root)", "inner")],
        [["inner", "last"], ["inner.0"]],
        cause=[
            (
                is_value([["(root)", "(root)"], ["inner"]]),
                "an entry has the caller, and not the module that is called",
            ),
            (
                lambda found: found in ([[], ["inner"]], [[], []]),
                "a call is in the list of the module that is called, not of its caller: "
                "note a call before the called module becomes the current one",
            ),
            (
                lambda found: "inner.0.linear" in found[0],
                "after a call, the root was the current module, and not the caller",
            ),
            (
                is_value([["inner"], ["inner.0"]]),
                "after a call, the caller wasn't the current module again",
            ),
        ],
    )


def test_a_usage_has_a_module_and_its_parameters(lesson):
    watcher = lesson.ExecOrderTracer()
    watched(watcher, model := nn.Sequential(nn.Linear(2, 2)))
    (usage,) = watcher.exec_info.module_to_param_usage_infos[model]
    holds(isinstance(usage.named_params, list), "a list", got=usage.named_params)
    got = usage.module, [name for name, _ in usage.named_params]
    equal(got, (model[0], ["weight", "bias"]), hint="a call has the names in the called module")


def test_a_call_gets_its_arguments_and_uses_no_parameter_yet(lesson):
    if not hasattr(lesson.ExecOrderTracer, "record_call"):
        pytest.skip("torch's methods have other names")
    watcher, layer = lesson.ExecOrderTracer(), nn.Linear(2, 2)
    with watcher.patch_tracer(Tracer(), nn.Sequential(layer)):
        got = watcher.record_call(lambda *how: how, layer, "forward", (1,), {"key": 2})
    equal(got, (layer, "forward", (1,), {"key": 2}), hint="pass on what you got after `module`")
    equal(watcher.exec_info.param_forward_order, [], hint="only a node uses parameters")


def test_a_call_of_a_module_without_parameters_isnt_a_usage(lesson):
    usages = record(lesson, nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))["usages"]
    hint = "each called module has a list; note a call only if the module has parameters"
    equal((usages.get("0"), len(usages["(root)"])), ([], 1), hint=hint)


def test_after_a_failure_the_record_shows_where_it_happened(lesson):
    branches = Model(lambda model, x: x if x.sum() > 0 else -x, scale=parameter(4))
    watcher, model = lesson.ExecOrderTracer(), nn.Sequential(nn.ReLU(), branches)
    with refuses(ValueError, "control flow"):
        watched(watcher, model)
    hint = "put the current module back after the call, not in a `finally`"
    found = readable(watcher.exec_info, model)
    equal(found["current"], "1", hint=hint)
    missing = not any(found["usages"].values())
    noted = (missing, "the call that fails isn't noted: note a call before you make it")
    equal(found["usages"]["(root)"], [["1", [["scale", "1.scale"]]]], cause=noted)


# --- step 4: a node is made -----------------------------------------------------------------------


def test_a_parameter_is_listed_at_its_first_use_only(lesson):
    same_names(
        "parameters",
        record(lesson, Mixed())["parameters"],
        wanted := ["scale", "linear.weight", "linear.bias"],
        cause=(
            lambda found: (
                len(found) < len(wanted)
                and record(lesson, Mixed(), lesson.TracingConfig().tracer)["parameters"] == wanted
            ),
            "torch's proxies weren't found: with your own tracer, nothing is missing",
        ),
    )


def test_a_parameter_that_an_operation_is_given_twice_is_named_twice(lesson):
    scale = parameter(4).requires_grad_(False)
    model = Model(lambda model, x: x + torch.mul(model.scale, model.scale), scale=scale)
    usages = record(lesson, model)["usages"]["(root)"]
    same_usages("(root)", usages, [["(root)", [["scale", "scale"], ["scale", "scale"]]]])


def test_a_leaf_uses_the_parameters_of_all_modules_inside_it(lesson):
    watcher = lesson.ExecOrderTracer()
    watched(watcher, model := nn.Sequential(nn.TransformerEncoderLayer(2, 1, 2)))
    usages = watcher.exec_info.module_to_param_usage_infos[model[0]]
    got = [name for usage in usages for name, _ in usage.named_params]
    hint = "all its parameters, by their names in the leaf, in the leaf's own list"
    equal(got, [name for name, _ in model[0].named_parameters()], hint=hint)


def test_a_method_uses_its_parameter_each_time(lesson):
    model = Model(lambda model, x: x * model.scale.relu() + model.scale, scale=parameter(4))
    info = watched(lesson.ExecOrderTracer(), model)
    found = readable(info, model)["usages"]["(root)"]
    same_usages("(root)", found, [["(root)", [["scale", "scale"]]]] * 2)
    holds(
        info.visited_params == {model.scale},
        "`visited_params` to have the same as `param_forward_order`",
        got=info.visited_params,
    )


def test_a_node_is_created_with_all_arguments(lesson):
    if not hasattr(lesson.ExecOrderTracer, "record_node"):
        pytest.skip("torch's methods have other names")
    watcher, tracer, made = lesson.ExecOrderTracer(), Tracer(), []
    tracer.graph = Graph()

    def create(*how, **options):
        made.append((how, options))
        return tracer.proxy(tracer.graph.placeholder("x"))

    with watcher.patch_tracer(tracer, nn.Identity()):
        watcher.record_node(create, "placeholder", "x", (), {}, "name", type_expr=int)
    equal(made, [(("placeholder", "x", (), {}, "name"), {"type_expr": int})])


def test_a_name_is_that_of_a_parameter_of_the_root(lesson):
    graph, found = Graph(), {"inner.scale": parameter(4)}
    nodes = [graph.get_attr("running_mean"), graph.get_attr("inner.scale")]
    equal([name for name, _ in lesson.named(found, nodes)], ["inner.scale"])


@pytest.mark.parametrize("name", MISREAD)
def test_parameters_that_torch_misreads_may_be_recorded_either_way(lesson, name):
    theirs, used = golden(name)["parameters"], MISREAD[name]
    got = record(lesson, MODELS[name]())["parameters"]
    either = f"{theirs} as in torch, or {used}, which are used"
    holds(sorted(got) in (sorted(theirs), sorted(used)), either, got=got)


@pytest.mark.parametrize("model", [Mixed, Outer])
def test_the_configured_tracer_can_be_watched(lesson, model):
    built = model()
    actual, wanted = record(lesson, built, lesson.TracingConfig().tracer), golden(model.__name__)
    own = "with torch's tracer, nothing is missing: look for your own proxies as well"
    found = (lambda found: record(lesson, model())["parameters"] == wanted["parameters"], own)
    same_names("parameters", actual["parameters"], wanted["parameters"], cause=found)
    same_record(actual, wanted)


# --- the whole: any tracer ------------------------------------------------------------------------


def test_each_configuration_has_its_own_tracer_and_no_concrete_arguments(lesson):
    first, second = lesson.TracingConfig(), lesson.TracingConfig()
    watched(lesson.ExecOrderTracer(), Mixed(), first.tracer)
    hint = "create one for each: `field(default_factory=...)`"
    holds(first.tracer is not second.tracer, "two tracers", got=first.tracer, hint=hint)
    equal(first.concrete_args, None, hint="without concrete arguments, all inputs are proxies")


def test_concrete_arguments_are_used_in_the_trace(lesson):
    config = lesson.TracingConfig(Tracer(), {"left": True})
    model, watcher = OneSided(), lesson.ExecOrderTracer()
    info = watched(watcher, model, config.tracer, concrete_args=config.concrete_args)
    same_names("parameters", readable(info, model)["parameters"], ["left"])


# --- the whole: the same record as torch ----------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in MODELS if name not in MISREAD])
def test_the_record_equals_torchs(lesson, name):
    same_record(record(lesson, MODELS[name]()), golden(name))
