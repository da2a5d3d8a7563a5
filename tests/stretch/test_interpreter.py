"""``interpreter``, the rest: partial runs, flat inputs, errors, metadata, fake tensors, a GPU."""

from __future__ import annotations

import copy
import time
import weakref
from typing import Any, NamedTuple

import pytest
import torch
from torch import fx, nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.traceback import preserve_node_meta

from tests import random_models, zoo
from tests.models.interpreter import (
    Run,
    Small,
    chain,
    costs,
    described,
    error_of,
    keeping,
    node_of,
    plain,
    run_of,
    small,
    traced,
)
from tests.suite import equal, growth, holds, refuses, same_graph, same_numbers
from tests.suite.versions import that_run

# --- arguments ------------------------------------------------------------------------------------


def test_variadic_parameters_take_what_is_left(lesson):
    run = run_of(zoo.SMALL["Variadic"]())
    result, _ = lesson.Interpreter(run.module).run(*run.values)
    same_numbers(result, run.expected[0])


@pytest.mark.beyond("both are lists")
def test_variadic_parameters_are_what_python_makes_of_them(lesson):
    module = traced(lambda x, *args, **kwargs: (x, args, kwargs))
    equal(lesson.Interpreter(module).run(1, 2, 3), (1, (2, 3), {}))


def test_a_flat_graph_takes_and_returns_containers(lesson):
    def function(inputs):
        return {"sum": inputs["a"] + inputs["b"][0]}

    inputs = {"a": torch.ones(2), "b": [torch.rand(2)]}
    module = fx.symbolic_trace(function, concrete_args={"inputs": {"a": fx.PH, "b": [fx.PH]}})
    same_numbers(plain(lesson.Interpreter(module).run(inputs)), function(inputs))


def test_a_flat_graph_takes_and_returns_flat_values_on_request(lesson):
    module = fx.symbolic_trace(lambda x: {"y": x["a"] * 2}, concrete_args={"x": {"a": fx.PH}})
    equal(list(lesson.Interpreter(module).run(3, enable_io_processing=False)), [6])


def test_a_flat_value_may_be_a_container(lesson):
    module = fx.symbolic_trace(lambda x: x["a"][0] * 2, concrete_args={"x": {"a": fx.PH}})
    equal(list(lesson.Interpreter(module).run([3, 4], enable_io_processing=False)), [6])


def test_values_that_are_given_are_not_computed(lesson):
    module = small()
    linear, x = node_of(module, "linear"), torch.rand(2, 4)
    given = torch.tensor([[-1.0, 2.0], [3.0, 4.0]])
    result = lesson.Interpreter(module).run(x, initial_env={linear: given})
    same_numbers(result, torch.tensor([2.0, 7.0]))


@pytest.mark.beyond("the run works in the dict that it is given")
def test_the_values_given_stay_as_they_are(lesson):
    module = traced(lambda x: x * 2)
    x = node_of(module, "x")
    env = {x: 4}
    interpreter = lesson.Interpreter(module)
    equal([interpreter.run(initial_env=env) for _ in range(2)], [8, 8])
    equal(env, {x: 4})


def test_arguments_in_a_list_are_freed_after_their_last_use(lesson):
    seen = []

    class Watching(lesson.Interpreter):
        def output(self, target, args, kwargs):
            seen.append(reference())
            return super().output(target, args, kwargs)

    arguments = [torch.ones(2), torch.ones(2)]
    reference = weakref.ref(arguments[0])
    module = traced(lambda x, y: (x + y).relu())
    same_numbers(Watching(module).boxed_run(arguments), torch.full((2,), 2.0))
    equal((arguments, seen), ([], [None]))


def test_flat_values_in_a_list_become_containers(lesson):
    module = fx.symbolic_trace(lambda x: {"y": x["a"] * 2}, concrete_args={"x": {"a": fx.PH}})
    equal(lesson.Interpreter(module).boxed_run([3]), {"y": 6})


