"""``tracer``, the rest: real clients, clean failures, threads, wrapped functions, copies."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import operator
import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from math import sqrt
from threading import Event
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.fx import Graph
from torch.nn import functional as F

from tests import random_models, zoo
from tests.models.create_arg import holds_many
from tests.models.tracer import (
    META,
    call_targets,
    restored,
    same_trace,
    tracer_with,
    waiting,
)
from tests.suite import (
    equal,
    holds,
    is_linear,
    refuses,
    same_graph,
    same_numbers,
)
from tests.suite.implementations import reference_of

# --- more models ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", random_models.SEEDS)
def test_a_random_tree_with_ties_and_containers_gives_the_graph_of_torch(lesson, seed):
    same_trace(lesson, lambda: random_models.tree(seed).model)


class Boxes(list):
    def __repr__(self):
        return f"Boxes({super().__repr__()})"


@dataclass
class Record(OrderedDict):
    """A dataclass that is a dict, such as the outputs of some libraries."""

    first: object = None
    second: object = None

    def __post_init__(self):
        self.update(vars(self))


CONTAINERS = {
    "OrderedDict": lambda x: OrderedDict(a=x, b=[x + 1]),
    "defaultdict": lambda x: defaultdict(None, a=[x]),
    "a list": lambda x: Boxes([x, x + 1]),
    "inside others": lambda x: {"a": [OrderedDict(b=x), Boxes([1])]},
    "a dataclass": lambda x: Record(x, x + 1),
}


@pytest.mark.beyond("each becomes a plain list or dict")
@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_of_a_class_of_its_own_keeps_its_class(lesson, name):
    x = torch.ones(2)
    equal(repr(lesson.symbolic_trace(CONTAINERS[name])(x)), repr(CONTAINERS[name](x)))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_resnet18_traced_on_a_gpu_computes_the_same(lesson, dtype):
    specimen = zoo.resnet18()
    model, inputs = specimen.model.to("cuda", dtype), specimen.inputs[0].to("cuda", dtype)
    same_numbers(lesson.symbolic_trace(model)(inputs), model(inputs))


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.torchvision_models("classification", "video"))
def test_every_model_of_torchvision_gives_the_graph_of_torch(lesson, name):
    model = zoo.skeleton(name)
    same_trace(lesson, lambda: model)


@pytest.mark.slow
@pytest.mark.beyond("the result is a plain dict")
@pytest.mark.parametrize("name", zoo.torchvision_models("segmentation"))
def test_a_traced_segmentation_model_returns_an_ordered_dict(lesson, name):
    model, image = zoo.skeleton(name).to_empty(device="cpu").eval(), torch.ones(1, 3, 32, 32)
    traced, eager = lesson.symbolic_trace(model)(image), model(image)
    equal([type(traced), [*traced]], [type(eager), [*eager]])


# --- real clients ---------------------------------------------------------------------------------


def test_a_transformer_records_with_the_tracer(lesson):
    """``torch.fx.Transformer`` makes a tracer, gives it a graph and a root, and never traces."""

    class TransformerTracer(lesson.Tracer):
        def __init__(self, graph: Graph):
            super().__init__()
            self.graph = graph
            self.tensor_attrs = {}

        def is_leaf_module(self, m, module_qualified_name):
            return True

    specimen = zoo.SMALL["EveryOpcode"]()
    gm = torch.fx.symbolic_trace(specimen.model)
    transformer = torch.fx.Transformer(gm)
    transformer.tracer = TransformerTracer(transformer.new_graph)
    transformer.tracer.root = gm
    transformed = transformer.transform()
    same_graph(transformed.graph, torch.fx.Transformer(gm).transform().graph)
    same_numbers(transformed(*specimen.inputs), specimen.eager())


def test_the_constructor_takes_what_torchs_takes(lesson):
    tracer_with(lesson, (math,), (), False).trace(nn.ReLU())
    ours, theirs = (inspect.signature(each.__init__) for each in (lesson.Tracer, torch.fx.Tracer))
    equal(
        [(each.name, each.default) for each in ours.parameters.values()],
        [(each.name, each.default) for each in theirs.parameters.values()],
    )


def named_relu(x):
    return F.relu(x)


@pytest.mark.parametrize("root", [nn.ReLU(), named_relu], ids=type)
def test_the_tracer_has_the_name_of_its_root(lesson, root):
    ours, theirs = tracer_with(lesson), torch.fx.Tracer()
    equal(ours.root_module_name, theirs.root_module_name)
    for tracer in (ours, theirs):
        tracer.trace(root)
    equal(ours.root_module_name, theirs.root_module_name)


def test_concrete_arguments_are_passed_to_create_args_for_root(lesson):
    passed = []

    class Watching(lesson.Tracer):
        def create_args_for_root(self, root_fn, is_module, concrete_args=None):
            passed.append(concrete_args)
            return super().create_args_for_root(root_fn, is_module)

    Watching().trace(lambda x: x, {"x": 1})
    equal(passed, [{"x": 1}])
    equal(lesson.symbolic_trace(lambda x, flag: x if flag else -x, {"flag": True})(2, True), 2)


def test_operations_in_place_are_refused_if_the_tracer_is_asked(lesson):
    tracer, x = lesson.Tracer(), torch.ones(2)
    tracer.check_mutable_operations = True
    with refuses(RuntimeError, "mutable", cause="nodes are made past `TracerBase`'s check"):
        tracer.trace(lambda x: torch.relu_(x))
    # A container of a class of its own isn't one.
    graph = tracer.trace(CONTAINERS["OrderedDict"])
    same_numbers(torch.fx.GraphModule(tracer.root, graph)(x)["b"], [x + 1])
    holds(tracer.check_mutable_operations, "the tracer checks the next node again", got=False)


def test_another_method_can_be_traced_instead_of_forward(lesson):
    class Encode(lesson.Tracer):
        traced_func_name = "encode"

    class Model(nn.Module):
        def encode(self, x):
            return torch.neg(x)

    equal(call_targets(Encode().trace(Model())), [torch.neg])


def test_the_graph_knows_the_class_of_its_tracer(lesson):
    equal(lesson.Tracer().trace(nn.ReLU())._tracer_cls, lesson.Tracer)


def counts(model, x):
    model.state = torch.zeros(2)
    for _ in range(2):
        model.state = torch.tanh(x + model.state)
    return model.state


def tables(model, x):
    for number in range(3):
        model.table = torch.full((2,), number)
        x = x + model.table
    return x


@pytest.mark.parametrize("forward", [counts, tables])
def test_a_tensor_that_forward_replaces_on_the_model_is_a_constant(lesson, forward):
    traced, x = lesson.symbolic_trace(zoo.Model(forward)), torch.ones(2)
    names = [node.target for node in traced.graph.find_nodes(op="get_attr")]
    hint = "when the trace ends, the attribute is another value: the graph needs the one it read"
    holds(not {"state", "table"} & {*names}, "no node reads the attribute", got=names, hint=hint)
    same_numbers(traced(x), zoo.Model(forward)(x))


# --- what is refused, and clean failures ----------------------------------------------------------


@pytest.mark.unasked
def test_arguments_are_made_for_the_bound_forward_of_a_module(lesson):
    tracer, root = lesson.Tracer(), nn.Sequential(nn.ReLU())
    tracer.root, tracer.graph = root, Graph(tracer_cls=lesson.Tracer)
    _, (owner, *proxies) = tracer.create_args_for_root(root.forward, is_module=True)
    holds(owner is root, "the module first", got=owner)
    equal([str(proxy.node) for proxy in proxies], ["input_1"])


UNTRACEABLE = {
    "builtin": torch.relu,
    "builtin without a signature": len,
    "partial": functools.partial(torch.add, 1),
    "object": operator.itemgetter(0),
    "class": Boxes,
    "text": "x + 1",
}


@pytest.mark.beyond("an error of another type, which names what it expected")
@pytest.mark.parametrize("root", UNTRACEABLE.values(), ids=UNTRACEABLE)
def test_a_root_that_isnt_a_function_is_refused(lesson, root):
    with refuses(TypeError, type(root).__name__, "a function that calls it"):
        lesson.Tracer().trace(root)


@pytest.mark.unasked
def test_the_error_for_such_a_root_is_of_the_type_of_torchs_too(lesson):
    with refuses(AssertionError):
        lesson.symbolic_trace(torch.relu)


@pytest.mark.parametrize("method", ["missing", "forward"])
def test_a_module_without_the_function_to_trace_is_refused(lesson, method):
    class Misled(lesson.Tracer):
        traced_func_name = method

    model = torch.jit.script(nn.ReLU())
    with refuses(AssertionError, method, type(model).__name__):
        Misled().trace(model)


def test_a_module_that_replaces_another_during_a_trace_is_refused(lesson):
    def replaces(model, x):
        x = model.step(x)
        model.step = nn.Tanh()
        return model.step(x)

    with refuses(NameError, cause="two modules were recorded under one path"):
        lesson.Tracer().trace(zoo.Model(replaces, step=nn.ReLU()))


@pytest.mark.beyond("torch leaves the module stack, the counts and the scopes as they were")
def test_a_failed_trace_leaves_no_stack_no_counts_and_no_scopes(lesson):
    tracer, fresh = lesson.Tracer(), lesson.Tracer()
    with refuses(LookupError, cause="the error in forward was swallowed"):
        tracer.trace(nn.Sequential(nn.Sequential(nn.ReLU(), zoo.Fails())))
    graphs = [each.trace(zoo.SMALL["DeepNesting"]().model) for each in (tracer, fresh)]
    same_graph(*graphs, meta=META)
    equal(
        [dict(tracer.num_calls), dict(tracer.node_name_to_scope)],
        [dict(fresh.num_calls), dict(fresh.node_name_to_scope)],
    )


# --- threads --------------------------------------------------------------------------------------


def in_another_thread(action: Callable[[], object]) -> object:
    """Return what ``action`` returns in a thread of its own; its error, if any, is raised here."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        return executor.submit(action).result()


