"""``code``: your graphs become the code that torch writes, and the code runs."""

from __future__ import annotations

import copy
import math
import operator
import sys
from types import FunctionType, SimpleNamespace

import pytest
import torch
from torch import fx, nn
from torch.nn import functional as F

from tests import zoo
from tests.models.code import (
    FREEING,
    Nested,
    Same,
    call,
    freed_early,
    nested,
    runnable,
    same_code,
    same_statements,
    traced,
)
from tests.suite import equal, holds, is_value, noting, same_numbers
from tests.suite.versions import that_run

# --- step 1: paths and names ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expression"),
    [
        ("layer.conv", "self.layer.conv"),
        ("layer1.0.conv1", 'getattr(self.layer1, "0").conv1'),
        ("my-block.conv", 'getattr(self, "my-block").conv'),
    ],
)
def test_a_path_is_written_as_python_reads_it(lesson, path, expression):
    cause = [
        (is_value(f"self.{path}"), f"`self.{path}` isn't a path that Python can read"),
        (lambda got: "'" in got and '"' not in got, "torch writes double quotes"),
        (lambda got: '"conv' in got, "an identifier needs no `getattr`"),
    ]
    equal(lesson.attribute("self", path), expression, cause=cause)


def test_an_object_of_torch_is_written_as_its_path(lesson):
    writer = lesson.CodeWriter(fx.Graph())
    equal(writer.reference(torch.relu), "torch.relu")
    equal(writer.reference(torch.Tensor), "torch.Tensor")
    equal(writer.reference(F.relu), "torch.nn.functional.relu")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.sqrt, "math_sqrt"),
        (lambda x: 2 * x, "tests_test_code__lambda_"),
        (str.upper, "upper"),  # without a module
        (torch.ones(2), "torch_Tensor"),  # without a name
    ],
    ids=["function", "lambda", "method", "tensor"],
)
def test_any_other_object_becomes_a_global(lesson, value, expected):
    writer = lesson.CodeWriter(fx.Graph())
    cause = [
        (lambda error: error.name in ("__module__", "__name__"), "not every object has it"),
        (lambda error: "Boolean value" in str(error), "only `is` can compare any two objects"),
    ]
    with noting(cause=cause, on=(AttributeError, RuntimeError)):
        name = writer.reference(value)
    cause = [
        (lambda got: "<" in got, "`<` is illegal in a name"),
        (lambda got: got.startswith("torch."), "this path doesn't lead to the object"),
        (lambda got: "." in got, "the code never imports this module"),
    ]
    equal(name, expected, cause=cause)
    holds(writer.globals.get(name) is value, f"`globals` has the object under {name!r}")
    cause = (lambda got: got != name, "it got a second global")
    equal(writer.reference(value), name, cause=cause, hint="look in `globals`")


@pytest.mark.parametrize("module", ["torch", "torch.missing", "torchlike"])
def test_a_path_is_written_only_if_it_leads_from_torch_to_the_object(lesson, module, monkeypatch):
    def relu(x):
        return x

    relu.__module__ = module
    monkeypatch.setitem(sys.modules, "torchlike", SimpleNamespace(relu=relu))
    writer = lesson.CodeWriter(fx.Graph())
    name = writer.reference(relu)
    cause = [
        (is_value("torchlike.relu"), "`torchlike` was taken for a module of torch"),
        (is_value("torch.relu"), "`torch.relu` is another function"),
    ]
    holds(writer.globals.get(name) is relu, "a global", got=name, cause=cause)


def test_two_equal_objects_have_two_globals(lesson):
    first, second = Same(), Same()
    writer = lesson.CodeWriter(fx.Graph())
    names = writer.reference(first), writer.reference(second)
    holds(names[0] != names[1], "two names", got=names, hint="compare objects by identity")
    holds(writer.globals[names[1]] is second, "each name is of its own object")