@pytest.mark.parametrize(("count", "fault"), [(1, "missing"), (3, "extra")])
def test_a_list_of_another_length_is_refused(lesson, count, fault):
    with refuses(RuntimeError, "2", str(count), f"{fault} arguments"):
        lesson.Interpreter(traced(lambda x, y: x + y)).boxed_run([1] * count)


def test_an_argument_without_a_default_is_missed_by_name(lesson):
    with refuses(RuntimeError, "width", cause="a value was found"):
        keeping(lesson, traced(lambda x, width: x)).run(1)


# --- values ---------------------------------------------------------------------------------------


class Appends(nn.Module):
    def forward(self, x):
        return extended([x])


def extended(values):
    values.append(1)
    return values


fx.wrap("extended")


class Pair(NamedTuple):
    first: Any
    second: Any


def difference(pair):
    return pair.first - pair.second


@pytest.mark.beyond("the list is the graph's own, and can't be changed")
def test_a_function_may_change_a_list_that_it_is_given(lesson):
    interpreter = lesson.Interpreter(fx.symbolic_trace(Appends()))
    equal([interpreter.run(2), interpreter.run(2)], [[2, 1], [2, 1]])


@pytest.mark.beyond("the same")
def test_the_result_has_the_types_that_the_module_gives(lesson):
    module = traced(lambda x: ([x], {"x": x}))
    result = lesson.Interpreter(module).run(1)
    equal([type(each) for each in result], [type(each) for each in module(1)])


def test_a_function_gets_the_named_tuple_that_it_was_given(lesson):
    graph = fx.Graph()
    graph.output(graph.call_function(difference, (Pair(graph.placeholder("x"), 1),)))
    equal(lesson.Interpreter(fx.GraphModule(nn.Module(), graph)).run(5), 4)


@pytest.mark.beyond("it has no last use, so it is kept")
def test_a_value_that_nobody_uses_is_freed_at_once(lesson):
    def function(x):
        x.neg()
        return x.relu()

    interpreter = lesson.Interpreter(traced(function))
    interpreter.run(torch.ones(2))
    equal([str(node) for node in interpreter.env], ["output"])


def test_submodules_are_at_hand(lesson):
    module = small()
    equal(lesson.Interpreter(module).submodules, dict(module.named_modules()))


def test_any_module_with_a_graph_can_be_run(lesson):
    module = Small()
    module.graph = fx.symbolic_trace(module).graph
    x = torch.rand(2, 4)
    same_numbers(lesson.Interpreter(module).run(x), module(x))


def test_a_graph_without_an_output_gives_nothing(lesson):
    graph = fx.Graph()
    graph.placeholder("x")
    equal(lesson.Interpreter(nn.Module(), graph=graph).run(1), None)


# --- errors ---------------------------------------------------------------------------------------


def failing(error):
    """A module whose one function raises the error."""

    def fail(x):
        raise error

    graph = fx.Graph()
    graph.output(graph.call_function(fail, (graph.placeholder("x"),)))
    return fx.GraphModule(nn.Module(), graph)


def test_the_message_names_the_node(lesson):
    with refuses(ValueError, "no luck", "While executing %fail"):
        lesson.Interpreter(failing(ValueError("no luck"))).run(1)


def test_the_message_has_the_line_of_the_model(lesson):
    module = failing(ValueError("no luck"))
    node_of(module, "fail").stack_trace = "model.py, line 3"
    with refuses(ValueError, "%fail", "model.py, line 3"):
        lesson.Interpreter(module).run(1)


def test_the_message_stays_as_it_is_on_request(lesson):
    interpreter = lesson.Interpreter(failing(ValueError("no luck")))
    interpreter.extra_traceback = False
    equal(error_of(lambda: interpreter.run(1)), "ValueError: no luck\n")