WANTED = ["relu", operator.mul, "relu"]


@pytest.mark.beyond("torch patches `nn.Module` for all threads")
def test_another_thread_runs_its_modules_as_usual(lesson):
    model, outcomes = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []
    expected = model(torch.ones(2))
    waits = waiting(lambda: outcomes.append(in_another_thread(lambda: model(input=torch.ones(2)))))
    graph = lesson.Tracer().trace(waits)
    same_numbers(outcomes[0], expected)
    equal(call_targets(graph), WANTED)


@pytest.mark.beyond("torch restores whatever was there when its own trace began")
def test_traces_that_overlap_leave_nothing_behind(lesson):
    found = [call_targets(graph) for graph in overlapping_traces(lesson)]
    equal(found, [WANTED, WANTED], hint="each trace patches and restores for itself")
    holds(restored(), "`nn.Module` as before")


def overlapping_traces(lesson) -> tuple[Graph, Graph]:
    """Two traces in two threads: the second begins inside the first, and outlasts it."""
    inside, go_on = Event(), Event()

    def pause() -> None:
        inside.set()
        go_on.wait(10)

    def outlast() -> None:
        go_on.set()
        wait([first], timeout=10)

    with ThreadPoolExecutor(max_workers=1) as executor:
        first = executor.submit(lesson.Tracer().trace, waiting(pause))
        first.add_done_callback(lambda _: inside.set())  # an error must not keep the second waiting
        inside.wait(10)
        try:
            second = lesson.Tracer().trace(waiting(outlast))
        finally:
            go_on.set()
        return first.result(), second


