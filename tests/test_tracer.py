"""``tracer``: your pieces as an engine, beside ``torch.fx.Tracer`` on the same models."""

from __future__ import annotations

import operator
from collections import OrderedDict
from contextlib import nullcontext
from inspect import getattr_static

import pytest
import torch
from torch import nn
from torch.fx import Graph, Proxy

from tests import zoo
from tests.models.tracer import (
    call_targets,
    in_progress,
    is_leaf,
    restored,
    same_trace,
)
from tests.suite import equal, holds, is_value, noting, refuses, same_graph, same_numbers
from tests.suite.plugin import impl_of

torch_says = torch.fx._symbolic_trace.is_fx_symbolic_tracing


# --- step 1: is_leaf_module -----------------------------------------------------------------------


def test_a_module_is_a_leaf_if_its_class_was_written_in_torch_nn(lesson):
    homes = ["torch.nn.parallel", "torch.nn.modules.linear", "torch.ao.nn.quantized.modules.linear"]
    others = ["torchvision.models.resnet", "torch.fx.graph_module", "my.torch.nn"]
    equal(
        [is_leaf(lesson, home) for home in homes + others],
        [True, True, True, False, False, False],
        hint="`m.__module__` has to begin with `torch.nn` or `torch.ao.nn`",
    )


def test_of_the_modules_with_children_a_sequential_is_not_a_leaf(lesson):
    derived = type("Fused", (nn.Sequential,), {"__module__": "torch.ao.nn.intrinsic"})()
    modules = (nn.ModuleList(), nn.TransformerEncoderLayer(4, 2), nn.Sequential(), derived)
    equal(
        [lesson.Tracer().is_leaf_module(m, "0") for m in modules],
        [True, True, False, False],
        hint="where was the class written? `nn.Sequential` only calls others, and so do subclasses",
    )


# --- step 2: patched_modules ----------------------------------------------------------------------


@pytest.fixture
def patching(lesson) -> type:
    """The lesson's tracer, in which the patching is a step of its own."""
    if lesson.Tracer is torch.fx.Tracer:
        pytest.skip("torch patches inside of `trace`")
    return lesson.Tracer


def test_in_the_block_calling_a_module_calls_call_module(patching):
    def call_module(m, forward, args, kwargs):
        calls.append((m, args, kwargs))
        return "the tracer's answer"

    calls, relu, tracer = [], type("Own", (nn.ReLU,), {})(), patching()
    tracer.call_module = call_module
    with tracer.patched_modules():
        answer = relu(1, key=2)
        taken = (lambda error: "multiple values" in str(error), "a keyword met your own parameter")
        with noting(cause=taken, hint="end your own positional parameters with `/`"):
            relu(module=3, m=4)
    equal(
        [answer, calls],
        ["the tracer's answer", [(relu, (1,), {"key": 2}), (relu, (), {"module": 3, "m": 4})]],
        cause=(lambda got: got[0] is None and calls, "the tracer's answer wasn't returned"),
    )


def test_in_the_block_forward_runs_a_module_as_usual(patching):
    tracer = patching()
    tracer.call_module = lambda m, forward, args, kwargs: forward(*args, **kwargs)
    tracer.getattr = lambda attr, attr_val, parameter_proxy_cache: attr_val
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    unhooked = model(torch.ones(1, 2))
    model[0].register_forward_hook(lambda module, args, output: output + 1)
    expected = model(torch.ones(1, 2))
    with tracer.patched_modules():
        actual = model(torch.ones(1, 2))
    same_numbers(
        actual,
        expected,
        cause=(lambda got: torch.equal(got, unhooked), "`forward` has to run the hooks, too"),
    )