def test_a_global_does_not_have_the_name_of_a_node(lesson):
    graph = fx.Graph()
    graph.output(graph.call_function(math.sqrt, (graph.placeholder("x"),), name="math_sqrt"))
    graph.get_attr("math_sqrt_")
    writer = lesson.CodeWriter(graph)
    name = writer.reference(math.sqrt)
    taken = (lambda name: name in writer.node_names, "a node has this name too")
    holds(name not in ("math_sqrt", "math_sqrt_"), "a name of no node", got=name, cause=taken)
    graph.placeholder("len")  # the node is `len_1`, and the parameter `len`
    cause = (is_value("len"), "a parameter has this name: `node_names` has parameters, too")
    equal(lesson.CodeWriter(graph).reference(len), "len_", cause=cause)


# --- step 2: arguments ----------------------------------------------------------------------------

VALUES = zoo.PLAIN | {"nan": math.nan, "minus_infinity": -math.inf, "bytes": b"text"}
VALUES |= {"one": (1,), "none": (), "function": len, "sqrt": math.sqrt, "type": int, "minus": -1}
VALUES |= {"nested": {"a": [{"b": (1,)}]}, "inside": [(zoo.Colour.RED, [len])]}
VALUES |= {"quotes": "'a' \"b\"\n", "callable": operator.itemgetter(0)}
VALUES |= {"parameter": nn.Parameter(torch.tensor(2.0))}
VALUES |= {"size": torch.Size([2, 4]), "pair": zoo.Pair(1, len), "tensor": torch.tensor(2.0)}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_an_argument_is_an_expression_for_the_value(lesson, value):
    writer = lesson.CodeWriter(fx.Graph())
    text = writer.argument(value)
    try:
        again = eval(text, dict(writer.globals))
    except (SyntaxError, NameError) as error:
        again = error
    cause = (text == repr(value), "its `repr` isn't Python for this value")
    holds(again == value or value != value, f"{text} is the value again", got=again, cause=cause)
    if not isinstance(value, torch.Size):  # it may become a tuple
        equal(type(again), type(value))


def test_a_node_is_written_as_its_name_wherever_it_is(lesson):
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    writer = lesson.CodeWriter(graph)
    value = (x, [y, {"key": x}, len], slice(None, y), (y,), zoo.Pair(x, 3))
    text = writer.argument(graph.call_function(max, (value,)).args[0])  # its lists are immutable
    expected = (1, [2, {"key": 1}, len], slice(None, 2), (2,), zoo.Pair(1, 3))
    equal(eval(text, writer.globals | {"x": 1, "y": 2}), expected)


def unused(x):
    torch.sin(-x)
    return x + 1


# --- step 3: the last use of each value -----------------------------------------------------------


def test_the_last_uses_are_those_of_torch(lesson):
    graph = traced(lambda x, y: (torch.add(x, y) + x, y.sum(), x.sin())[:2])
    expected = fx.Interpreter(fx.GraphModule({}, graph)).user_to_last_uses
    freed = lesson.last_uses(graph)
    early = freed_early(graph, freed)
    parameters = [each for values in freed.values() for each in values if each.op == "placeholder"]
    cause = [
        (not any(freed.values()), "nothing is freed"),
        (bool(early), early),
        (not parameters, "the values of placeholders are never freed"),
    ]
    for node, inputs in expected.items():
        got = [each for each in freed[node] if each is not node]
        order = (set(got) == set(inputs), "these aren't in the order of `all_input_nodes`")
        equal(got, inputs, cause=[*cause, order])


def test_the_last_use_is_the_last_one_in_the_graph(lesson):
    graph = traced(lambda x: torch.cat([x.neg()], dim=x.sin()))
    x, neg, sine, *_ = graph.nodes
    neg.prepend(sine)  # `x.users` is still neg, sine
    freed = lesson.last_uses(graph)
    early = freed_early(graph, freed)
    equal(freed[neg], [x], cause=(bool(early), early), hint="the order of the nodes counts")


