"""``code``: the other features of torch's graph modules, and code that is wrong only in torch."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import math
import operator
import pickle
import sys
import traceback
import typing

import pytest
import torch
from torch import fx, nn
from torch.utils._pytree import tree_leaves

from tests import zoo
from tests.models.code import (
    call,
    calling,
    lines,
    nested,
    runnable,
    same_code,
    traced,
)
from tests.suite import equal, holds, refuses, same_graph, same_numbers
from tests.suite.versions import INSTALLED


def sine(lesson, **words):
    return lesson.GraphModule({}, traced(lambda x: torch.sin(x)), **words)


def only_call(graph):
    (node,) = [each for each in graph.nodes if each.op == "call_function"]
    return node


# --- the same text --------------------------------------------------------------------------------

# Their annotations are text, or they use enums: torch's code names these differently.
OTHER_NAMES = {"AnyDefault", "AnyOutput", "KeywordOnly", "AnythingToACall", "AnythingToAMethod"}


@pytest.mark.parametrize("name", sorted(zoo.SMALL.keys() - OTHER_NAMES))
def test_the_code_of_a_model_of_the_zoo_is_torchs(lesson, name):
    model = zoo.SMALL[name]().model
    graph = fx.Tracer().trace(model)
    equal(lesson.GraphModule(model, graph).code, fx.GraphModule(model, graph).code)


def halved(x):
    return x / 2


def test_wrapped_functions_stay_wrapped_in_the_code(lesson):
    graph = traced(lambda x: x)
    (x, output) = graph.nodes
    with graph.inserting_before(output):
        for function in (halved, halved):
            x = graph.call_function(function, (x,))
            x.meta["is_wrapped"] = True
    output.args = (x,)
    again = fx.symbolic_trace(lesson.GraphModule({}, graph))
    same_graph(again.graph, graph)


PARTS = typing.Dict[str, typing.List[int]]  # noqa: UP006


@pytest.mark.parametrize("annotation", [list[int], PARTS, list[torch.Tensor] | None], ids=str)
def test_an_annotation_of_any_kind_is_kept(lesson, annotation):
    graph = fx.Graph()
    graph.output(graph.placeholder("x", annotation))
    (parameter,) = inspect.signature(lesson.GraphModule({}, graph).forward).parameters.values()
    is_kept = parameter.annotation == annotation  # torch 2.15 writes `Optional[...]`
    holds(is_kept, f"{annotation}, with its parts", got=parameter.annotation)


def test_a_graph_without_an_output_becomes_a_function(lesson):
    equal(runnable(lesson, fx.Graph())(), None)


OPERATORS = torch.ops.aten.relu.default, torch.ops.aten.relu, torch.ops.higher_order.cond


@pytest.mark.parametrize(
    "graph", [traced(lambda x: x.T.mT), *(call(each, "x", inputs="x") for each in OPERATORS)]
)
def test_attributes_and_operators_of_torch_are_written_as_paths(lesson, graph):
    same_code(lesson.python_code(graph)[0], graph)


def test_nodes_may_share_a_name_or_be_named_like_a_keyword(lesson):
    graph = traced(lambda x: torch.sin(x) + torch.cos(x))
    _, sin, cos, add, _ = graph.nodes
    cos.name, add.name = sin.name, "None"
    x = torch.rand(2)
    same_numbers(runnable(lesson, graph)(x), x.sin() + x.cos())


# --- text that Python would read differently ------------------------------------------------------


@pytest.mark.beyond("`-2 ** x` is written, which is `-(2 ** x)`")
def test_a_negative_base_keeps_its_sign(lesson):
    equal(runnable(lesson, call(operator.pow, -2, "x", inputs="x"))(2), 4)


@pytest.mark.beyond("`size += 1;  iadd = size` is written, and changes what is used later")
def test_an_in_place_operator_leaves_a_number_unchanged(lesson):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(operator.iadd, (x, 1)), x))
    equal(runnable(lesson, graph)(1), (2, 1))


@pytest.mark.parametrize("name", ["iadd", "itruediv", "ilshift"])
def test_an_in_place_operator_changes_a_tensor(lesson, name):
    graph = call(getattr(operator, name), "x", "y")
    x = torch.tensor([4, 5] if name == "ilshift" else [4.0, 5.0])
    y = torch.ones_like(x)
    expected = getattr(operator, name)(x.clone(), y)
    result = runnable(lesson, graph)(x, y)
    same_numbers(result, expected)
    holds(result is x, "the tensor itself")
    holds("operator" not in lesson.python_code(graph)[0], "it is written as an operator")


def test_an_assignment_to_an_element_is_written_as_one(lesson):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(operator.setitem, (x, 0, 7))
    graph.output(x)
    holds("x[0] = 7" in lesson.python_code(graph)[0], "an assignment")
    equal(runnable(lesson, graph)([1, 2]), [7, 2])


@pytest.mark.beyond("`self.in` is written, which isn't Python")
def test_a_module_may_be_named_like_a_keyword(lesson):
    module = lesson.GraphModule(nn.ModuleDict({"in": nn.ReLU()}), calling("in"))
    same_numbers(module(torch.tensor([-1.0, 1.0])), torch.tensor([0.0, 1.0]))


def test_an_attribute_may_have_any_name(lesson):
    module = nn.Sequential(nn.ReLU())
    equal(runnable(lesson, call(getattr, "x", "0", inputs="x"))(module), module[0])


def same(value):
    return value


RED = zoo.Colour.RED
VALUES = {
    "enum in a dict": {"a": [{"b": (RED,)}]},
    "class as a key": {int: 1},
    "key with parts": {(RED, len): 1},
    "tensor": torch.ones(2),
    "function": len,
    "module": nn.ReLU(),
}


@pytest.mark.beyond("it is written by `repr`, which isn't Python or means another value")
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_any_value_may_be_an_argument(lesson, value):
    equal(repr(runnable(lesson, call(same, value, inputs=""))()), repr(value))


@pytest.mark.beyond("it is written by `repr`, which loses signs", condition=INSTALLED < (2, 14))
@pytest.mark.parametrize("value", [complex(-0.0, 1), complex(math.inf, -math.inf)], ids=str)
def test_a_complex_number_may_be_an_argument(lesson, value):
    equal(repr(runnable(lesson, call(same, value, inputs=""))()), repr(value))


@pytest.mark.beyond("it is written by `repr`, which isn't Python")
def test_a_default_may_be_a_tensor(lesson):
    graph, scale = fx.Graph(), torch.ones(2)
    graph.output(graph.placeholder("scale", default_value=scale))
    holds(runnable(lesson, graph)() is scale, "the tensor itself")


# --- a graph's own code generator -----------------------------------------------------------------


class Listed(fx.graph.CodeGen):
    """The function takes a list. A user wrote this class for torch."""

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        first = f"def forward(self, inputs: List){maybe_return_annotation}:"
        return f"{first}\n    {', '.join(free_vars)}, = inputs"

    def generate_output(self, output_args):
        return f"return [{output_args!r}]"

    def additional_globals(self):
        return [("List", list)]


def test_a_graph_may_have_a_code_generator_written_for_torch(lesson):
    graph = traced(lambda x, y: x + y)
    graph.set_codegen(Listed())
    module = lesson.GraphModule({}, graph)
    equal(module([1, 2]), [3])
    equal(inspect.signature(module.forward).parameters["inputs"].annotation, list)


def test_the_lessons_code_generator_can_be_subclassed(lesson):
    class Doubled(lesson.CodeGen):
        def generate_output(self, output_args, **options):
            return super().generate_output((output_args, output_args), **options)

    graph = traced(lambda x: x + 1)
    graph.set_codegen(Doubled())
    equal(lesson.GraphModule({}, graph)(1), (2, 2))


def test_transformers_of_the_body_are_nested_and_removed_after_the_block(lesson):
    def adding(text):
        return lambda before: lambda body: [f"{text}\n", *(before(body) if before else body)]

    graph = traced(lambda x: x)
    graph.on_generate_code(adding("first = 1"))  # not in a block: it stays
    with graph.on_generate_code(adding("second = 2")):
        module = lesson.GraphModule({}, graph)
    equal(lines(module.code)[1:3], ["second = 2", "first = 1"])
    module.recompile()
    equal(lines(module.code)[1:], ["first = 1", "return x"])


def with_pytrees() -> tuple[nn.Module, fx.Graph, tuple]:
    """A traced model whose inputs and outputs are containers."""
    model = Containers()
    inputs = ({"a": torch.rand(2), "b": [torch.rand(2)]}, torch.rand(2))
    args = {"d": {"a": fx.PH, "b": [fx.PH]}, "y": fx.PH}
    return model, fx.Tracer().trace(model, concrete_args=args), inputs


class Containers(nn.Module):
    def forward(self, d, y):
        return {"sum": d["a"] + d["b"][0], "all": (y, [d["a"] * y])}


def test_the_module_takes_and_returns_containers(lesson):
    model, graph, inputs = with_pytrees()
    module = lesson.GraphModule(model, graph)
    same_numbers(module(*inputs), model(*inputs))
    equal(module.code, fx.GraphModule(model, graph).code)


@pytest.mark.beyond("they are taken for positional and keyword arguments")
@pytest.mark.parametrize("names", [("pair", "named"), ("args", "kwargs")], ids=str)
def test_a_tuple_and_a_dict_are_two_arguments(lesson, names):
    structures = (fx.PH, fx.PH), {"key": fx.PH}
    function = {
        "pair": lambda pair, named: pair[0] - pair[1] * named["key"],
        "args": lambda args, kwargs: args[0] - args[1] * kwargs["key"],
    }[names[0]]
    graph = fx.Tracer().trace(function, dict(zip(names, structures, strict=True)))
    equal(lesson.GraphModule({}, graph)((7, 2), {"key": 3}), 1)


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


def test_the_leaves_of_containers_may_be_annotated(lesson):
    model, graph, inputs = with_pytrees()
    leaf, other, *_ = graph.nodes
    leaf.type, other.type = torch.Tensor, int
    same_numbers(lesson.GraphModule(model, graph)(*inputs), model(*inputs))


def test_the_code_generator_flattens_and_rebuilds_containers(lesson):
    args = {"x": {"a": fx.PH}}
    graph = fx.Tracer().trace(lambda x: {"y": x["a"] * 2, "z": (x["a"],)}, args)
    info = graph._codegen.pytree_info
    equal(list(lesson.PyTreeCodeGen(info).process_inputs({"a": 1})), [1])
    equal(lesson.PyTreeCodeGen(info).process_outputs([1, 2]), {"y": 1, "z": (2,)})
    graph.set_codegen(lesson.PyTreeCodeGen(info._replace(out_spec=None)))
    equal(graph._codegen.process_outputs([1, 2]), [1, 2])
    equal(lesson.GraphModule({}, graph)({"a": 1}), [2, 1])


# --- the state ------------------------------------------------------------------------------------


@pytest.mark.beyond(
    "all buffers become persistent, and the state has keys that the root's has not",
    condition=INSTALLED < (2, 14),
)
def test_a_non_persistent_buffer_stays_non_persistent(lesson):
    model = zoo.SMALL["Buffers"]().model
    tracer = fx.Tracer()
    tracer.proxy_buffer_attributes = True
    module = lesson.GraphModule(model, tracer.trace(model))
    equal(list(module.state_dict()), list(model.state_dict()))


@pytest.mark.parametrize("kind", ["GraphModule", "LazyGraphModule"])
def test_only_a_graph_can_replace_the_graph_of_a_module(lesson, kind):
    module = getattr(lesson, kind)({}, traced(lambda x: torch.sin(x)))
    graph = module.graph
    for other in ("x", None):
        with refuses((TypeError, AssertionError)):
            module.graph = other
    holds(module.graph is graph, "the graph that it had", got=module.graph)
    same_numbers(module(x := torch.rand(2)), x.sin())


@pytest.mark.parametrize("training", [True, False])
def test_the_module_is_in_the_mode_of_its_root(lesson, training):
    model = nn.Sequential(nn.ReLU()).train(training)
    equal(lesson.GraphModule(model, traced(lambda x: -x)).training, training)


def test_graph_modules_inside_are_compiled_as_well(lesson):
    outer = lesson.GraphModule({"inner": sine(lesson)}, calling("inner"))
    only_call(outer.inner.graph).target = torch.cos
    outer.recompile()
    same_numbers(outer(x := torch.rand(2)), x.cos())


def test_a_deep_copy_of_a_subclass_is_one_whatever_its_constructor_takes(lesson):
    class Named(lesson.GraphModule):
        def __init__(self, root, graph, label):
            super().__init__(root, graph, label.title())

    module = copy.deepcopy(Named({}, traced(lambda x: x + 1), "successor"))
    equal((module(1), isinstance(module, Named)), (2, True))


# --- submodules -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["GraphModule", "LazyGraphModule"])
def test_a_child_may_have_such_a_name(lesson, kind):
    model = nn.ModuleDict({"state": nn.Linear(2, 2)})
    module = getattr(lesson, kind)(model, calling("state"))
    same_numbers(module(x := torch.rand(2)), model["state"](x))


@pytest.mark.beyond("it is installed, and then the call calls the method")
@pytest.mark.parametrize("name", ["recompile", "code", "graph", "to_folder"])
def test_a_child_whose_name_is_taken_is_refused(lesson, name):
    with refuses(AttributeError, name, "rename"):
        lesson.GraphModule({name: nn.Linear(2, 2)}, calling(name))


def test_submodules_are_added_and_deleted(lesson):
    module = lesson.GraphModule(*nested())
    equal(module.add_submodule("new.deep.relu", nn.ReLU()), True)
    equal(type(module.get_submodule("new.deep.relu")), nn.ReLU)
    below_a_parameter = module.add_submodule("scale.relu", nn.ReLU())
    equal(below_a_parameter, False, cause=(bool, "a parameter has no modules"))
    equal(module.delete_submodule("new.deep"), True)
    equal([name for name, _ in module.new.named_children()], [])
    missing = [module.delete_submodule(each) for each in ("new.deep", "scale", "no.such", "")]
    equal(missing, [False] * 4)


def test_modules_that_the_graph_does_not_name_are_deleted(lesson):
    model, graph = nested()
    output = graph.output_node()
    with graph.inserting_before(output):
        graph.call_module("inner", output.args)
    model.inner = nn.Sequential(nn.ReLU())
    module = lesson.GraphModule(model, graph)
    module.add_submodule("block.idle", nn.ReLU())
    module.add_submodule("idle.inside", nn.ReLU())
    module.delete_all_unused_submodules()
    names = sorted(name for name, _ in module.named_modules())
    equal(names, ["", "block", "block.0", "block.2", "inner", "inner.0"])


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))],
    ids=["copy", "deepcopy", "pickle"],
)
@pytest.mark.parametrize("name", ["EveryOpcode", "AnyDefault", "Constants"])
def test_a_copy_computes_the_same(lesson, duplicate, name):
    specimen = zoo.SMALL[name]()
    module = lesson.GraphModule(specimen.model, fx.Tracer().trace(specimen.model), "Model")
    twin = duplicate(module)
    same_graph(twin.graph, module.graph)
    equal((twin.code, twin.training), (module.code, module.training))
    equal(list(twin.state_dict()), list(module.state_dict()))
    same_numbers(twin(*specimen.inputs), specimen.eager())


@pytest.mark.beyond("it stores the code and traces that: names are new, and `iadd` becomes `add`")
def test_pickling_keeps_targets_names_types_and_metadata(lesson):
    node = only_call(graph := call(operator.iadd, "x", 1, inputs="x"))
    node.name, node.type, node.stack_trace = "more", torch.Tensor, "a line"
    node.meta["is_wrapped"] = True
    twin = only_call(pickle.loads(pickle.dumps(lesson.GraphModule({}, graph))).graph)
    equal((twin.target, twin.name, twin.type), (operator.iadd, "more", torch.Tensor))
    equal((twin.stack_trace, twin.meta.get("is_wrapped")), ("a line", True))


@pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec:FutureWarning")
def test_a_module_with_pytrees_is_pickled(lesson):
    model, graph, inputs = with_pytrees()
    twin = pickle.loads(pickle.dumps(lesson.GraphModule(model, graph)))
    same_numbers(twin(*inputs), model(*inputs))


# --- tracing, and lazy modules --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["EveryOpcode", "ReturnsStructure"])
def test_a_trace_of_the_module_is_its_graph(lesson, name):
    model = zoo.SMALL[name]().model
    graph = fx.Tracer().trace(model)
    same_graph(fx.Tracer().trace(lesson.GraphModule(model, graph)), graph)


def test_a_lazy_module_generates_code_when_it_runs_or_its_code_is_read(lesson):
    module = lesson.LazyGraphModule({}, traced(lambda x: torch.sin(x)))
    holds("torch.sin" in module.code, "the code", got=module.code)
    only_call(module.graph).target = torch.cos
    module.recompile()
    same_numbers(module(x := torch.rand(2)), x.cos())


@pytest.mark.unasked
def test_a_lazy_module_can_be_traced(lesson):
    module = lesson.LazyGraphModule({}, traced(lambda x, y=2: torch.sin(x) * y))
    same_graph(fx.Tracer().trace(module), module.graph)


# --- errors and printing --------------------------------------------------------------------------


def reshaped(x):
    return torch.sin(x).reshape(7)


@pytest.mark.beyond("the traceback is thrown away")
def test_a_traceback_shows_the_generated_line(lesson):
    module = lesson.GraphModule({}, traced(reshaped))
    with pytest.raises(RuntimeError) as caught:
        module(torch.rand(3))
    shown = "".join(traceback.format_exception(caught.value))
    holds("reshape = sin.reshape(7)" in shown, "the line of the code that failed", got=shown)


def test_an_error_says_which_line_of_the_code_failed(lesson, capsys):
    def said_by(module):
        with pytest.raises(RuntimeError) as caught:
            module(torch.rand(3))
        return "\n".join(getattr(caught.value, "__notes__", [])) + capsys.readouterr().err

    module = lesson.GraphModule({}, traced(reshaped))
    number = next(n for n, line in enumerate(module.code.splitlines(), 1) if "reshape" in line)
    said = said_by(module)
    is_shown = f"line {number} of" in said and "reshape = " in said
    holds(is_shown, "number and text of the line", got=said)
    said = said_by(lesson.GraphModule({"linear": nn.Linear(2, 2)}, calling("linear")))
    holds("line" not in said.split("Traceback")[0], "nothing of an error inside a module", got=said)


def test_the_source_of_forward_is_found(lesson):
    module = lesson.GraphModule({}, traced(reshaped))
    equal(lines(inspect.getsource(type(module).forward)), lines(module.code))


def test_print_readable_shows_the_code_in_its_class_and_in_those_inside(lesson, capsys):
    module = lesson.GraphModule({"inner": sine(lesson)}, calling("inner"), class_name="Outer")
    holds(module.code in str(module), "`print` shows the code", got=str(module))
    text = module.print_readable()
    equal(capsys.readouterr().out.strip(), text.strip())
    head = "class Outer(torch.nn.Module):\n    def forward(self, x)"
    holds(text.startswith(head), "a class", got=text)
    holds("    class inner(torch.nn.Module):" in text, "the class of the inner one", got=text)
    module.print_readable(print_output=False, colored=False, fast_sympy_print=True)
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


@pytest.mark.unasked
def test_a_root_without_targets_is_refused(lesson):
    with refuses((RuntimeError, TypeError)):
        lesson.GraphModule(3, call(torch.sin, "x", inputs="x"))


# --- names and places -----------------------------------------------------------------------------


HIDDEN = {
    "inf": math.inf,
    "torch": torch.int8,
    "device": torch.device("cpu"),
    "slice": slice(1, None),
    "range": range(2),
    "len": len,
}


@pytest.mark.beyond("the parameter hides what the text of the literal means")
@pytest.mark.parametrize("name", HIDDEN)
def test_a_parameter_may_have_a_name_that_is_in_the_text_of_a_literal(lesson, name):
    graph = fx.Graph()
    x = graph.placeholder(name)
    graph.output((graph.call_function(same, (HIDDEN[name],)), x))
    equal(runnable(lesson, graph)(x := object()), (HIDDEN[name], x))


@pytest.mark.beyond("the parameter hides what the text of the literal means")
def test_a_container_may_have_a_name_that_is_in_the_text_of_a_literal(lesson):
    graph = fx.Tracer().trace(lambda inf: same([inf[0], math.inf]), {"inf": [fx.PH]})
    equal(lesson.GraphModule({}, graph)([1]), [1, math.inf])


def test_the_file_of_the_code_is_the_one_that_the_graph_names(lesson):
    graph = traced(lambda x: torch.sin(x))
    graph._co_fields = {"co_filename": "model.py", "co_firstlineno": 7, "co_name": "forward"}
    module = lesson.GraphModule({}, graph)
    file = type(module).forward.__code__.co_filename
    holds(file.endswith(" from model.py:7 in forward"), "the file of the graph", got=file)


@pytest.mark.parametrize("operator", [torch.ops.aten.sigmoid, torch.ops.aten.sigmoid.default])
def test_a_module_with_an_operator_of_aten_is_pickled(lesson, operator):
    module = lesson.GraphModule({}, call(operator, "x", inputs="x"))
    equal(only_call(pickle.loads(pickle.dumps(module)).graph).target, operator)


# --- folders --------------------------------------------------------------------------------------


def imported_from(folder, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        monkeypatch.delitem(sys.modules, name)  # another implementation's
    monkeypatch.syspath_prepend(folder.parent)
    return importlib.import_module(folder.name)


@pytest.mark.unasked
@pytest.mark.filterwarnings("ignore:Was not able to save")
def test_a_module_in_a_folder_can_be_imported_as_a_class(lesson, tmp_path, monkeypatch):
    case = zoo.SMALL["SharedModules"]()
    module = lesson.GraphModule(case.model, fx.Tracer().trace(case.model))
    module.to_folder(tmp_path / "folder_of_a_module", "Stored")
    stored = imported_from(tmp_path / "folder_of_a_module", monkeypatch).Stored().eval()
    same_numbers(tree_leaves(stored(*case.inputs)), tree_leaves(module.eval()(*case.inputs)))
    same_numbers(stored.state_dict(), module.state_dict())


@pytest.mark.unasked
@pytest.mark.beyond("functions of other modules are missing, and the folder is found by its path")
def test_a_folder_is_complete_and_can_be_moved(lesson, tmp_path, monkeypatch):
    lesson.GraphModule({}, call(math.gcd, "x", 12, inputs="x")).to_folder(tmp_path / "before")
    stored = imported_from((tmp_path / "before").rename(tmp_path / "after"), monkeypatch)
    equal(stored.FxModule()(8), 4)
