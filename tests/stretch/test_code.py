"""``code``: what torch's graph modules do besides, and where ours are right and torch's are not."""

from __future__ import annotations

import ast
import copy
import functools
import gc
import importlib
import inspect
import linecache
import math
import operator
import os
import pickle
import traceback
from typing import NamedTuple

import pytest
import torch
from torch import fx, nn
from torch.fx.passes.shape_prop import _extract_tensor_metadata
from torch.utils._pytree import tree_leaves

from kata.torchvision_compat import torchvision
from tests import zoo
from tests.models.code import (
    Keywords,
    Labelled,
    Nested,
    call,
    lines,
    nested,
    runnable,
    same_code,
    traced,
)
from tests.suite import equal, holds, refuses, same_graph, same_numbers
from tests.suite.versions import INSTALLED


def sine(lesson, **words):
    """A module of one line."""
    return lesson.GraphModule({}, traced(lambda x: torch.sin(x)), **words)


def only_call(graph):
    """The node of the one function that a graph calls."""
    (node,) = [each for each in graph.nodes if each.op == "call_function"]
    return node


# --- the same text --------------------------------------------------------------------------------

# In these the annotations are text, or there are enums: their names in torch's code are others.
OTHER_NAMES = {"AnyDefault", "AnyOutput", "KeywordOnly"} | {
    f"AnythingToA{each}" for each in ("Function", "Method", "Module")
}


@pytest.mark.parametrize("name", sorted(zoo.SMALL.keys() - OTHER_NAMES))
def test_the_code_of_a_model_of_the_zoo_is_torchs(lesson, name):
    model = zoo.SMALL[name]().model
    graph = fx.Tracer().trace(model)
    equal(lesson.GraphModule(model, graph).code, fx.GraphModule(model, graph).code)


def test_the_code_of_resnet18_is_torchs_to_the_last_blank(lesson):
    model = torchvision.models.resnet18()
    graph = fx.Tracer().trace(model)
    equal(lesson.GraphModule(model, graph).code, fx.GraphModule(model, graph).code)


def halved(x):
    return x / 2


def tripled(x):
    return x * 3


def test_wrapped_functions_stay_wrapped_in_the_code(lesson):
    graph = traced(lambda x: x)
    (x, output) = graph.nodes
    with graph.inserting_before(output):
        for function in (halved, tripled, halved):
            x = graph.call_function(function, (x,))
            x.meta["is_wrapped"] = True
    output.args = (x,)
    again = fx.symbolic_trace(lesson.GraphModule({}, graph))
    same_graph(again.graph, graph)


def test_an_annotation_of_any_kind_is_kept(lesson):
    graph = fx.Graph()
    graph.output(graph.placeholder("x", list[torch.Tensor] | None))
    forward = lesson.GraphModule({}, graph).forward
    (parameter,) = inspect.signature(forward).parameters.values()
    became_text = (lambda got: isinstance(got, str), "the annotation became text")
    holds(
        parameter.annotation == (list[torch.Tensor] | None),  # torch 2.15 writes `Optional[...]`
        "a list of tensors, or None",
        got=parameter.annotation,
        cause=became_text,
    )


def test_generic_annotations_run(lesson):
    graph = fx.Graph()
    x = graph.placeholder("x", dict[str, list[torch.Tensor]])
    graph.output(graph.call_function(operator.getitem, (x, "a")))
    equal(lesson.GraphModule({}, graph)({"a": [1]}), [1])


def test_a_graph_without_an_output_is_a_function_too(lesson):
    equal(runnable(lesson, fx.Graph())(), None)


@pytest.mark.parametrize("graph", [call(getattr, "x", "shape"), traced(lambda x: x.T.mT)])
def test_attributes_are_written_with_a_dot(lesson, graph):
    same_code(lesson.python_code(graph)[0], graph)


@pytest.mark.parametrize("path", ["aten.relu.default", "aten.relu", "higher_order.cond"])
def test_an_operator_of_torch_is_written_as_its_path(lesson, path):
    graph = call(operator.attrgetter(path)(torch.ops), "x", inputs="x")
    same_code(lesson.python_code(graph)[0], graph)


def test_nodes_of_one_name_are_told_apart(lesson):
    graph = traced(lambda x: torch.sin(x) + torch.cos(x))
    _, sin, cos, add, _ = graph.nodes
    cos.name = add.name = sin.name
    x = torch.rand(2)
    same_numbers(runnable(lesson, graph)(x), x.sin() + x.cos())


OTHER_VALUES = {"pair": zoo.Pair(1, [2]), "enum": {"a": [{"b": (zoo.Colour.RED,)}]}}
OTHER_VALUES |= {"object": object(), "set": {1, 2}}


@pytest.mark.parametrize("value", OTHER_VALUES.values(), ids=OTHER_VALUES)
def test_an_argument_of_another_type_is_an_expression_for_the_value(lesson, value):
    writer = lesson.CodeWriter(fx.Graph())
    text = writer.argument(value)
    again = eval(text, dict(writer.globals))
    holds(again == value, f"{text} is the value again", got=again)
    equal(type(again), type(value))


def test_an_enum_is_written_as_a_member(lesson):
    text = lesson.python_code(call(same, zoo.Colour.RED, inputs=""))[0]
    holds("Colour.RED" in text, "the class and the name", got=text)