def test_in_the_block_reading_an_attribute_calls_getattr(patching):
    def getattr(attr, attr_val, parameter_proxy_cache):
        sizes.append(len(parameter_proxy_cache))
        looks.append((attr, attr_val is values.get(attr), parameter_proxy_cache))
        parameter_proxy_cache[attr] = "kept"
        return attr.upper()

    looks, sizes, model, tracer = [], [], nn.BatchNorm1d(2), patching()
    model.child = nn.ReLU()
    values = {**model._parameters, **model._buffers, **model._modules}
    names = ["weight", "running_mean", "child"]
    tracer.getattr = getattr
    for _ in range(2):
        looks.clear()
        with tracer.patched_modules():
            found = [operator.attrgetter(name)(model) for name in names]
            absent = hasattr(model, "absent")
    kept = dict.fromkeys(names, "kept")
    equal(
        [found, looks, absent],
        [["WEIGHT", "RUNNING_MEAN", "CHILD"], [(name, True, kept) for name in names], False],
        cause=[
            (absent, "a name that the module lacks has to raise an `AttributeError`"),
            (len({id(cache) for *_, cache in looks}) == 3, "each read was given a new dict"),
        ],
    )
    equal(sizes, [0, 1, 2] * 2, hint="the dict is empty when a block begins")


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_after_the_block_everything_is_restored(patching, error):
    with refuses(error, cause="the error was swallowed") if error else nullcontext():
        with patching().patched_modules():
            inside = [restored(), torch_says()]
            if error:
                raise error
    equal(
        [*inside, restored(), torch_says()],
        [False, True, True, False],
        cause=[
            (lambda got: not got[1], "torch's flag wasn't set"),
            (lambda got: not got[2], "`nn.Module` is still patched: restore it in a `finally`"),
            (lambda got: got[3], "torch's flag wasn't restored: that belongs in a `finally`"),
        ],
    )


def test_after_an_inner_block_the_outer_one_goes_on(patching):
    seen, linear = [], nn.Linear(2, 2)

    class Noting(patching):
        def call_module(self, m, forward, args, kwargs):
            seen.append((self.name, "call"))
            return forward(*args, **kwargs)

        def getattr(self, attr, attr_val, parameter_proxy_cache):
            seen.append((self.name, attr))
            return attr_val

    outer, inner = Noting(), Noting()
    outer.name, inner.name = "outer", "inner"
    with outer.patched_modules():
        with inner.patched_modules():
            linear(torch.ones(1, 2))
            flags = [torch_says()]
        flags.append(torch_says())
        linear(torch.ones(1, 2))
    both = [(name, what) for name in ("inner", "outer") for what in ("call", "weight", "bias")]
    equal(
        [seen, flags, restored(), torch_says()],
        [both, [True, True], True, False],
        cause=[
            (seen == both[:3], "the inner trace restored the originals: the outer one saw no more"),
            (("outer", "call") in seen[:3], "the outer tracer saw a call of the inner"),
            (("outer", "weight") in seen[:3], "the outer tracer saw a read of the inner"),
            (flags == [True, False], "torch's flag became False, and not what it was before"),
        ],
    )


# --- step 3: create_node --------------------------------------------------------------------------


def standing_at(tracer: torch.fx.Tracer, root: nn.Module) -> Proxy:
    """The proxy of an input, in a new graph of the tracer."""
    tracer.root, tracer.graph = root, Graph()
    return tracer.create_proxy("placeholder", "x", (), {})


def test_a_node_remembers_the_scope_in_which_it_was_made(lesson):
    tracer = lesson.Tracer()
    outside = standing_at(tracer, nn.Sequential()).node
    tracer.scope = type(tracer.scope)("layer", nn.Sequential)
    inside = tracer.create_node("call_function", abs, (1,), {})
    equal(
        {name: tuple(scope) for name, scope in tracer.node_name_to_scope.items()},
        {outside.name: ("", None), inside.name: ("layer", nn.Sequential)},
        hint="in `create_node`, store `self.scope` under the name of the new node",
    )
    equal("nn_module_stack" in outside.meta, False, hint="store the stack only if it has an entry")


def test_a_node_keeps_the_module_stack_of_its_moment(lesson):
    tracer, layer = lesson.Tracer(), ("layer", nn.Sequential)
    standing_at(tracer, nn.Sequential())
    tracer.module_stack = OrderedDict(outer=("outer", nn.Sequential), layer=layer)
    stack = tracer.module_stack.copy()
    node = tracer.create_node("call_function", abs, (1,), {}, "size", int)
    tracer.module_stack.clear()
    equal(
        [node.name, node.type, node.meta.get("nn_module_stack")],
        ["size", int, stack],
        cause=(lambda got: got[2] == {}, "the node holds the tracer's own stack, which changes"),
        hint="pass all arguments on, and store a copy of `self.module_stack`",
    )