def test_an_unused_value_is_freed_by_its_own_node(lesson):
    graph = traced(unused)
    _, negative, sine, *_ = graph.nodes
    hint = "a value that no node takes is freed by its own node, after that node's inputs"
    equal(lesson.last_uses(graph)[sine], [negative, sine], hint=hint)
    graph = traced(lambda x, y: x)
    x, y, output = graph.nodes
    equal(lesson.last_uses(graph), {x: [], y: [y], output: [x, output]}, hint=hint)


# --- step 4: lines --------------------------------------------------------------------------------

PAIR = zoo.Pair(1, 2)  # its class is a global
CALLS = {
    name: call(getattr(operator, name), "x", "y")
    for name in ("add", "floordiv", "or_", "xor", "lshift", "eq", "ge")
}
CALLS |= {
    "reflected": call(operator.sub, 2, "x"),
    "index": call(operator.getitem, "x", (slice(None, 2), None, "y")),
    "neg": call(operator.neg, "x"),
    "invert": call(operator.invert, "x"),
    "default": call(getattr, "x", "shape", None),
    "function": call(torch.add, "x", "y", alpha=2),
    "list": call(torch.cat, ["x", "y"], dim=1),
    "builtin": call(len, "x"),
    "no input": call(torch.rand, 2, inputs=""),
    "key": call(operator.getitem, "x", "key"),
    "operand": call(operator.getitem, "x", PAIR),
    "module": call("layer", input="x", op="call_module"),
    "global": call(math.sqrt, "x"),
    "method": traced(lambda x: x.relu()),
    "method with arguments": traced(lambda x: x.sum(0, keepdim=True)),
    "method of a literal": call("join", ", ", "x", op="call_method"),
}


@pytest.mark.parametrize("graph", CALLS.values(), ids=CALLS)
def test_a_call_is_written_as_torch_writes_it(lesson, graph):
    same_statements(lesson.python_code(graph)[0], graph)


def test_modules_and_parameters_are_found_below_self(lesson):
    _, graph = nested()
    same_statements(lesson.python_code(graph)[0].replace("'torch.Tensor'", "_torch_Tensor_"), graph)


def annotated(x: torch.Tensor, *rest, input: int = 0, pair=(), last=None, **more) -> torch.Tensor:
    return x * input + rest[0]


annotated.__annotations__ = {"x": torch.Tensor, "input": int, "return": torch.Tensor}


def test_placeholders_are_parameters_with_annotations_and_defaults(lesson):
    graph = traced(annotated)
    _, _, pair, *_ = graph.nodes
    pair.args = (PAIR,)
    same_statements(lesson.python_code(graph)[0], graph)
    cause = (lambda error: error.args == ("input",), "`input` isn't in `self.globals`")
    with noting(cause=cause, on=(KeyError,)):
        equal(runnable(lesson, graph)(3, 2, PAIR, None, 5), 11)


@pytest.mark.since("2.12", "an output is written as an argument")
def test_an_output_is_written_as_an_argument(lesson):
    graph = fx.Graph()
    graph.output((graph.placeholder("x"), PAIR))
    same_statements(lesson.python_code(graph)[0], graph)


def test_a_parameter_named_like_a_global_hides_it_no_longer_than_its_line(lesson):
    graph = traced(lambda inf: inf + 1)
    inf, *_ = graph.nodes
    text = lesson.CodeWriter(graph).statement(inf)
    equal(text, 'inf_1 = inf;  inf = globals()["inf"]', hint="look in `self.globals`")


def test_the_annotation_of_a_call_is_kept(lesson):
    graph = traced(lambda x: torch.relu(x) + 1)
    _, relu, *_ = graph.nodes
    relu.type = torch.Tensor
    same_statements(lesson.python_code(graph)[0], graph)


# --- step 5: values are freed ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [lambda x, y: x - (x + y * y), lambda x, y: (x, y.sin()), unused, lambda x, input: x.sin()],
    ids=["reused", "output", "unused", "unused parameter"],
)
def test_values_are_freed_after_their_last_use(lesson, function):
    graph = traced(function)
    code = lesson.python_code(graph)[0]
    same_code(code, graph, cause=[*FREEING, ("None" not in code, "nothing is freed")])