# --- wrapped functions ----------------------------------------------------------------------------


@torch.fx.wrap
def decorated(x, scale):
    """A function that must not be traced through: it decides by a value."""
    return x * scale if x.sum() > 0 else x


def wrapped_by_name(x):
    return x + len(x) if len(x) > 1 else x


torch.fx.wrap("wrapped_by_name")
torch.fx.wrap("len")


def uses_wrapped(x):
    nested = {"scale": [x]}
    return (
        decorated(wrapped_by_name(x), 2) + len(x),
        decorated(1, nested),
        decorated(1, scale=nested),
    )


def test_a_wrapped_function_is_one_node_and_is_restored(lesson):
    before = (decorated, wrapped_by_name)
    graph = lesson.Tracer().trace(uses_wrapped)
    same_graph(graph, torch.fx.Tracer().trace(uses_wrapped), meta=("is_wrapped",))
    holds(
        (decorated, wrapped_by_name) == before and "len" not in globals(),
        "the module's globals as before, a builtin's shadow removed",
    )
    equal(decorated(torch.ones(2), scale=3).tolist(), [3.0, 3.0])


def uses_math(x):
    return math.floor(x.sum()) + sqrt(x.mean()) + math.pi


def own_helper(x):
    return x if x.shape[0] > 1 else -x