# --- step 4: call_module --------------------------------------------------------------------------


def test_a_node_carries_the_module_call_that_recorded_it(lesson):
    tracer, model = lesson.Tracer(), nn.Sequential(nn.Sequential())
    standing_at(tracer, model)
    past = (lambda error: "forward() missing" in str(error), "`m.forward` ran, and not `forward`")
    with noting(cause=past, hint="call `forward`, as you were given it"):
        inside = tracer.call_module(
            model[0], lambda: tracer.create_node("call_function", abs, (1,), {}), (), {}
        )
    scope = tracer.node_name_to_scope.get(inside.name, ())
    equal(
        [tuple(scope), dict(inside.meta.get("nn_module_stack", {}))],
        [("0", nn.Sequential), {"0": ("0", nn.Sequential)}],
        cause=(lambda got: got[1] == {}, "the node has no module stack, or shares the tracer's"),
    )


def test_the_call_of_a_leaf_is_a_node_and_the_answer_is_its_proxy(lesson):
    tracer, model = lesson.Tracer(), nn.Sequential(nn.ReLU())
    x = standing_at(tracer, model)
    answer = tracer.call_module(
        model, lambda x, **more: tracer.call_module(model[0], model[0], (x,), more), (x,), {"to": 6}
    )
    *_, node = tracer.graph.nodes
    equal(
        [node.op, node.target, node.args, dict(node.kwargs), list(node.meta["nn_module_stack"])],
        ["call_module", "0", (x.node,), {"to": 6}, ["", "0"]],
        cause=(lambda got: got[4] == [""], "the node was made before the leaf's own entry"),
    )
    holds(getattr(answer, "node", None) is node, "the proxy of the leaf's node", got=answer)