def test_a_node_is_written_as_its_name_in_a_named_tuple(lesson):
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    text = lesson.CodeWriter(graph).argument([zoo.Pair(x, y)])
    equal(eval(text, {"x": 1, "y": 2, "tests_zoo_Pair": zoo.Pair}), [zoo.Pair(1, 2)])


# --- text that means something else than it says --------------------------------------------------


@pytest.mark.beyond("`-2 ** x` is written, which is `-(2 ** x)`")
def test_a_negative_base_keeps_its_sign(lesson):
    equal(runnable(lesson, call(operator.pow, -2, "x", inputs="x"))(2), 4)


@pytest.mark.beyond("`2.bit_length()` is written, which isn't Python")
def test_a_method_of_a_number(lesson):
    graph = fx.Graph()
    graph.output(graph.call_method("bit_length", (2,)))
    equal(runnable(lesson, graph)(), 2)


@pytest.mark.beyond("`size += 1;  iadd = size` is written, and changes what is used later")
def test_an_operator_in_place_leaves_a_number_as_it_was(lesson):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(operator.iadd, (x, 1)), x))
    equal(runnable(lesson, graph)(1), (2, 1))


@pytest.mark.parametrize("name", ["iadd", "imul", "iand", "itruediv", "ilshift"])
def test_an_operator_in_place_changes_a_tensor(lesson, name):
    graph = call(getattr(operator, name), "x", "y")
    x = torch.tensor([4, 5]) if name in ("iand", "ilshift") else torch.tensor([4.0, 5.0])
    y = torch.ones_like(x)
    expected = getattr(operator, name)(x.clone(), y)
    result = runnable(lesson, graph)(x, y)
    same_numbers((result, x), (expected, expected))
    holds(result is x, "the tensor itself")
    holds("operator" not in lesson.python_code(graph)[0], "it is written as an operator")


def test_an_assignment_to_an_element_is_written_as_one(lesson):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(operator.setitem, (x, 0, 7))
    graph.output(x)
    holds("x[0] = 7" in lesson.python_code(graph)[0], "an assignment")
    equal(runnable(lesson, graph)([1, 2]), [7, 2])


@pytest.mark.beyond("the value is the container, though `operator.setitem` returns nothing")
def test_an_assignment_has_no_value(lesson):
    equal(runnable(lesson, call(operator.setitem, "x", 0, 7, inputs="x"))([1]), None)


@pytest.mark.beyond("`self.in` is written, which isn't Python")
def test_a_module_with_a_keyword_for_its_name(lesson):
    model = nn.ModuleDict({"in": nn.ReLU()})
    graph = fx.Graph()
    graph.output(graph.call_module("in", (graph.placeholder("x"),)))
    same_numbers(
        lesson.GraphModule(model, graph)(torch.tensor([-1.0, 1.0])), torch.tensor([0.0, 1.0])
    )


@pytest.mark.beyond("`f(in = x)` is written, which isn't Python")
def test_an_argument_with_a_keyword_for_its_name(lesson):
    equal(runnable(lesson, call(dict, **{"in": "x"}, a=1, inputs="x"))(3), {"a": 1, "in": 3})


@pytest.mark.parametrize("name", ["0", "shape"])
def test_an_attribute_may_have_any_name(lesson, name):
    module = nn.Sequential(nn.ReLU())
    module.shape = module[0]
    equal(runnable(lesson, call(getattr, "x", name, inputs="x"))(module), module[0])


def test_an_attribute_whose_name_is_an_input(lesson):
    equal(runnable(lesson, call(getattr, "x", "y"))(1 + 2j, "imag"), 2.0)


class Point(NamedTuple):
    x: object
    colour: zoo.Colour


@pytest.mark.beyond("what is inside a dict or a named tuple is written by `repr`")
@pytest.mark.parametrize("value", [{"a": zoo.Colour.RED}, {"a": len}, Point(1, zoo.Colour.RED)])
def test_a_value_inside_a_container_is_written_as_one_outside(lesson, value):
    equal(runnable(lesson, call(same, value, inputs=""))(), value)


def same(value):
    return value


@pytest.mark.beyond("it is written by `repr`, which isn't Python")
@pytest.mark.parametrize("value", [torch.ones(2), len, nn.ReLU(), {1, 2}], ids=type)
def test_any_object_may_be_an_argument(lesson, value):
    graph = fx.Graph()
    graph.output(graph.call_function(same, (value,)))
    holds(runnable(lesson, graph)() is value, "the object itself")


@pytest.mark.beyond("equal functions get one name, and the first is called twice")
def test_equal_functions_are_told_apart(lesson):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(tuple(graph.call_function(each, (x,)) for each in (Labelled(2), Labelled(3))))
    equal(runnable(lesson, graph)(1), (2, 3))


@pytest.mark.beyond("the path is written without a look at what is there")
def test_a_function_that_says_it_is_torchs(lesson):
    def relu(x):
        return x + 1

    relu.__module__ = "torch"
    equal(runnable(lesson, call(relu, "x", inputs="x"))(1), 2)


# --- a graph's own code generator -----------------------------------------------------------------


class Listed(fx.graph.CodeGen):
    """The function takes a list; a class of the user's, written for torch."""

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        first = f"def forward(self, inputs: List){maybe_return_annotation}:"
        return f"{first}\n    {', '.join(free_vars)}, = inputs"

    def generate_output(self, output_args):
        return f"return [{output_args!r}]"

    def additional_globals(self):
        return [("List", list)]