@pytest.mark.beyond(
    "a `KeyError` becomes a `RuntimeError`; the number of an `OSError` becomes a text"
)
@pytest.mark.parametrize("error", [KeyError("key"), OSError(2, "no such file")], ids=repr)
def test_an_error_keeps_its_type_and_arguments(lesson, error):
    interpreter, arguments = lesson.Interpreter(failing(error)), error.args
    with refuses(type(error)):
        interpreter.run(1)
    equal(error.args, arguments)
    holds("%fail" in error_of(lambda: interpreter.run(1)), "a note names the node")


@pytest.mark.parametrize("error", [ValueError("no luck"), ValueError(), KeyError("key")], ids=repr)
def test_an_error_names_the_node_once(lesson, error):
    text = error_of(lambda: lesson.Interpreter(failing(copy.copy(error))).run(1))
    equal(text.count("While executing"), 1)


def test_a_subclass_may_fetch_the_arguments(lesson):
    class Reversing(lesson.Interpreter):
        def fetch_args_kwargs_from_env(self, n):
            args, kwargs = super().fetch_args_kwargs_from_env(n)
            return args[::-1], kwargs

    equal(Reversing(traced(lambda x: x - 1)).run(3), -2)


def test_the_arguments_of_a_node_are_fetched_from_the_values(lesson):
    module = fx.symbolic_trace(lambda x: torch.add(x, 1, alpha=x))
    interpreter = lesson.Interpreter(module)
    interpreter.env = {node_of(module, "x"): 5}
    fetched = interpreter.fetch_args_kwargs_from_env(node_of(module, "add"))
    equal(fetched, ((5, 1), {"alpha": 5}))


def test_a_value_that_does_not_exist_is_named(lesson):
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_method("neg", (x,))
    output = graph.output(y)
    x.append(output)
    interpreter = lesson.Interpreter(nn.Module(), graph=graph)
    with refuses(RuntimeError, "output", "neg", "lint"):
        interpreter.run(1)
    with refuses(RuntimeError, "output", "neg", "lint"):
        interpreter.fetch_args_kwargs_from_env(output)


@pytest.mark.parametrize("target", ["missing", "linear.missing", "missing.weight"])
def test_an_attribute_that_does_not_exist_is_named(lesson, target):
    with refuses(RuntimeError, "nonexistent target", "missing"):
        lesson.Interpreter(small()).fetch_attr(target)


# --- metadata -------------------------------------------------------------------------------------


def test_what_is_recorded_while_it_runs_has_the_metadata_of_the_node(lesson):
    module = small()
    for node in module.graph.nodes:
        node.meta["custom"] = {"from": node.name}
    interpreter = lesson.Interpreter(module)
    with preserve_node_meta():
        recorded = make_fx(lambda x: interpreter.run(x))(torch.rand(2, 4))
    relu = node_of(recorded, "relu")
    equal(relu.meta["custom"], {"from": "relu"})
    equal(relu.meta["from_node"][-1].pass_name, "Interpreter_Interpreter")


def test_a_transformer_keeps_metadata(lesson):
    module = small()
    for node in module.graph.nodes:
        node.meta["nn_module_stack"] = {node.name: ("a", nn.Module)}
        node.stack_trace = f"line of {node.name}"
    transformed = lesson.Transformer(module).transform()
    for node in transformed.graph.nodes:
        if node.op != "placeholder":  # torch records it past its tracer
            equal(node.meta["nn_module_stack"], {node.name: ("a", nn.Module)})
            equal(node.stack_trace, f"line of {node.name}")


@pytest.mark.beyond("it creates placeholders past its tracer")
def test_a_transformer_keeps_metadata_of_placeholders(lesson):
    module = small()
    node_of(module, "x").stack_trace = "line of x"
    equal(node_of(lesson.Transformer(module).transform(), "x").stack_trace, "line of x")


@pytest.mark.beyond("nothing copies them")
def test_a_transformer_keeps_annotations(lesson):
    def function(x: torch.Tensor, y: int = 2) -> torch.Tensor:
        return x * y

    module = traced(function)
    equal(lesson.Transformer(module).transform().code, module.code)


