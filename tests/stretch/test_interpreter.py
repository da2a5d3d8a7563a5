"""``interpreter``, the rest: partial runs, flat inputs, errors, metadata, fake tensors."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import fx, nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.traceback import preserve_node_meta

from tests import zoo
from tests.models.interpreter import (
    chain,
    described,
    error_of,
    keeping,
    node_of,
    run_of,
    small,
    traced,
)
from tests.suite import equal, holds, is_linear, refuses, same_graph, same_numbers
from tests.suite.versions import INSTALLED, that_run

ONE = torch.tensor(1.0)

# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.beyond("torch makes lists of both")
def test_variadic_parameters_are_what_python_makes_of_them(lesson):
    module = traced(lambda x, *args, **kwargs: (x, args, kwargs))
    equal(lesson.Interpreter(module).run(1, 2, 3), (1, (2, 3), {}))


def test_a_flat_graph_takes_and_returns_containers_or_flat_values(lesson):
    module = fx.symbolic_trace(lambda x: {"y": x["a"] * 2}, concrete_args={"x": {"a": fx.PH}})
    interpreter = lesson.Interpreter(module)
    equal(interpreter.run({"a": 3}), {"y": 6})
    equal(list(interpreter.run(3, enable_io_processing=False)), [6])
    equal(lesson.Transformer(module).transform()({"a": 3}), {"y": 6})


def test_values_that_are_given_are_not_computed(lesson):
    module = traced(lambda x: (x + 1) * 2)
    equal(lesson.Interpreter(module).run(None, initial_env={node_of(module, "add"): 5}), 10)


@pytest.mark.beyond("torch works in the dict that it is given")
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


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.beyond("torch keeps it, because it has no last use")
def test_an_unused_value_is_freed_at_once(lesson):
    def function(x):
        x.neg()
        return x.relu()

    interpreter = lesson.Interpreter(traced(function))
    interpreter.run(torch.ones(2))
    equal([str(node) for node in interpreter.env], ["output"])


@pytest.mark.unasked
def test_an_interpreter_has_the_attributes_that_subclasses_of_torchs_read(lesson):
    interpreter = keeping(lesson, module := traced(lambda x: torch.sin(x + 1)))
    x, add, sin, _ = module.graph.nodes
    equal(lesson.Interpreter(module).user_to_last_uses[sin], [add])
    equal((interpreter.name, interpreter.submodules), ("Interpreter", dict(module.named_modules())))
    interpreter.run(ONE)
    equal(interpreter.map_nodes_to_values((x,), add), (ONE,))


# --- errors ---------------------------------------------------------------------------------------


def failing(error):
    """Make a module whose one function raises the error; the node has a line of the model."""

    def fail(x):
        raise error

    graph = fx.Graph()
    graph.output(graph.call_function(fail, (graph.placeholder("x"),)))
    module = fx.GraphModule(nn.Module(), graph)
    node_of(module, "fail").stack_trace = "model.py, line 3"
    return module


def test_an_error_names_the_node_and_the_line_of_the_model(lesson):
    interpreter = lesson.Interpreter(failing(ValueError("no luck")))
    words = error_of(lambda: interpreter.run(1))
    for part in ("no luck", "While executing %fail", "model.py, line 3"):
        holds(part in words, part, got=words)
    interpreter = lesson.Interpreter(failing(ValueError("no luck")))
    interpreter.extra_traceback = False
    equal(error_of(lambda: interpreter.run(1)), "ValueError: no luck\n")


@pytest.mark.beyond("a `KeyError` becomes a `RuntimeError`")
def test_an_error_keeps_its_type_and_arguments(lesson):
    error = KeyError("key", 2)
    with refuses(KeyError):
        lesson.Interpreter(failing(error)).run(1)
    equal(error.args, ("key", 2))


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
        if node.op != "placeholder":  # torch's tracer doesn't make it
            equal(node.meta["nn_module_stack"], {node.name: ("a", nn.Module)})
            equal(node.stack_trace, f"line of {node.name}")


@pytest.mark.beyond("torch creates placeholders without its tracer")
def test_a_transformer_keeps_metadata_of_placeholders(lesson):
    module = small()
    node_of(module, "x").stack_trace = "line of x"
    equal(node_of(lesson.Transformer(module).transform(), "x").stack_trace, "line of x")


# --- Transformer ----------------------------------------------------------------------------------


@pytest.mark.beyond("all buffers become persistent", condition=INSTALLED < (2, 14))
def test_a_buffer_that_is_not_saved_stays_out_of_the_state(lesson):
    module = fx.symbolic_trace(zoo.SMALL["Buffers"]().model)
    module._non_persistent_buffers_set.add("shift")
    expected = list(module.state_dict())
    equal(list(lesson.Transformer(module).transform().state_dict()), expected)


def test_a_default_that_is_a_tensor_stays_one(lesson):
    transformer, default = lesson.Transformer(small()), torch.ones(2)
    node = transformer.placeholder("scale", (default,), {}).node
    equal([each.op for each in node.graph.nodes], ["placeholder"])
    holds(node.args[0] is default, "the default itself", got=node.args)


@pytest.mark.parametrize("name", that_run(zoo.SMALL))
def test_a_model_of_the_zoo_is_recorded_as_torch_records_it(lesson, name):
    module, other = (run_of(zoo.SMALL[name]()).module for _ in range(2))
    ours, theirs = lesson.Transformer(module), fx.Transformer(other)
    same_graph(ours.transform().graph, theirs.transform().graph)


def test_the_tracer_says_which_modules_are_looked_into(lesson):
    transformer = lesson.Transformer(small())
    transformer.tracer.is_leaf_module = lambda m, name: False
    targets = [str(node.target) for node in transformer.transform().graph.nodes]
    holds("linear.weight" in targets, "the weight of the layer is an attribute", got=targets)


# --- ShapeProp ------------------------------------------------------------------------------------


def test_fake_tensors_are_propagated_as_by_torch(lesson):
    mode, model = FakeTensorMode(), zoo.SMALL["SmallResNet"]
    ours, theirs = (described(each, model, mode) for each in (lesson.ShapeProp, ShapeProp))
    equal(ours, theirs)


def test_a_fake_mode_that_is_active_is_used_and_the_module_stays_the_real_one(lesson):
    with FakeTensorMode():
        shape_prop = lesson.ShapeProp(module := small())
        equal(tuple(shape_prop.propagate(torch.rand(7, 4)).shape), (7,))
    holds(shape_prop.module is module, "`module` is the real one again")


@pytest.mark.beyond("`ShapeProp` does both")
def test_an_error_is_raised_and_not_printed(lesson, capsys):
    with refuses(RuntimeError, "cannot be multiplied"):
        lesson.ShapeProp(small()).propagate(torch.rand(2, 5))
    equal(capsys.readouterr().err, "")


# --- cost -----------------------------------------------------------------------------------------


def test_the_cost_of_a_run_is_linear(lesson):
    def work(count: int):
        module = chain(count)
        return lambda: lesson.Interpreter(module).run(1)

    is_linear(work, 200, "nodes")