def test_a_code_generator_of_the_users(lesson):
    graph = traced(lambda x, y: x + y)
    graph.set_codegen(Listed())
    module = lesson.GraphModule({}, graph)
    equal(module([1, 2]), [3])
    equal(inspect.signature(module.forward).parameters["inputs"].annotation, list)


def test_one_may_derive_from_the_lessons_code_generator(lesson):
    class Doubled(lesson.CodeGen):
        def generate_output(self, output_args, **options):
            return super().generate_output((output_args, output_args), **options)

    graph = traced(lambda x: x + 1)
    graph.set_codegen(Doubled())
    equal(lesson.GraphModule({}, graph)(1), (2, 2))


def test_a_transformer_changes_the_body(lesson):
    def count_calls(body):
        return ["self.calls = getattr(self, 'calls', 0) + 1\n", *body]

    graph = traced(lambda x: x + 1)
    with graph.on_generate_code(lambda _: count_calls):
        module = lesson.GraphModule({}, graph)
    equal((module(1), module(1), module.calls), (2, 2, 2))
    module.recompile()
    holds("calls" not in module.code, "outside of the block nothing is changed", got=module.code)


def with_pytrees(keywords: bool = False) -> tuple[nn.Module, fx.Graph, tuple, dict]:
    """A traced model whose inputs and outputs are containers."""
    model = Keywords() if keywords else Containers()
    inputs = ({"a": torch.rand(2), "b": [torch.rand(2)]}, torch.rand(2))
    args = {"d": {"a": fx.PH, "b": [fx.PH]}, "y": fx.PH}
    return model, fx.Tracer().trace(model, concrete_args=args), inputs, {}


class Containers(nn.Module):
    def forward(self, d, y):
        return {"sum": d["a"] + d["b"][0], "all": (y, [d["a"] * y])}


def test_containers_go_in_and_out(lesson):
    model, graph, inputs, _ = with_pytrees()
    module = lesson.GraphModule(model, graph)
    same_numbers(module(*inputs), model(*inputs))
    equal(module.code, fx.GraphModule(model, graph).code)


def test_containers_go_in_by_keyword(lesson):
    exported = torch.export.export(Keywords(), (torch.rand(2),), {"scale": torch.rand(2)}).module()
    graph = exported.graph
    codegen = graph._codegen
    graph.set_codegen(fx.graph._PyTreeCodeGen(codegen.pytree_info))
    values = {"x": torch.rand(2), "scale": torch.rand(2)}
    same_numbers(lesson.GraphModule(exported, graph)(**values), Keywords()(**values))


class TwoAndAKeyword(nn.Module):
    def forward(self, x, y, *, scale):
        return (x - y) * scale


def test_a_keyword_comes_after_all_positional_arguments(lesson):
    model, inputs = TwoAndAKeyword(), (torch.rand(2), torch.rand(2))
    exported = torch.export.export(model, inputs, {"scale": torch.rand(2)}).module()
    graph, info = exported.graph, exported.graph._codegen.pytree_info
    graph.set_codegen(fx.graph._PyTreeCodeGen(info))
    scale = torch.rand(2)
    result = lesson.GraphModule(exported, graph)(*inputs, scale=scale)
    same_numbers(result, model(*inputs, scale=scale))


def test_annotated_leaves_are_statements_of_their_own(lesson):
    model, graph, inputs, _ = with_pytrees()
    leaf, other, *_ = graph.nodes
    leaf.type, other.type = torch.Tensor, int
    module = lesson.GraphModule(model, graph)
    expected = module.code
    if INSTALLED > (2, 13):  # the line may end without a space
        expected = expected.replace("; \n", ";\n")
    equal(expected, fx.GraphModule(model, graph).code)
    same_numbers(module(*inputs), model(*inputs))


def test_a_result_without_a_structure_stays_as_it_is(lesson):
    model, graph, inputs, _ = with_pytrees()
    info = graph._codegen.pytree_info._replace(out_spec=None)
    graph.set_codegen(lesson.PyTreeCodeGen(info))
    module = lesson.GraphModule(model, graph)
    equal(type(module(*inputs)), list)
    equal(graph._codegen.process_outputs([1, 2]), [1, 2])


def test_containers_are_taken_apart_and_built_by_the_code_generator(lesson):
    graph = fx.Tracer().trace(
        lambda x: {"y": x["a"] * 2, "z": (x["a"],)}, concrete_args={"x": {"a": fx.PH}}
    )
    codegen = lesson.PyTreeCodeGen(graph._codegen.pytree_info)
    equal(list(codegen.process_inputs({"a": 1})), [1])
    equal(codegen.process_outputs([1, 2]), {"y": 1, "z": (2,)})
    graph = fx.Tracer().trace(lambda x: x["a"], concrete_args={"x": {"a": fx.PH}})
    equal(lesson.PyTreeCodeGen(graph._codegen.pytree_info).process_outputs([3]), 3)


def test_the_specs_are_the_modules(lesson):
    model, graph, _, _ = with_pytrees()
    module = lesson.GraphModule(model, graph)
    equal((module._in_spec, module._out_spec), graph._codegen.pytree_info[1:])


# --- the state ------------------------------------------------------------------------------------