# --- Transformer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", that_run(zoo.SMALL))
def test_a_model_of_the_zoo_is_recorded_as_torch_records_it(lesson, name):
    module, other = (run_of(zoo.SMALL[name]()).module for _ in range(2))
    graph = lesson.Transformer(module).transform().graph
    for node in graph.nodes:  # annotations have a test of their own
        node.type = None
    same_graph(graph, fx.Transformer(other).transform().graph)


@pytest.mark.parametrize("seed", range(10))
def test_a_random_model_is_recorded_and_computes_the_same(lesson, seed):
    run = run_of(random_models.tree(seed))
    same_numbers(lesson.Transformer(run.module).transform()(*run.values), run.expected)


def test_flat_inputs_stay_flat(lesson):
    module = fx.symbolic_trace(lambda x: {"y": x["a"] * 2}, concrete_args={"x": {"a": fx.PH}})
    equal(lesson.Transformer(module).transform()({"a": 3}), {"y": 6})


def test_the_tracer_says_which_modules_are_looked_into(lesson):
    transformer = lesson.Transformer(small())
    transformer.tracer.is_leaf_module = lambda m, name: False
    targets = [str(node.target) for node in transformer.transform().graph.nodes]
    holds("linear.weight" in targets, "the weight of the layer is an attribute", got=targets)


def test_a_function_that_was_wrapped_is_one_node_again(lesson):
    module = fx.symbolic_trace(Appends())
    same_graph(lesson.Transformer(module).transform().graph, module.graph)


def test_methods_can_be_rewritten(lesson):
    class Means(lesson.Transformer):
        def call_method(self, target, args, kwargs):
            return super().call_method("mean" if target == "sum" else target, args, kwargs)

    module, x = small(), torch.rand(2, 4)
    expected = torch.relu(module.linear(x * module.scale)).mean(dim=-1)
    same_numbers(Means(module).transform()(x), expected)


def test_the_output_can_be_rewritten(lesson):
    class Twice(lesson.Transformer):
        def output(self, target, args, kwargs):
            value = super().output(target, args, kwargs)
            return value, value + 1

    equal(Twice(traced(lambda x: x * 2)).transform()(3), (6, 7))


# --- ShapeProp ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last),
        lambda: torch.rand(2, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d),
        lambda: torch.rand(3, 4).t(),
        lambda: torch.rand(3, 4, requires_grad=True),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.quantize_per_tensor(torch.rand(3, 4), 0.1, 2, torch.quint8),
        lambda: torch.quantize_per_channel(
            torch.rand(2, 2), torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.qint8
        ),
        lambda: torch.rand(3, 4, device="meta"),
    ],
    ids=["last", "last 3d", "transposed", "grad", "sparse", "tensor", "channel", "meta"],
)
@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning", "ignore:.*quantize:DeprecationWarning")
def test_a_tensor_of_any_kind_is_described_as_torch_describes_it(lesson, make):
    value = make()

    def build() -> Run:
        return Run(traced(lambda x: (x, [x])), [value], value)

    equal(described(lesson.ShapeProp, build), described(ShapeProp, build))


def test_fake_tensors_are_propagated_as_by_torch(lesson):
    mode = FakeTensorMode()

    def build() -> Run:
        return run_of(zoo.resnet18())

    equal(described(lesson.ShapeProp, build, mode), described(ShapeProp, build, mode))


def test_the_module_is_real_after_fake_tensors_went_through(lesson):
    run = run_of(zoo.resnet18())
    shape_prop = lesson.ShapeProp(run.module, FakeTensorMode())
    equal(type(shape_prop.propagate(*run.values)).__name__, "FakeTensor")
    holds(shape_prop.module is run.module, "`module` is the real one again")
    same_numbers(run.module(*run.values), run.expected)