# --- step 6: a module that runs -------------------------------------------------------------------


def test_a_module_keeps_its_graph_and_runs_its_code(lesson):
    graph = traced(lambda x: torch.sin(x))
    module = lesson.GraphModule(nn.Module(), graph)
    holds(module.graph is graph, "this very graph, so that an edit of it is seen", got=module.graph)
    own = vars(module).get("forward")
    unbound = "a function set on a module gets no `self`: Python only binds those of a class"
    is_bound = not isinstance(own, FunctionType)
    holds(is_bound, "`forward` in the class", got=own, cause=(bool, unbound))
    same_numbers(module(x := torch.rand(3)), x.sin())


def test_the_module_has_only_the_targets_of_the_graph(lesson):
    model, graph = nested()
    theirs = fx.GraphModule(model, graph)
    cause = (lambda error: error.name == "block", "the missing module `block` wasn't created")
    with noting(cause=cause, on=(AttributeError,)):
        ours = lesson.GraphModule(model, graph)
    cause = (is_value(["scale", "shift", "block.0.bias"]), "`block` was created more than once")
    equal(list(ours.state_dict()), list(theirs.state_dict()), cause=cause)
    parameters = [name for name, _ in theirs.named_parameters()]
    cause = ("scale" in dict(ours.named_buffers()), "a parameter became a buffer")
    equal([name for name, _ in ours.named_parameters()], parameters, cause=cause)
    holds(ours.scale is model.scale, "the parameter itself, not a copy")
    holds(ours.get_submodule("block.0") is model.block[0], "the module itself, not a copy")
    holds("block.constant" in dict(ours.named_buffers()), "a plain tensor becomes a buffer")


def test_the_root_may_be_a_dict_of_paths(lesson):
    linear, scale, graph = nn.Linear(2, 3), nn.Parameter(torch.rand(3)), fx.Graph()
    x = graph.call_module("block.linear", (graph.placeholder("x"),))
    graph.output(graph.call_function(torch.mul, (x, graph.get_attr("block.inner.scale"))))
    root = {"block.linear": linear, "block.inner.scale": scale}
    module = lesson.GraphModule(root, graph)
    same_numbers(module(x := torch.rand(2)), linear(x) * scale)
    holds("block.inner.scale" in dict(module.named_parameters()), "a parameter below `inner`")
    holds(graph.owning_module is module, "`graph.owning_module` is the module")


def test_a_module_that_contains_another_target_is_not_changed(lesson):
    model, graph = Nested(), fx.Graph()
    x = graph.call_module("block", (graph.placeholder("x"),))
    graph.output(graph.call_function(operator.add, (x, graph.get_attr("block.constant"))))
    module, x = lesson.GraphModule(model, graph), torch.rand(2, 4)
    same_numbers(module(x), fx.GraphModule(model, graph)(x))
    changed = "constant" in dict(model.block.named_buffers())
    equal(changed, False, cause=(bool, "the root was changed"))


def test_each_module_has_its_own_code_name_and_meta(lesson):
    Mine = type("Mine", (lesson.GraphModule,), {})
    first = Mine(nn.Module(), call(lambda x: x.sin(), "x", inputs="x"), class_name="Sine")
    first.meta["note"] = 1
    second = Mine(first, call(lambda x: x.cos(), "x", inputs="x"))  # the same text
    x = torch.rand(3)
    shared = (lambda got: got[0].equal(got[1]), "both run the same `forward`")
    same_numbers((first(x), second(x)), (x.sin(), x.cos()), cause=shared)
    holds(isinstance(first, Mine), "a subclass of the class that was called")
    equal((type(first).__name__, type(second).__name__), ("Sine", "GraphModule"))
    equal(second.meta, {}, cause=(is_value({"note": 1}), "both modules have the same dict"))


def test_an_attribute_may_be_none(lesson):
    model, graph = nn.Module(), fx.Graph()
    model.nothing = None
    graph.output((graph.placeholder("x"), graph.get_attr("nothing")))
    module = lesson.GraphModule(model, graph)
    holds(hasattr(module, "nothing"), "the module has the attribute, which is `None`")
    equal(module(2), (2, None))