@pytest.mark.beyond(
    "all buffers become persistent, and the state has keys that the root's has not",
    condition=INSTALLED < (2, 14),
)
def test_a_buffer_that_is_not_stored_stays_so(lesson):
    model = zoo.SMALL["Buffers"]().model
    tracer = fx.Tracer()
    tracer.proxy_buffer_attributes = True
    module = lesson.GraphModule(model, tracer.trace(model))
    equal(list(module.state_dict()), list(model.state_dict()))


@pytest.mark.beyond("it becomes persistent", condition=INSTALLED < (2, 14))
def test_a_buffer_inside_that_is_not_stored_stays_so(lesson):
    model = nn.Module()
    model.inner = nn.Module()
    model.inner.register_buffer("steps", torch.ones(2), persistent=False)
    graph = fx.Graph()
    graph.output(graph.get_attr("inner.steps"))
    module = lesson.GraphModule(model, graph)
    same_numbers(module(), torch.ones(2))
    equal(module.inner._non_persistent_buffers_set, {"steps"})


@pytest.mark.parametrize("training", [True, False])
def test_the_module_is_in_the_mode_of_its_root(lesson, training):
    model = nn.Sequential(nn.ReLU()).train(training)
    equal(lesson.GraphModule(model, traced(lambda x: -x)).training, training)


def test_a_dict_is_a_root_too(lesson):
    model, graph = nested()
    targets = ["block.0", "block.2", "scale", "shift", "block.constant"]
    root = {target: operator.attrgetter(target)(model) for target in targets}
    ours = lesson.GraphModule(root, graph)
    same_numbers(ours(x := torch.rand(2, 4)), model(x))
    equal(list(ours.state_dict()), list(fx.GraphModule(root, graph).state_dict()))


def test_a_dict_may_name_what_is_deep_first(lesson):
    graph = fx.Graph()
    x = graph.call_module("block.0", (graph.placeholder("x"),))
    graph.output(graph.call_module("block", (x,)))
    root = {"block.0": nn.Tanh(), "block": nn.Sequential(nn.ReLU())}
    module = lesson.GraphModule(root, graph)
    holds(module.block is root["block"] and module.block[0] is root["block.0"], "both are there")


def test_a_dict_without_a_target_is_refused(lesson):
    graph = fx.Graph()
    graph.output(graph.get_attr("a.weight"))
    with refuses(RuntimeError, "a.weight"):
        lesson.GraphModule({"a": nn.Linear(1, 1)}, graph)


def test_a_root_of_another_type_is_refused(lesson):
    with refuses(RuntimeError, cause="it was taken"):
        lesson.GraphModule([nn.ReLU()], traced(lambda x: x))


def test_another_graph_is_compiled_at_once(lesson):
    module = sine(lesson)
    module.graph = traced(lambda x: torch.cos(x))
    x = torch.rand(2)
    same_numbers(module(x), x.cos())
    holds(module.graph.owning_module is module, "the graph knows its module")


def test_a_new_module_is_compiled_once(lesson):
    class Counting(lesson.GraphModule):
        compiled = 0

        def recompile(self):
            type(self).compiled += 1
            return super().recompile()

    equal(Counting({}, traced(lambda x: x)).compiled, 1)


def test_graph_modules_inside_are_compiled_as_well(lesson):
    inner = sine(lesson)
    graph = fx.Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    outer = lesson.GraphModule({"inner": inner}, graph)
    only_call(inner.graph).target = torch.cos
    outer.recompile()
    x = torch.rand(2)
    same_numbers(outer(x), x.cos())


def test_a_subclass_keeps_its_methods_and_attributes(lesson):
    class Named(lesson.GraphModule):
        def __init__(self, root, graph, label):
            super().__init__(root, graph, "Labelled")
            self.label = label

        def shout(self):
            return self.label.upper()

    module = copy.deepcopy(Named({}, traced(lambda x: x + 1), "successor"))
    equal((module(1), isinstance(module, Named)), (2, True))


def test_printing_shows_the_code(lesson):
    module = sine(lesson, class_name="Sine")
    holds(str(module).startswith("Sine()") and module.code in str(module), "name and code")


# --- submodules -----------------------------------------------------------------------------------


def test_submodules_are_added_and_deleted(lesson):
    model, graph = nested()
    module = lesson.GraphModule(model, graph)
    equal(module.add_submodule("new.deep.relu", nn.ReLU()), True)
    equal(type(module.get_submodule("new.deep.relu")), nn.ReLU)
    equal(
        module.add_submodule("scale.relu", nn.ReLU()),
        False,
        cause=(bool, "a parameter has no modules"),
    )
    equal(module.delete_submodule("new.deep"), True)
    equal([name for name, _ in module.new.named_children()], [])
    missing = [module.delete_submodule(each) for each in ("new.deep", "scale", "no.such", "")]
    equal(missing, [False] * 4)


def test_what_the_graph_does_not_name_is_deleted(lesson):
    module = lesson.GraphModule(*nested())
    module.add_submodule("block.idle", nn.ReLU())
    module.add_submodule("idle.inside", nn.ReLU())
    module.delete_all_unused_submodules()
    equal(sorted(name for name, _ in module.named_modules()), ["", "block", "block.0", "block.2"])