def test_each_call_of_a_module_has_a_key_of_its_own(lesson):
    asked = set()

    class Asking(lesson.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            asked.add(module_qualified_name)
            return True

    tracer, model = Asking(), nn.Sequential(nn.ReLU(), nn.ReLU())
    x = standing_at(tracer, model)
    for _ in range(3):
        tracer.call_module(model[0], model[0], (x,), {})
    tracer.call_module(model[1], model[1], (x,), {})
    _, *calls, other = tracer.graph.nodes
    stacks = [dict(node.meta.get("nn_module_stack", {})) for node in calls]
    paths = [(node.target, tracer.node_name_to_scope[node.name][0]) for node in calls]
    equal(
        [stacks, paths, asked],
        [[{key: ("0", nn.ReLU)} for key in ("0", "0@1", "0@2")], [("0", "0")] * 3, {"0", "1"}],
        cause=[
            (lambda got: [*got[0][1]] == ["0"], "the second call has the key of the first"),
            (lambda got: "0@1" in str(got[1:]), "the path was replaced by the key with its `@1`"),
            (lambda got: len(got[0][1]) == 2, "the entry of the first call is still there"),
            (paths[0] == ("0", ""), "the node of a leaf has the scope of the caller"),
        ],
    )
    hint = "calls are counted for each path, not for each class"
    equal(list(other.meta["nn_module_stack"]), ["1"], hint=hint)


def test_a_call_of_a_module_from_elsewhere_is_refused(lesson):
    tracer = lesson.Tracer()
    standing_at(tracer, nn.Sequential())
    with refuses(NameError, hint="let the error of `path_of_module` reach the caller"):
        tracer.call_module(nn.Tanh(), lambda x: x, (1,), {})


def test_a_call_inside_a_call_of_the_same_module_has_an_entry_of_its_own(lesson):
    tracer, model = lesson.Tracer(), nn.Sequential(nn.Sequential())
    standing_at(tracer, model)
    inner = lambda: tracer.call_module(model[0], lambda: [*tracer.module_stack], (), {})
    twice = (
        lambda _: "0" in tracer.num_calls,
        "both calls have the entry `0`, and both removed it",
    )
    hint = "count a call when it begins, not when it ends"
    with noting(cause=twice, hint=hint, on=(KeyError,)):
        inside = tracer.call_module(model[0], inner, (), {})
    equal(inside, ["0", "0@1"], cause=(is_value(["0"]), hint))


def test_after_a_call_the_outer_one_is_in_progress_again(lesson):
    tracer, model = lesson.Tracer(), nn.Sequential(nn.Sequential(nn.Sequential()))
    standing_at(tracer, model)

    def outer() -> list:
        tracer.call_module(model[0][0], lambda: None, (), {})
        return in_progress(tracer)

    inside = tracer.call_module(model[0], outer, (), {})
    equal(
        [inside, in_progress(tracer)],
        [[("0", nn.Sequential), ["0"]], [("", None), []]],
        cause=[
            (lambda got: got[0][0] == ("", None), "after a call the scope was the root's"),
            (lambda got: "0.0" in got[0][1], "the entry of a call that has ended is still there"),
        ],
        hint="restore the scope that was there before the call, and remove the call's entry",
    )


def test_after_an_error_in_a_call_it_is_not_in_progress(lesson):
    tracer, model = lesson.Tracer(), nn.Sequential(nn.Sequential())
    standing_at(tracer, model)
    with refuses(TypeError, cause="the error in `forward` was swallowed"):
        tracer.call_module(model[0], len, (), {})
    scope, stack = in_progress(tracer)
    if lesson.Tracer is torch.fx.Tracer:
        stack = []  # torch restores the scope alone, as the page shows
    equal(
        [scope, stack],
        [("", None), []],
        hint="restore both in a `finally`",
    )


# --- step 5: getattr ------------------------------------------------------------------------------


def test_a_parameter_becomes_one_proxy_even_if_it_is_read_twice(lesson):
    model, cache, tracer = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), {}, lesson.Tracer()
    model[0].requires_grad_(False)
    model[1].weight = type("Own", (nn.Parameter,), {})(torch.ones(2, 2))
    standing_at(tracer, model)
    first, second = (tracer.getattr("bias", model[0].bias, cache) for _ in range(2))
    tracer.getattr("bias", model[1].bias, cache)
    equal(
        [(node.op, node.target) for node in tracer.graph.nodes],
        [("placeholder", "x"), ("get_attr", "0.bias"), ("get_attr", "1.bias")],
        cause=[
            (lambda got: len(got) == 4, "each read of the parameter made a new node"),
            (lambda got: [*got[1:]] == [("get_attr", "1.bias")], "a frozen one is a parameter too"),
            (
                lambda got: ("get_attr", "bias") in got,
                "`bias` isn't the path: `path_of_value` has it",
            ),
            (lambda got: len(got) == 2, "the proxy of another module's `bias` was returned"),
        ],
    )
    holds(first is second, "the same proxy both times", got=[first, second])
    holds(hasattr(first, "tracer"), "a proxy, not its node", got=first)
    equal(list(cache), ["0.bias", "1.bias"])
    got = tracer.getattr("weight", model[1].weight, cache)
    holds(got is not model[1].weight, "a proxy: its class is a subclass of `nn.Parameter`", got=got)


def test_anything_that_is_not_a_parameter_is_returned_unchanged(lesson):
    model, tracer = nn.BatchNorm1d(2), lesson.Tracer()
    standing_at(tracer, model)
    outside = nn.Parameter(torch.ones(2))
    for value in (model.running_mean, outside, nn.ReLU(), None):
        got = tracer.getattr("name", value, {})
        holds(got is value, f"the {type(value).__name__} itself, no proxy", got=got)


def test_a_buffer_becomes_a_proxy_if_the_tracer_is_asked(lesson):
    model, tracer = nn.Sequential(nn.BatchNorm1d(2)), lesson.Tracer()
    standing_at(tracer, model)
    tracer.proxy_buffer_attributes = True
    names = ["running_mean", "num_batches_tracked", "weight"]
    for name in names:
        tracer.getattr(name, getattr(model[0], name), {})
    equal(
        [node.target for node in tracer.graph.nodes][1:],
        [f"0.{name}" for name in names],
        cause=(is_value(["0.weight"]), "look at `self.proxy_buffer_attributes`"),
    )
    equal(tracer.getattr("nothing", None, {}), None)


# --- step 6: trace --------------------------------------------------------------------------------


def annotated(x: int) -> torch.Tensor:
    return x