OTHERS = {"tensor": torch.ones(2), "module": nn.Identity(), "number": 3}


@pytest.mark.parametrize("value", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("before", copy.deepcopy(OTHERS).values(), ids=OTHERS)
def test_an_object_at_a_path_is_replaced(lesson, before, value):
    module = nn.Module()
    lesson.install(module, "block.x", before)
    lesson.install(module, "block.x", value)
    kept = (lambda got: got is before, "the first object is still there")
    holds(module.block.x is value, "the second object", got=module.block.x, cause=kept)


def test_recompile_follows_an_edit_of_the_graph_and_returns_the_code(lesson):
    module = lesson.GraphModule(nn.Module(), traced(lambda x: torch.sin(x)))
    _, node, _ = module.graph.nodes
    node.target = torch.cos
    generated = module.recompile()
    same_numbers(module(x := torch.rand(3)), x.cos())
    holds("torch.cos" in module.code, "`code` is the new source", got=module.code)
    holds(generated is not None, "`recompile` returns the `PythonCode`", got=generated)
    spaces = (generated.src.strip() == module.code.strip(), "they differ in blank lines at an end")
    equal(generated.src, module.code, cause=spaces)
    names = [name for name in generated.globals if name in ("forward", "__builtins__")]
    equal(names, [], cause=(bool(names), "the code was executed in `globals` itself: take a copy"))
    module.graph = traced(lambda x: torch.tanh(x))  # compiles it
    cause = (lambda got: got.equal(x.cos()), "it runs the graph that it had before")
    same_numbers(module(x), x.tanh(), cause=cause)


def test_an_edit_of_a_deep_copy_leaves_the_original_as_it_was(lesson):
    module = lesson.GraphModule(nn.Module(), traced(lambda x: torch.sin(x)))
    twin = copy.deepcopy(module)
    holds(twin.graph is not module.graph, "the copy has its own graph")
    _, node, _ = twin.graph.nodes
    node.target = torch.cos
    twin.recompile()
    x = torch.rand(3)
    same_numbers(twin(x), x.cos())
    cause = (lambda got: got.equal(x.cos()), "it runs the copy's code: both have the same class")
    same_numbers(module(x), x.sin(), cause=cause)
    holds(twin.graph.owning_module is twin, "the copy's graph belongs to the copy")


def test_a_deep_copy_computes_the_same_with_its_own_state(lesson):
    Mine = type("Mine", (lesson.GraphModule,), {})
    model, graph = nested()
    module = Mine(model, graph)
    module.meta["note"] = 1
    (part, twin), x = copy.deepcopy((model.block[0], module)), torch.rand(2, 4)
    same_numbers(twin(x), module(x))
    shared = [name for name, each in twin.named_parameters() if each is module.get_parameter(name)]
    equal(shared, [], cause=(bool, "the copy has the parameters of the original"))
    equal(twin.meta, {"note": 1})
    holds(twin.meta is not module.meta, "the copy has its own `meta`")
    holds(type(twin).__bases__ == type(module).__bases__, "the bases of the original's class")
    holds(twin.get_submodule("block.0") is part, "the copy that `memo` has already")


# --- the whole: models ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", that_run(zoo.SMALL))
def test_a_model_of_the_zoo_computes_the_same_numbers(lesson, name):
    specimen = zoo.SMALL[name]()
    module = lesson.GraphModule(specimen.model, fx.Tracer().trace(specimen.model))
    same_numbers(module(*specimen.inputs, **specimen.kwargs), specimen.eager())


def test_resnet18_has_the_code_that_torch_writes_and_computes_the_same(lesson):
    specimen = zoo.resnet18()
    graph = fx.Tracer().trace(specimen.model)
    module = lesson.GraphModule(specimen.model, graph)
    same_code(module.code, graph)
    same_numbers(module(*specimen.inputs), specimen.eager())