def test_what_is_inside_a_module_that_is_called_is_kept(lesson):
    graph = fx.Graph()
    graph.output(graph.call_module("block", (graph.placeholder("x"),)))
    module = lesson.GraphModule(Nested(), graph)
    module.delete_all_unused_submodules()
    equal(len(module.block), 3)


@pytest.mark.beyond(
    "the modules inside it are deleted: operators of higher order take such a module"
)
def test_what_is_inside_a_module_that_is_an_attribute_is_kept(lesson):
    graph = fx.Graph()
    graph.output(graph.create_node("get_attr", "block"))
    module = lesson.GraphModule(Nested(), graph)
    module.delete_all_unused_submodules()
    equal(len(module.block), 3)


@pytest.mark.beyond("a module is looked for under its first name alone")
def test_a_module_under_two_names_loses_the_one_that_is_not_used(lesson):
    graph = fx.Graph()
    graph.output(graph.call_module("first", (graph.placeholder("x"),)))
    module = lesson.GraphModule({"first": nn.ReLU()}, graph)
    module.second = module.first
    module.delete_all_unused_submodules()
    equal([*module._modules], ["first"])


# --- copies ---------------------------------------------------------------------------------------


COPIES = pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))],
    ids=["copy", "deepcopy", "pickle"],
)


@COPIES
@pytest.mark.parametrize(
    "name", ["EveryOpcode", "AnythingToAFunction", "SmallResNet", "Constants", "DeepNesting"]
)
def test_a_copy_computes_the_same(lesson, duplicate, name):
    specimen = zoo.SMALL[name]()
    module = lesson.GraphModule(specimen.model, fx.Tracer().trace(specimen.model), "Model")
    twin = duplicate(module)
    same_graph(twin.graph, module.graph)
    equal((twin.code, twin.training), (module.code, module.training))
    equal(list(twin.state_dict()), list(module.state_dict()))
    same_numbers(twin(*specimen.inputs), specimen.eager())


@pytest.mark.beyond("it is a GraphModule")
@COPIES
def test_a_copy_has_the_name_of_its_class(lesson, duplicate):
    equal(type(duplicate(sine(lesson, class_name="Sine"))).__name__, "Sine")


def test_a_deep_copy_has_its_own_graph_and_parameters(lesson):
    model, graph = nested()
    module = lesson.GraphModule(model, graph)
    twin = copy.deepcopy(module)
    holds(twin.scale is not module.scale and twin.graph is not module.graph, "nothing is shared")
    equal(len(list(twin.parameters())), len(list(module.parameters())))


def test_a_copy_shares_the_graph_and_no_attribute_that_comes_later(lesson):
    module = lesson.GraphModule(*nested())
    twin = copy.copy(module)
    twin.register_buffer("late", torch.ones(1))
    equal((twin.graph is module.graph, hasattr(module, "late")), (True, False))


def test_a_deep_copy_keeps_what_is_shared_inside(lesson):
    model = nn.Module()
    model.linear = nn.Linear(2, 2)
    model.weight = model.linear.weight
    graph = fx.Graph()
    x = graph.call_module("linear", (graph.placeholder("x"),))
    graph.output(graph.call_function(torch.mm, (x, graph.get_attr("weight"))))
    twin = copy.deepcopy(lesson.GraphModule(model, graph))
    holds(twin.weight is twin.linear.weight, "one parameter, as before")


@pytest.mark.beyond("it is traced again: names are new, and stack traces are lost")
def test_pickling_keeps_names_types_and_metadata(lesson):
    graph = traced(lambda x: halved(x))
    (node,) = graph.find_nodes(op="call_function", target=operator.truediv)
    node.name, node.type, node.stack_trace = "half", torch.Tensor, "a line"
    node.meta["is_wrapped"] = True
    twin = only_call(pickle.loads(pickle.dumps(lesson.GraphModule({}, graph))).graph)
    equal((twin.name, twin.type, twin.stack_trace), ("half", torch.Tensor, "a line"))
    equal(twin.meta.get("is_wrapped"), True)


def test_a_copy_is_edited_alone(lesson):
    module = sine(lesson)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        only_call(twin.graph).target = torch.cos
        twin.recompile()
        x = torch.rand(2)
        same_numbers((module(x), twin(x)), (x.sin(), x.cos()))


def test_a_copy_keeps_the_metadata(lesson):
    module = sine(lesson)
    module.meta["key"] = [1]
    twin = copy.deepcopy(module)
    equal(twin.meta, {"key": [1]})
    holds(twin.meta["key"] is not module.meta["key"], "a copy of it")


@pytest.mark.beyond("a deep copy has what the graph names, and nothing else")
def test_a_deep_copy_keeps_attributes(lesson):
    module = sine(lesson)
    module.label = "mine"
    equal(getattr(copy.deepcopy(module), "label", None), "mine")


IN_PLACE = "it stores the code and traces that, which makes `add` of `iadd`"


@pytest.mark.beyond("it stores the code and traces that, which makes `add` of `iadd`")
def test_pickling_keeps_operators_in_place(lesson):
    module = lesson.GraphModule({}, call(operator.iadd, "x", 1, inputs="x"))
    twin = pickle.loads(pickle.dumps(module))
    same_graph(twin.graph, module.graph)
    x = torch.zeros(2)
    twin(x)
    same_numbers(x, torch.ones(2))