def test_a_fake_mode_that_is_active_is_used(lesson):
    with FakeTensorMode():
        interpreter = lesson.ShapeProp(small())
        equal(tuple(interpreter.propagate(torch.rand(7, 4)).shape), (7,))


def test_sizes_that_depend_on_data_are_bound_as_by_torch(lesson):
    def said_by(shape_prop) -> list[str]:
        module = traced(lambda x: x.nonzero().sum())
        interpreter = shape_prop(module, FakeTensorMode(shape_env=ShapeEnv()))
        for _ in range(2):  # the size of the second run is the one of the first
            interpreter.propagate(torch.ones(4))
        metas = [node.meta for node in module.graph.nodes]
        return [f"{meta['tensor_meta'].shape} {meta.get('unbacked_bindings')}" for meta in metas]

    equal(said_by(lesson.ShapeProp), said_by(ShapeProp))


@pytest.mark.beyond("`ShapeProp` does both")
def test_an_error_is_raised_and_not_printed(lesson, capsys):
    with refuses(RuntimeError, "%mul"):
        lesson.ShapeProp(small()).propagate(torch.rand(2, 5))
    equal(capsys.readouterr().err, "")


# --- profile --------------------------------------------------------------------------------------


def test_the_memory_is_that_of_all_values_that_are_needed(lesson):
    found = costs(lesson, lambda x: torch.relu(x.neg()) + 1, torch.ones(1000))
    sizes = {name: meta["bytes"] for name, meta in found.items()}
    expected = {"x": 4000, "neg": 8000, "relu": 8000, "add": 8000, "output": 4000}
    equal(sizes, expected, cause=(set(sizes.values()) == {4000}, "arguments are left out"))


def test_views_and_values_changed_in_place_share_memory(lesson):
    found = costs(lesson, lambda x: x.neg().relu_().view(10, 100), torch.ones(1000))
    sizes = [meta["bytes"] for meta in found.values()]
    equal(sizes, [4000, 8000, 4000, 4000, 4000])


def test_the_table_has_a_line_a_node(lesson):
    run = run_of(zoo.resnet18())
    _, *lines = lesson.profile(run.module, *run.values).splitlines()
    equal([line.split()[0] for line in lines], [node.name for node in run.module.graph.nodes])
    for node, line in zip(run.module.graph.nodes, lines, strict=True):
        _, milliseconds, megabytes = line.split()
        equal(float(milliseconds), round(node.meta["seconds"] * 1e3, 3))
        equal(float(megabytes), round(node.meta["bytes"] / 1e6, 3))


@pytest.mark.gpu
def test_the_time_of_a_node_on_a_gpu_is_that_of_the_gpu(lesson):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_method("neg", (graph.call_function(torch.mm, (x, x)),)))
    module, x = fx.GraphModule(nn.Module(), graph), torch.rand(8192, 8192, device="cuda")
    profiler = lesson.Profiler(module)
    profiler.profile(x)
    started = time.perf_counter()
    profiler.run(x)
    torch.cuda.synchronize()
    whole = time.perf_counter() - started
    seconds = {node.name: node.meta["seconds"] for node in graph.nodes}
    holds(0.5 * whole < seconds["mm"] < whole, "the product takes most of the time", got=seconds)
    holds(0 < seconds["neg"] < 0.2 * seconds["mm"], "the other node waits for it", got=seconds)


@pytest.mark.gpu
def test_resnet18_on_a_gpu_has_a_table(lesson):
    run = run_of(zoo.resnet18())
    _, *lines = lesson.profile(
        run.module.cuda(), *(each.cuda() for each in run.values)
    ).splitlines()
    equal(len(lines), 71)


# --- cost -----------------------------------------------------------------------------------------


def test_the_cost_of_a_run_is_linear(lesson):
    def work(count: int):
        module = chain(count)
        return lambda: lesson.Interpreter(module).run(1)

    factor = growth(work, 200)
    holds(factor < 2.5, "twice as many nodes cost twice as much", got=factor)