FUNCTIONS = {
    "operations": lambda x, y=2: torch.relu(x) * y + 1,
    "no result": lambda x: None,
    "a structure": lambda x: [x, {"constant": torch.ones(2)}],
    "a tuple": lambda x: (x, x),
    "an annotation": annotated,
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_function_is_traced(lesson, kind):
    same_trace(
        lesson,
        lambda: FUNCTIONS[kind],
        cause=[
            (
                lambda graph: not isinstance([*graph.nodes][-1].args, tuple),
                "the `args` of the output node are the result, and not a tuple with the result",
            ),
            (
                lambda error: "not Module" in str(error),
                "the function was run as a `forward` is: it has no `self`",
            ),
        ],
    )


def test_a_function_keeps_its_constants_on_an_empty_root(lesson):
    tracer, constant = lesson.Tracer(), torch.rand(2)
    tracer.trace(lambda x: x + constant)
    holds(
        isinstance(tracer.root, nn.Module) and tracer.root._tensor_constant0 is constant,
        "the constant on `tracer.root`, an empty module",
        hint="`self.root = nn.Module()` where the root is a function",
    )


def test_a_second_trace_takes_nothing_from_the_first(lesson):
    class Block(nn.Linear):
        def forward(self, x):
            return x + self.bias

    tracer, model = lesson.Tracer(), Block(2, 2)
    first, second = tracer.trace(model), tracer.trace(model)
    holds(second is not first, "a new graph for each trace")
    holds(tracer.root is model, "`tracer.root` is the model that was traced, and no copy")
    missing = (lambda graph: len(graph.nodes) == 3, "`bias` is a proxy of the first trace's graph")
    same_graph(second, first, cause=missing)
    tracer.trace(lambda x: x)
    holds(tracer.root is not model, "for a function, a new root", got=tracer.root)


def test_the_graph_is_made_by_new_graph(lesson):
    if lesson.Tracer is torch.fx.Tracer:
        pytest.skip("torch has no `new_graph`")
    made = []

    class Making(lesson.Tracer):
        def new_graph(self):
            made.append(super().new_graph())
            return made[-1]

    graph = Making().trace(lambda x: x)
    holds([graph] == made, "the graph that `self.new_graph()` returned", got=made)


def test_of_a_module_the_forward_of_its_class_is_run(lesson):
    asked, model = [], nn.Sequential(nn.ReLU())
    cause = [
        (lambda _: asked[0][0] is model, "the module itself was passed, and not its `forward`"),
        (lambda _: asked[0][0] == model.forward, "`root.forward` already has its `self`"),
        (lambda _: asked[0][0] == nn.Module.__call__, "`__call__` would record the root's call"),
    ]
    hint = "pass `type(root).forward`, and whether the root is a module"

    class Asking(lesson.Tracer):
        def create_args_for_root(self, root_fn, is_module, *others):
            asked.append((root_fn, is_module))
            return super().create_args_for_root(root_fn, is_module, *others)

    with noting(cause=cause, hint=hint, on=(Exception,)):
        Asking().trace(model)
    equal(asked, [(nn.Sequential.forward, True)], cause=cause, hint=hint)


def test_leaves_are_recorded_and_all_other_modules_are_traced_through(lesson):
    class OwnLinear(nn.Linear):
        def forward(self, x):
            return super().forward(x).relu()

    same_trace(
        lesson,
        lambda: nn.Sequential(OwnLinear(2, 2), nn.Sequential(nn.Tanh())),
        cause=[
            (lambda graph: "0" in call_targets(graph), "your class was one call, as its base is"),
            (lambda graph: "1" in call_targets(graph), "`nn.Sequential` was recorded as one call"),
            (lambda graph: "1.0" not in call_targets(graph), "a module of torch.nn isn't a node"),
        ],
    )


def test_a_module_that_the_root_does_not_contain_is_refused(lesson):
    outside = nn.ReLU()
    went_in = "a module that the graph can't refer to was run or recorded"
    with refuses(NameError, cause=went_in):
        lesson.Tracer().trace(lambda x: outside(x))


def test_every_node_has_a_scope(lesson):
    tracer = lesson.Tracer()
    tracer.trace(lambda x: x)
    without = (is_value(["x"]), "`self.create_node` didn't make the output node")
    equal(list(tracer.node_name_to_scope), ["x", "output"], cause=without)
    equal(
        tuple(tracer.node_name_to_scope["x"]), ("", None), hint="the scope of a root has no class"
    )


def test_calls_are_counted_over_all_traces_of_a_tracer(lesson):
    tracer = lesson.Tracer()
    tracer.trace(nn.Sequential(nn.ReLU()))
    tracer.trace(nn.Sequential(nn.ReLU()))
    equal(
        dict(tracer.num_calls),
        {"0": 2},
        hint="`num_calls` is created in `__init__`, and `trace` doesn't reset it",
    )


def test_a_model_is_traced_in_its_current_mode(lesson):
    model = zoo.SMALL["Attention"]().model.train()
    same_trace(lesson, lambda: model)
    holds(model.training, "a model that is still in training mode")


# --- step 7: symbolic_trace, whole models ---------------------------------------------------------


@pytest.mark.parametrize("name", zoo.SMALL)
def test_the_graph_of_a_small_model_is_the_same_as_torchs(lesson, name):
    same_trace(lesson, lambda: zoo.SMALL[name]().model)


def named(x):
    return x


def test_symbolic_trace_returns_a_graph_module_named_after_the_root(lesson):
    class Encoder(nn.Module):
        def forward(self, x):
            return x

    equal(
        [type(lesson.symbolic_trace(root)).__name__ for root in (Encoder(), named)],
        ["Encoder", "named"],
        cause=(is_value(["GraphModule"] * 2), "pass the name: it is the third argument"),
    )


def test_a_function_with_a_constant_runs_as_a_module(lesson):
    traced = lesson.symbolic_trace(lambda x: torch.add(x, torch.ones(2)))
    same_numbers(traced(torch.ones(2)), torch.full((2,), 2.0))


def test_the_result_has_the_models_own_parameters(lesson):
    model = zoo.SMALL["LeafCalls"]().model.train()
    weight = lesson.symbolic_trace(model).linear.weight
    holds(model.training, "a model whose mode hasn't changed", got="it is in evaluation mode now")
    holds(
        weight is model.linear.weight,
        "the parameters of the model itself, so that training one trains the other",
        got=weight,
        cause=(lambda got: torch.equal(got, model.linear.weight), "the module has copies"),
        hint="`GraphModule(tracer.root, graph, name)` takes what the graph refers to",
    )


def test_resnet18_has_the_graph_of_torch_and_computes_the_same(lesson):
    specimen = zoo.resnet18()
    same_trace(lesson, lambda: specimen.model)
    same_numbers(lesson.symbolic_trace(specimen.model)(*specimen.inputs), specimen.eager())


# --- the whole: a subclass, a second trace, and whose work it is ----------------------------------


def test_a_subclass_changes_nodes_proxies_and_arguments(lesson):
    def changed(base: type) -> Graph:
        class Changed(base):
            def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
                if target is operator.add:
                    target = torch.add
                return super().create_node(kind, target, args, kwargs, name, type_expr)

            def create_arg(self, a):
                return 5 if type(a) is int else super().create_arg(a)

            def proxy(self, node):
                node.meta["seen"] = True
                return super().proxy(node)

        return Changed().trace(zoo.SMALL["EveryOpcode"]().model)

    same_graph(
        changed(lesson.Tracer),
        changed(torch.fx.Tracer),
        meta=("seen",),
        hint="always go through `self.create_proxy`, `self.create_node`, `self.create_arg`",
    )


def test_the_work_is_not_left_to_torchs_tracer(lesson, monkeypatch, request):
    if impl_of(request.node) == "torch":
        pytest.skip("torch's own tracer is the one to be distinguished")
    theirs = vars(torch.fx.Tracer).copy()
    names = ("trace", "is_leaf_module", "call_module", "getattr")
    used = [name for name in names if getattr_static(lesson.Tracer, name) is theirs[name]]
    monkeypatch.setattr(
        torch.fx.Tracer, "trace", lambda *args: used.append("trace") or theirs["trace"](*args)
    )
    lesson.symbolic_trace(zoo.SMALL["LeafCalls"]().model)
    equal(
        used,
        [],
        cause=(bool, "methods of `torch.fx.Tracer` did the work: inherited, borrowed or called"),
        hint="derive from `TracerBase`, and write the methods of the stub yourself",
    )