class Interval(metaclass=torch.fx.ProxyableClassMeta):
    """A class whose construction is recorded when a proxy goes in."""

    def __init__(self, low, high):
        self.low, self.high = low, high


class Elsewhere(nn.Module):
    """A submodule whose code has globals of its own, with a function of ``math`` among them."""

    its_globals = {"root_of": sqrt}
    exec("def forward(self, x): return root_of(x.sum())", its_globals)
    forward = its_globals["forward"]


def doubled(x):
    return x * 2


def halved(x):
    return x / 2


_private = doubled
HELPERS = ModuleType("helpers")
vars(HELPERS).update(doubled=doubled, _halved=halved)


RECORDED = {
    "math": (uses_math, {}),
    "math in another file": (nn.Sequential(Elsewhere()), {}),
    "a class": (lambda x: Interval(x, x * 2).high, {}),
    "a function that is passed": (
        lambda x: own_helper(x) + 1,
        {"autowrap_functions": (own_helper,)},
    ),
    "public functions of a module, by public names": (
        lambda x: doubled(halved(x)) + _private(x),
        {"autowrap_modules": (HELPERS,)},
    ),
}


@pytest.mark.parametrize("kind", RECORDED)
def test_calls_that_need_no_wrap_are_recorded(lesson, kind):
    root, options = RECORDED[kind]
    same_trace(lesson, lambda: root, **options)


@pytest.mark.beyond("torch takes the patch of another trace for the function itself")
@pytest.mark.parametrize("function", [uses_wrapped, uses_math])
def test_a_second_trace_in_another_thread_records_wrapped_functions_too(lesson, function):
    graphs = []
    trace = lambda: in_another_thread(lambda: lesson.Tracer().trace(function))
    lesson.Tracer().trace(waiting(lambda: graphs.append(trace())))
    same_graph(graphs[0], torch.fx.Tracer().trace(function))


# --- shapes, metadata, copies ---------------------------------------------------------------------


def by_shape(model, x):
    """Branch on what is known of a parameter's shape."""
    weight = model.weight
    known = [*weight.shape, *weight.size(), weight.dim(), weight.ndim]
    known += [weight.numel(), weight.nelement()]
    return x * weight if known == [3, 2, 3, 2, 2, 2, 6, 6] else x


def shaped():
    return zoo.Model(by_shape, weight=nn.Parameter(torch.rand(3, 2)))


def test_shapes_of_parameters_are_numbers_if_the_tracer_is_asked(lesson):
    same_trace(lesson, shaped, param_shapes_constant=True)


def with_own_proxies(lesson, **options):
    """A tracer of the lesson whose proxies are those of the lesson `proxy`, not torch's."""
    tracer = lesson.Tracer(**options)
    if lesson.Tracer is not torch.fx.Tracer:
        tracer.proxy = lambda node: reference_of("proxy").Proxy(node, tracer)
    return tracer


@pytest.mark.unasked
def test_shapes_of_parameters_are_numbers_with_other_proxies_too(lesson):
    graph = with_own_proxies(lesson, param_shapes_constant=True).trace(shaped())
    same_graph(graph, torch.fx.Tracer(param_shapes_constant=True).trace(shaped()))


@pytest.mark.unasked
def test_a_proxy_of_any_class_is_refused_as_a_key(lesson):
    with refuses(RuntimeError, cause="it was accepted"):
        with_own_proxies(lesson).trace(lambda x: x.view({(1, x): 1}))


def test_preserved_metadata_is_written_on_nodes(lesson):
    origin = next(iter(torch.fx.symbolic_trace(named_relu).graph.nodes))
    origin.meta["custom"] = {"origin": "here"}

    def custom_meta(tracer: torch.fx.Tracer) -> list:
        with torch.fx.traceback.preserve_node_meta(), torch.fx.traceback.set_current_meta(origin):
            return [node.meta.get("custom") for node in tracer.trace(named_relu).nodes]

    equal(custom_meta(lesson.Tracer()), custom_meta(torch.fx.Tracer()))


def stack_traces(tracer: torch.fx.Tracer, model: nn.Module) -> dict[str, str]:
    tracer.record_stack_traces = True
    return {node.name: node.stack_trace or "" for node in tracer.trace(model).nodes}