@pytest.mark.beyond("what a trace can't follow can't be stored")
def test_pickling_traces_nothing(lesson):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(len, (x,)))
    equal(pickle.loads(pickle.dumps(lesson.GraphModule({}, graph)))([1, 2]), 2)


def test_operators_of_aten_are_pickled(lesson):
    module = lesson.GraphModule({}, call(torch.ops.aten.relu.default, "x", inputs="x"))
    equal(only_call(pickle.loads(pickle.dumps(module)).graph).target, torch.ops.aten.relu.default)


@pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec:FutureWarning")
def test_a_module_with_pytrees_is_pickled(lesson):
    model, graph, inputs, _ = with_pytrees()
    twin = pickle.loads(pickle.dumps(lesson.GraphModule(model, graph)))
    same_numbers(twin(*inputs), model(*inputs))


def test_a_long_graph_is_pickled(lesson):
    def many(x):
        for _ in range(2000):
            x = torch.relu(x)
        return x

    twin = pickle.loads(pickle.dumps(lesson.GraphModule({}, traced(many))))
    equal(len(twin.graph.nodes), 2002)


# --- tracing, and what comes later ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["EveryOpcode", "Operators", "ReturnsStructure", "SliceByProxy"])
def test_a_trace_of_the_module_is_its_graph(lesson, name):
    model = zoo.SMALL[name]().model
    graph = fx.Tracer().trace(model)
    same_graph(fx.Tracer().trace(lesson.GraphModule(model, graph)), graph)


def test_a_lazy_module_generates_code_when_it_runs(lesson):
    module = lesson.LazyGraphModule({}, traced(lambda x: torch.sin(x)))
    x = torch.rand(2)
    for function in (torch.cos, torch.tan):
        only_call(module.graph).target = function
        same_numbers(module(x), function(x))
        module.recompile()


def test_a_lazy_module_has_its_state_and_takes_keywords(lesson):
    model, x = nn.Linear(2, 2), torch.rand(2)
    module = lesson.LazyGraphModule(model, fx.Tracer().trace(model))
    same_numbers(module(input=x), model(x))


def test_the_code_of_a_lazy_module_is_generated_once(lesson):
    module = lesson.LazyGraphModule({}, traced(lambda x: torch.sin(x)))
    module.real_recompile()
    forward = vars(type(module))["forward"]
    module.real_recompile()
    holds(vars(type(module))["forward"] is forward, "the same function")


@pytest.mark.unasked
def test_a_lazy_module_can_be_traced(lesson):
    module = lesson.LazyGraphModule({}, traced(lambda x, y=2: torch.sin(x) * y))
    same_graph(fx.Tracer().trace(module), module.graph)


def test_a_lazy_module_generates_code_when_it_is_asked_for_it(lesson):
    holds(
        "torch.sin" in lesson.LazyGraphModule({}, traced(lambda x: torch.sin(x))).code, "the code"
    )


# --- what one sees --------------------------------------------------------------------------------


def reshaped(x):
    return torch.sin(x).reshape(7)


def failing(lesson):
    return lesson.GraphModule({}, traced(reshaped))


@pytest.mark.beyond("the traceback is thrown away")
def test_a_traceback_shows_the_generated_line(lesson):
    module = failing(lesson)
    try:
        module(torch.rand(3))
    except RuntimeError as error:
        shown = "".join(traceback.format_exception(error))
    holds("reshape = sin.reshape(7)" in shown, "the line of the code that failed", got=shown)


def test_an_error_says_which_line_failed(lesson, capsys):
    module = failing(lesson)
    with pytest.raises(RuntimeError) as caught:
        module(torch.rand(3))
    said = "\n".join(getattr(caught.value, "__notes__", [])) + capsys.readouterr().err
    number = next(n for n, line in enumerate(module.code.splitlines(), 1) if "reshape" in line)
    holds(
        f"line {number} of" in said and "reshape = " in said,
        "number and text of the line",
        got=said,
    )


@pytest.mark.beyond("it is printed to stderr, and more of it")
def test_a_note_shows_the_line_that_failed_between_its_neighbours(lesson):
    module = failing(lesson)
    with pytest.raises(RuntimeError) as caught:
        module(torch.rand(3))
    source = module.code.splitlines()
    number = next(n for n, line in enumerate(source) if "reshape" in line)
    before, failed, after = source[number - 1 : number + 2]
    (note,) = caught.value.__notes__
    equal(note.splitlines()[1:], [f"  {before}", f"> {failed}", f"  {after}"])


def test_an_error_inside_a_module_is_not_the_codes(lesson, capsys):
    graph = fx.Graph()
    graph.output(graph.call_module("linear", (graph.placeholder("x"),)))
    module = lesson.GraphModule({"linear": nn.Linear(2, 2)}, graph)
    with pytest.raises(RuntimeError) as caught:
        module(torch.rand(3))
    said = "\n".join(getattr(caught.value, "__notes__", [])) + capsys.readouterr().err
    holds("line" not in said.split("Traceback")[0], "it says nothing", got=said)


def test_the_source_of_forward_is_found(lesson):
    module = failing(lesson)
    equal(lines(inspect.getsource(type(module).forward)), lines(module.code))


@pytest.mark.beyond("the name of its file ends like that of a terminal, whose source isn't kept")
def test_the_source_of_a_traced_lambda_is_found(lesson):
    module = sine(lesson)
    equal(lines(inspect.getsource(type(module).forward)), lines(module.code))