class EachKind(nn.Module):
    """Each line of `forward` records one node."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.ReLU())
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x):
        mul = 3 * x
        relu = F.relu(mul)
        layers_0 = self.layers(relu)
        weight = self.weight
        getitem, *_ = (layers_0[0], weight)
        sqrt = math.sqrt(getitem)
        return sqrt + torch.ones(2)


@pytest.mark.beyond("they end with two lines of torch/fx/proxy.py")
def test_a_stack_trace_ends_with_the_line_of_the_model(lesson):
    traces, theirs = (
        stack_traces(each, EachKind()) for each in (lesson.Tracer(), torch.fx.Tracer())
    )
    for name, trace in traces.items():  # torch's ends with lines of its own
        equal([trace, "solutions" in trace], [theirs[name][: len(trace)], False])
    last = {name: trace.splitlines()[-1].strip() for name, trace in traces.items() if trace}
    for name in ("mul", "relu", "layers_0", "weight", "getitem", "sqrt"):
        equal(last[name].partition(" = ")[0].partition(",")[0], name)
    equal(last["add"], "return sqrt + torch.ones(2)")


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))], ids=["deepcopy", "pickle"]
)
def test_the_result_can_be_copied(lesson, copied):
    specimen = zoo.SMALL["EveryOpcode"]()
    gm = lesson.symbolic_trace(specimen.model)
    same_numbers(copied(gm)(*specimen.inputs), specimen.eager())


@pytest.mark.unasked
def test_the_tracer_can_be_copied(lesson):
    tracer = lesson.Tracer()
    tracer.trace(zoo.SMALL["EveryOpcode"]().model)
    same_graph(
        copy.deepcopy(tracer).trace(zoo.SMALL["EveryOpcode"]().model),
        torch.fx.Tracer().trace(zoo.SMALL["EveryOpcode"]().model),
    )


@pytest.mark.beyond("torch scans all parameters for each one that is read")
def test_reading_a_parameter_costs_the_same_in_a_large_model(lesson):
    def trace(size: int) -> Callable[[], object]:
        model = holds_many(size)
        return lambda: lesson.Tracer().trace(model)

    is_linear(trace, 100, "parameters")


@pytest.mark.unasked
def test_a_graph_module_that_is_compiled_late_is_traced(lesson):
    with torch.fx._lazy_graph_module._use_lazy_graph_module(True):
        late = torch.fx.symbolic_trace(zoo.SMALL["EveryOpcode"]().model)
    same_trace(lesson, lambda: late)


@pytest.mark.unasked
def test_a_subclass_may_search_more_modules(lesson):
    tracer = lesson.Tracer()
    tracer._autowrap_search.append(operator)
    same_graph(tracer.trace(lambda x: x + 1), torch.fx.Tracer().trace(lambda x: x + 1))


@pytest.mark.unasked
def test_generated_code_says_where_the_traced_function_is(lesson):
    def place(symbolic_trace: Callable[..., torch.fx.GraphModule]) -> str:
        return symbolic_trace(halved).forward.__code__.co_filename.partition(" ")[2]

    equal(place(lesson.symbolic_trace), place(torch.fx.symbolic_trace))


@pytest.mark.unasked
@pytest.mark.beyond("a name that ends with > isn't in the cache of lines")
def test_the_code_of_a_lambda_can_be_read(lesson):
    source = inspect.getsource(lesson.symbolic_trace(lambda x: x / 2).forward)
    holds("x / 2" in source, "the generated line", got=source)


@pytest.mark.unasked
def test_a_method_of_tensors_can_be_recorded_like_a_wrapped_function(lesson, monkeypatch):
    method = torch.Tensor.__getitem__
    methods = [(torch.Tensor, "__getitem__")]
    monkeypatch.setattr(torch.fx._symbolic_trace, "_wrapped_methods_to_patch", methods)
    table = torch.rand(4, 4)
    same_numbers(lesson.symbolic_trace(lambda x: table[: x.size(0)])(torch.ones(3)), table[:3])
    equal(torch.Tensor.__getitem__, method)


@pytest.mark.beyond("torch's graph erases a write whose result isn't used")
def test_a_write_stays_in_the_graph_of_a_trace_without_its_dead_code(lesson):
    def twice(x):
        y = x * 1
        y.add_(1)
        return y * 2

    gm = lesson.symbolic_trace(twice)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    same_numbers(gm(torch.zeros(2)), twice(torch.zeros(2)))