@pytest.mark.beyond("the source of every module that ever was is kept")
def test_the_source_goes_with_the_module(lesson):
    module = sine(lesson)
    filename = type(module).forward.__code__.co_filename
    holds(linecache.getlines(filename), "the source is found")
    del module
    gc.collect()
    equal(linecache.getlines(filename), [])
    linecache.checkcache()
    holds(filename not in linecache.cache, "nothing is left of it")


def test_the_source_may_go_while_python_goes_through_all_sources(lesson, monkeypatch):
    monkeypatch.setattr(linecache, "cache", {"missing": (0, 0.0, [], "missing")})
    modules = [sine(lesson)]
    modules[0](torch.ones(1))

    def stat(path):
        modules.clear()
        gc.collect()
        raise FileNotFoundError(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        linecache.checkcache()
    equal(modules, [])


def test_print_readable_shows_the_code_in_its_class(lesson, capsys):
    module = lesson.GraphModule({}, traced(lambda x: torch.sin(x)), class_name="Sine")
    text = module.print_readable()
    equal(capsys.readouterr().out.strip(), text.strip())
    holds(
        text.startswith("class Sine(torch.nn.Module):\n    def forward(self, x)"),
        "a class",
        got=text,
    )
    module.print_readable(print_output=False)
    equal(capsys.readouterr().out, "")


def test_print_readable_shows_shapes(lesson):
    module = sine(lesson)
    for node in module.graph.nodes:
        node.meta["val"] = torch.rand(2, 3)
    text = module.print_readable(print_output=False)
    holds('sin: "f32[2, 3]" = torch.sin(x)' in text, "shape and type of each value", got=text)
    ast.parse(text)
    strides = module.print_readable(print_output=False, include_stride=True, include_device=True)
    holds('"f32[2, 3][3, 1]cpu"' in strides, "stride and device", got=strides)


@pytest.mark.parametrize("key", ["val", "tensor_meta", "example_value"])
def test_print_readable_finds_the_shape(lesson, key):
    module = sine(lesson)
    only_call(module.graph).meta[key] = _extract_tensor_metadata(torch.rand(2, 3))
    text = module.print_readable(print_output=False)
    holds('sin: "f32[2, 3]" =' in text, "shape and type", got=text)


@pytest.mark.beyond("strides are those of tensors alone")
def test_print_readable_shows_strides_from_metadata(lesson):
    module = sine(lesson)
    only_call(module.graph).meta["tensor_meta"] = _extract_tensor_metadata(torch.rand(2, 3))
    text = module.print_readable(print_output=False, include_stride=True, include_device=True)
    holds('sin: "f32[2, 3][3, 1]" =' in text, "shape, type and stride", got=text)


def test_print_readable_keeps_other_annotations(lesson):
    graph = traced(lambda x: x)
    graph.output_node().type = int
    text = lesson.GraphModule({}, graph).print_readable(print_output=False)
    holds("(self, x) -> int:" in text, "the type of the result", got=text)


def test_print_readable_of_an_empty_graph_is_a_class(lesson):
    text = lesson.GraphModule({}, fx.Graph()).print_readable(print_output=False)
    holds(ast.unparse(ast.parse(text)).endswith("pass"), "a body of `pass`", got=text)


def test_print_readable_shows_graph_modules_inside(lesson):
    graph = fx.Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    text = lesson.GraphModule({"inner": sine(lesson)}, graph).print_readable(print_output=False)
    holds("    class inner(torch.nn.Module):" in text, "the class of the inner one", got=text)


# --- a graph of another library -------------------------------------------------------------------


class OwnNode:
    """What the lesson needs to know about a node, and nothing else."""

    type = None

    def __init__(self, name, op, target, args=(), inputs=(), kwargs=None):
        self.name, self.op, self.target = name, op, target
        self.args, self.kwargs, self.all_input_nodes, self.meta = (
            args,
            kwargs or {},
            list(inputs),
            {},
        )


class OwnGraph:
    def __init__(self, *nodes):
        self.nodes = nodes


@pytest.mark.beyond("it takes graphs of its own class")
def test_a_graph_of_another_class(lesson):
    x = OwnNode("x", "placeholder", "x")
    relu = OwnNode("relu", "call_function", torch.relu, (x,), [x])
    output = OwnNode("output", "output", "output", ([relu, x],), [relu, x])
    x_value = torch.tensor([-1.0, 1.0])
    module = lesson.GraphModule({}, OwnGraph(x, relu, output))
    same_numbers(module(x_value), [x_value.relu(), x_value])


# --- names and places -----------------------------------------------------------------------------


def test_a_node_may_be_called_like_a_keyword(lesson):
    graph = traced(lambda x: torch.sin(x))
    _, node, _ = graph.nodes
    node.name = "None"
    same_code(lesson.python_code(graph)[0], graph)


@pytest.mark.beyond("the parameter hides the builtin, and a tensor is called")
def test_a_parameter_may_be_called_like_a_builtin_that_is_called(lesson):
    graph = fx.Graph()
    graph.output(graph.call_function(len, (graph.placeholder("len"),)))
    equal(runnable(lesson, graph)([1, 2]), 2)


@pytest.mark.beyond("torch asks the target for its `__name__`")
def test_an_object_without_a_name_can_be_called(lesson):
    graph = fx.Graph()
    node = graph.call_function(operator.neg, (graph.placeholder("x"),))
    graph.output(node)
    node.target = functools.partial(operator.mul, 3)
    equal(lesson.GraphModule({}, graph)(2), 6)


def test_the_code_is_placed_where_the_graph_says(lesson):
    graph = traced(lambda x: torch.sin(x))
    graph._co_fields = {"co_filename": "model.py", "co_firstlineno": 7, "co_name": "forward"}
    module = lesson.GraphModule({}, graph)
    file = type(module).forward.__code__.co_filename
    holds(file.endswith(" from model.py:7 in forward"), "the file of the graph", got=file)


def test_a_module_with_an_operator_packet_is_stored(lesson):
    graph = fx.Graph()
    graph.output(graph.call_function(torch.ops.aten.sigmoid, (graph.placeholder("x"),)))
    module = pickle.loads(pickle.dumps(lesson.GraphModule({}, graph)))
    same_numbers(module(x := torch.rand(3)), x.sigmoid())


# --- from the graph, and to a folder --------------------------------------------------------------


def graph_of_relu(lesson):
    """``relu(self.layer.weight)``, in a graph of the lesson's own."""
    graph = lesson.Graph()
    graph.output(graph.call_function(torch.relu, (graph.get_attr("layer.weight"),)))
    return graph


@pytest.mark.unasked
@pytest.mark.parametrize("root", ["self", "root"])
def test_a_graph_writes_its_code_for_a_root_of_any_name(lesson, root):
    graph = graph_of_relu(lesson)
    code = graph.python_code(root)
    holds(f"layer_weight = {root}.layer.weight" in lines(code.src), "the root's name", got=code.src)
    equal(code.globals["torch"], torch)


@pytest.mark.unasked
def test_the_code_of_a_graph_has_shapes_if_it_is_verbose(lesson):
    graph = graph_of_relu(lesson)
    for node in graph.nodes:
        node.meta["val"] = torch.ones(2, 3)
    equal("f32[2, 3]" in graph.python_code("self", verbose=True).src, True)
    equal("f32[2, 3]" in graph.python_code("self").src, False)


@pytest.mark.unasked
def test_transformers_of_the_code_are_nested_and_taken_back(lesson):
    graph = lesson.Graph()
    graph.output(graph.placeholder("x"))

    def adding(text):
        return lambda before: lambda body: [f"{text}\n", *(before(body) if before else body)]

    graph.on_generate_code(adding("first = 1"))  # not in a block: it stays
    with graph.on_generate_code(adding("second = 2")):
        inside = lines(graph.python_code("self").src)
    equal(inside[1:3], ["second = 2", "first = 1"])
    equal(lines(graph.python_code("self").src)[1:], ["first = 1", "return x"])


def imported_from(folder, monkeypatch):
    """The package that was written to a folder."""
    monkeypatch.syspath_prepend(folder.parent)
    return importlib.import_module(folder.name)


@pytest.mark.unasked
@pytest.mark.filterwarnings("ignore:Was not able to save")
@pytest.mark.parametrize("name", ["EveryOpcode", "Operators", "ReturnsStructure", "SharedModules"])
def test_a_module_in_a_folder_is_a_class_to_import(lesson, name, tmp_path, monkeypatch):
    case = zoo.SMALL[name]()
    module = lesson.GraphModule(case.model, fx.Tracer().trace(case.model))
    module.to_folder(tmp_path / f"folder_of_{name}", "Stored")
    stored = imported_from(tmp_path / f"folder_of_{name}", monkeypatch).Stored().eval()
    same_numbers(tree_leaves(stored(*case.inputs)), tree_leaves(module.eval()(*case.inputs)))
    same_numbers(stored.state_dict(), module.state_dict())


@pytest.mark.unasked
@pytest.mark.beyond("functions of other modules are missing, and the folder is found by its path")
def test_a_folder_has_all_that_the_code_calls_and_can_be_moved(lesson, tmp_path, monkeypatch):
    lesson.GraphModule({}, call(math.gcd, "x", 12, inputs="x")).to_folder(tmp_path / "before")
    stored = imported_from((tmp_path / "before").rename(tmp_path / "after"), monkeypatch)
    equal(stored.FxModule()(8), 4)


@pytest.mark.unasked
@pytest.mark.beyond("the mode and buffers that aren't stored are lost")
def test_a_module_in_a_folder_keeps_its_mode_and_shares_nothing(lesson, tmp_path, monkeypatch):
    model = nn.Sequential(nn.BatchNorm1d(2)).eval()
    model.register_buffer("scale", torch.ones(2), persistent=False)
    lesson.GraphModule(model, fx.Tracer().trace(model)).to_folder(tmp_path / "in_eval")
    package = imported_from(tmp_path / "in_eval", monkeypatch)
    first, second = package.FxModule(), package.FxModule()
    equal(first.get_submodule("0").training, False)
    holds(not {*first.parameters()} & {*second.parameters()}, "each has its own parameters")


@pytest.mark.unasked
@pytest.mark.beyond("the code is written, and can't be run")
def test_a_function_that_cannot_be_stored_is_named(lesson, tmp_path):
    module = lesson.GraphModule({}, call(lambda x: x, "x", inputs="x"))
    with refuses((AttributeError, pickle.PicklingError), "<lambda>"):
        module.to_folder(tmp_path / "lambda")
