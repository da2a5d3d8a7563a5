"""``create_args_for_root``: your mixin, plugged in front of torch's own ``Tracer``."""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.fx import PH, Graph, GraphModule, Node, Proxy
from torch.fx._symbolic_trace import PHWithMeta
from torch.fx.proxy import TraceError

from tests import zoo
from tests.suite import (
    barred,
    equal,
    growth,
    holds,
    noting,
    own,
    refuses,
    same_graph,
    same_numbers,
    warns_of,
)


def plugged(lesson) -> torch.fx.Tracer:
    return type(
        "Plugged", (own(lesson.Placeholders, "create_args_for_root"), torch.fx.Tracer), {}
    )()


def arguments_for(lesson, function: Callable, root: nn.Module | None = None, **options):
    """What ``create_args_for_root`` returns, and the tracer whose graph holds the placeholders."""
    tracer = plugged(lesson)
    tracer.root, tracer.graph, tracer.tensor_attrs = root or nn.Module(), Graph(), {}
    callable_, args = tracer.create_args_for_root(function, root is not None, **options)
    return callable_, args, tracer


def placeholders(graph: Graph) -> list[tuple]:
    return [(node.target, node.args, node.type) for node in graph.nodes if node.op == "placeholder"]


def signature_of(lesson, function: Callable) -> list[tuple]:
    return placeholders(arguments_for(lesson, function)[2].graph)


def graph_module(lesson, root: nn.Module | Callable, **options) -> GraphModule:
    tracer = plugged(lesson)
    graph = tracer.trace(root, **options)
    return GraphModule(tracer.root, graph)


def called(function: Callable, *args: object) -> object:
    """What a call gives, or the error it ends in: a comparison tells the cause of that too."""
    try:
        return function(*args)
    except (TypeError, NameError) as error:
        return error


def same_trace(lesson, build: Callable, cause: str = "", hint: str = "", **options) -> None:
    """Fail unless the trace with the lesson's mixin is torch's, generated code included."""
    actual = plugged(lesson).trace(build(), **options)
    expected = torch.fx.Tracer().trace(build(), **options)
    same_graph(actual, expected, cause=cause, hint=hint)
    equal(code(actual), code(expected), cause=cause or CODE, hint=hint or CODE_HINT)


CODE = "the graph's code generator doesn't flatten and rebuild the inputs as torch's does"
CODE_HINT = "compare `graph.python_code('self').src` with torch's"


def code(graph: Graph) -> str:
    return graph.python_code("self").src


# --- one placeholder a parameter ----------------------------------------------------------------


def test_each_parameter_becomes_a_placeholder_in_order(lesson):
    def function(first, second, third):
        local = first
        return local

    found = signature_of(lesson, function)
    untyped = any(annotation is inspect.Parameter.empty for *_, annotation in found)
    equal(
        found,
        [("first", (), None), ("second", (), None), ("third", (), None)],
        cause=UNTYPED if untyped else LISTED,
        hint="one `self.create_proxy('placeholder', name, …)` for each, as in the signature",
    )


LISTED = "a parameter was left out, or a local variable (`co_varnames`) taken for one"
UNTYPED = "no annotation is None, not `Parameter.empty`, as the type of a node"


def test_the_arguments_are_the_proxies(lesson):
    _, args, tracer = arguments_for(lesson, lambda x, y: None)
    holds(
        [type(argument) for argument in args] == [Proxy, Proxy]
        and [argument.node for argument in args] == list(tracer.graph.nodes),
        "a list with the proxy of each placeholder",
        got=args,
        cause="nodes or names were returned, or the proxies are in another order",
        hint="the function is called with these: `create_proxy` returns what you need",
    )


def test_the_root_takes_the_place_of_self(lesson):
    model = zoo.SMALL["KeywordArguments"]().model
    _, args, tracer = arguments_for(lesson, type(model).forward, model)
    holds(
        args[0] is model,
        "the root itself as the first argument",
        got=args[0],
        cause="`self` became a placeholder, or was left out",
        hint="`forward` is a plain function here: its first argument is `self.root`",
    )
    equal([target for target, *_ in placeholders(tracer.graph)], ["x", "y"], cause=SELF)


SELF = "`self` became a placeholder"


def test_self_is_known_by_its_place(lesson):
    class Model(nn.Module):
        def forward(this, x):
            return x

    graphs = [
        arguments_for(lesson, Model.forward, Model())[2].graph,
        arguments_for(lesson, lambda self, x: x)[2].graph,
    ]
    equal(
        [[target for target, *_ in placeholders(graph)] for graph in graphs],
        [["x"], ["self", "x"]],
        cause="the parameter called `self` was left out; it is the first of a module's `forward`",
        hint="`is_module` says whether the first parameter is the root, whatever its name",
    )


def test_the_placeholders_are_your_own(lesson):
    with barred(torch.fx.Tracer, "create_args_for_root"):
        found = signature_of(lesson, lambda x, *, y=1: x)
    equal(found, [("x", (), None), ("y", (1,), None)], cause=LISTED)


def test_a_placeholder_is_made_by_the_most_derived_method(lesson):
    class Counting(own(lesson.Placeholders, "create_args_for_root"), torch.fx.Tracer):
        def create_node(self, kind, target, *rest, **options) -> Node:
            made.append((kind, target))
            return super().create_node(kind, target, *rest, **options)

    made: list[tuple[str, str]] = []
    Counting().trace(lambda x, *rest: x)
    equal(
        made[:2],
        [("placeholder", "x"), ("placeholder", "*rest")],
        cause="placeholders were made by the graph, behind the tracer's back",
        hint="`self.create_proxy('placeholder', …)`, so that subclasses have their say",
    )


def test_a_function_without_parameters_has_no_placeholders(lesson):
    function, args, tracer = arguments_for(lesson, lambda: 1)
    equal([function(*args), len(tracer.graph.nodes)], [1, 0], cause="a placeholder too many")


def test_a_default_is_kept(lesson):
    def function(x, zero=0, none=None, *, flag=False, pair=(1, 2)):
        return x

    equal(
        [default for _, default, _ in signature_of(lesson, function)],
        [(), (0,), (None,), (False,), ((1, 2),)],
        cause="a default that is None or false was taken for no default (`if default:`), or went "
        "to another parameter (`__defaults__` belong to the last positional ones alone)",
        hint="`inspect.signature` pairs them; compare with `inspect.Parameter.empty` by identity",
    )


def test_a_default_is_used_when_the_graph_is_called(lesson):
    def function(x, scale=3.0):
        return x * scale

    same_numbers(
        graph_module(lesson, function)(torch.ones(2)),
        torch.full((2,), 3.0),
        cause="the default is not in the placeholder's args",
        hint="`self.create_proxy('placeholder', name, (default,), {})`",
    )


def test_an_annotation_becomes_the_type_of_the_node(lesson):
    def function(x, y, *, z):
        return x

    function.__annotations__ = {"x": torch.Tensor, "z": int, "return": torch.Tensor}
    equal(
        [annotation for *_, annotation in signature_of(lesson, function)],
        [torch.Tensor, None, int],
        cause="the annotation wasn't handed to `create_proxy`, or not for every parameter",
        hint="`type_expr=` takes it; no annotation is None, not `Parameter.empty`",
    )


def test_an_annotation_of_variadic_parameters_is_left_out(lesson):
    def function(x, *rest, **options):
        return x

    function.__annotations__ = {"rest": int, "options": float}
    equal(
        [annotation for *_, annotation in signature_of(lesson, function)],
        [None, None, None],
        cause="`*rest: int` says that each element is an int; the one placeholder is none",
        hint="what has a star is given no type",
    )


def test_the_annotation_of_the_result_reaches_the_output(lesson):
    def function(x):
        return x

    function.__annotations__ = {"return": torch.Tensor}
    same_trace(
        lesson,
        lambda: function,
        cause="what was returned is a copy, or a wrapper, without the annotations",
        hint="return the function itself where each parameter can be passed by position",
    )


def test_keyword_only_parameters_are_placeholders_too(lesson):
    def function(x, *, y, scale=2.0):
        return x * y * scale

    equal(
        [target for target, *_ in signature_of(lesson, function)],
        ["x", "y", "scale"],
        cause="only the positional parameters were listed (`co_argcount` leaves the others out)",
        hint="keyword-only parameters come after the positional ones",
    )


def test_keyword_only_parameters_are_passed_by_position(lesson):
    function, _, _ = arguments_for(lesson, lambda x, *, y, scale=2.0: [x, y, scale])
    equal(
        called(function, 1, 2, 3),
        [1, 2, 3],
        cause="the function that you return still insists on keywords",
        hint="the returned function takes every argument by position",
    )


def test_positional_only_parameters_are_placeholders(lesson):
    def function(x, y=1, /, z=2):
        return x

    equal(
        [(target, default) for target, default, _ in signature_of(lesson, function)],
        [("x", ()), ("y", (1,)), ("z", (2,))],
        cause="parameters before `/` were passed over",
        hint="`inspect.signature` and `co_argcount` both know them",
    )


def test_variadic_parameters_are_one_placeholder_each(lesson):
    def function(x, *rest, flag=True, **options):
        return x

    equal(
        [target for target, *_ in signature_of(lesson, function)],
        ["x", "flag", "*rest", "**options"],
        cause="`*args` or `**kwargs` were left out, lost their stars, or stand elsewhere",
        hint="named parameters first, then `*args`, then `**kwargs`; the stars are in the target",
    )


STARRED = {
    "args": lambda x, *rest: [x, rest],
    "kwargs": lambda x, **options: [x, options],
    "both": lambda *rest, **options: [rest, options],
    "args after /": lambda x, /, *rest: [x, rest],
    "keyword-only and kwargs": lambda *, y=1, **options: [y, options],
    "args and keyword-only": lambda *rest, y: [rest, y],
}


@pytest.mark.parametrize("kind", STARRED)
def test_inside_the_function_variadic_parameters_are_proxies(lesson, kind):
    with noting(cause=(is_too_small, FLAG), hint=FLAG_HINT, on=(ValueError,)):
        callable_, args, _ = arguments_for(lesson, STARRED[kind])
    equal(
        [type(value) for value in callable_(*args)],
        [Proxy, Proxy],
        cause="the function still packs its arguments into a tuple and a dict",
        hint=FLAG_HINT,
    )


def is_too_small(error: ValueError) -> bool:
    return "co_varnames is too small" in str(error)


FLAG = "a flag that is left asks for one more variable than the parameters that are counted"
FLAG_HINT = "give the function new code whose flags lack CO_VARARGS and CO_VARKEYWORDS"


def test_a_variadic_trace_computes_the_same(lesson):
    specimen = zoo.SMALL["Variadic"]()
    same_numbers(
        graph_module(lesson, specimen.model)(*specimen.inputs, extra=1),
        specimen.model(*specimen.inputs, extra=1),
        cause="the variadic arguments reach the function in another shape",
        hint="print the generated code: `print(graph_module.code)`",
    )


def test_the_function_that_was_given_stays_as_it_is(lesson):
    def function(*rest):
        return len(rest)

    arguments_for(lesson, function)
    equal(
        called(function, 1, 2, 3),
        3,
        cause="the code of the caller's own function was changed",
        hint="make a new function from the changed code; leave the given one alone",
    )


A_GLOBAL_OF_THIS_FILE = 1


def test_a_variadic_function_keeps_its_closure_and_globals(lesson):
    factor = 3

    def function(*rest):
        return torch.Size(rest).numel() * factor * A_GLOBAL_OF_THIS_FILE

    function_of_one_tuple, _, _ = arguments_for(lesson, function)
    equal(
        called(function_of_one_tuple, (2,)),
        6,
        cause="the new function lost its closure, globals or defaults",
        hint="`types.FunctionType` takes all of them",
    )


def test_a_variadic_function_keeps_its_local_variables(lesson):
    function, _, _ = arguments_for(lesson, lambda x, *rest: sorted(locals()))
    equal(
        called(function, 1, (2,)),
        ["rest", "x"],
        cause="the new code has lost its other flags: those of a function with local variables",
        hint="take out two flags and keep the others: `co_flags & ~…`",
    )


def test_forward_without_self_is_refused(lesson):
    class Careless(nn.Module):
        def forward(*args):
            return args[1]

    model = Careless()
    with refuses(
        RuntimeError,
        "self",
        cause="`self` would be swallowed by `*args`: the root has no place of its own",
        hint="a module's forward needs at least one named parameter",
    ):
        arguments_for(lesson, Careless.forward, model)


def logged(function: Callable) -> Callable:
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def test_a_decorated_function_is_seen_through(lesson):
    @logged
    @logged
    def function(x, y: int = 1):
        return x + y

    equal(
        signature_of(lesson, function),
        [("x", (), None), ("y", (1,), "int")],
        cause="the wrapper's own `*args, **kwargs` were taken for the signature",
        hint="`inspect.unwrap` leads to the innermost function",
    )


def test_the_annotations_are_those_of_the_function_inside(lesson):
    def function(x, y):
        return x + y

    @functools.wraps(function, assigned=())
    def wrapper(x, y):
        return function(x, y)

    function.__annotations__, wrapper.__annotations__ = {"y": int}, {"x": float}
    equal(
        [annotation for *_, annotation in signature_of(lesson, wrapper)],
        [None, int],
        cause="the names came from the function inside, and the annotations from the wrapper",
        hint="read all of the signature from the innermost function",
    )


def test_a_decorated_function_still_runs_its_decorator(lesson):
    def doubled(function: Callable) -> Callable:
        return functools.wraps(function)(lambda *args: function(*args) * 2)

    same_numbers(
        graph_module(lesson, doubled(lambda x: x + 1))(torch.ones(2)),
        torch.full((2,), 4.0),
        cause="the inner function is called instead of the decorated one",
        hint="the innermost function tells the names; the outer one is called",
    )


def twice(function: Callable) -> Callable:
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@pytest.mark.beyond("torch gives the wrapper new code with the counts of the function inside")
def test_a_decorator_survives_keyword_only_parameters(lesson):
    @twice
    def function(x, *, by=1):
        return x + by

    with noting(cause=REBUILT, hint=REBUILT_HINT):
        traced = graph_module(lesson, function)
    same_numbers(
        traced(torch.ones(2), 3),
        torch.full((2,), 8.0),
        cause="what you return was made from the innermost function: the decorator is lost",
        hint=REBUILT_HINT,
    )


REBUILT = "the wrapper was given all by position, or new code with the counts of another function"
REBUILT_HINT = "leave the wrapper as it is, and pass it keyword-only parameters by their names"


@pytest.mark.beyond("torch gives the wrapper new code, which crashes Python or not", run=False)
@pytest.mark.parametrize(
    "function", [lambda *terms: terms[0], lambda x, **options: x], ids=["args", "kwargs"]
)
def test_a_decorated_variadic_function_is_refused(lesson, function):
    cause = "a proxy can't be unpacked on its way through the wrapper, and this wasn't said"
    hint = "raise RuntimeError that names a decorated function with `*args` or `**kwargs`"
    with noting(cause=cause, hint=hint), refuses(RuntimeError, "lambda", cause=LOST, hint=hint):
        graph_module(lesson, twice(function))


LOST = "the innermost function was traced, and what the decorator does is lost without a word"


@pytest.mark.parametrize(
    "name", ["KeywordOnly", "PositionalOnly", "Variadic", "NoInput", "Operators"]
)
def test_a_trace_with_it_is_the_trace_of_torch(lesson, name):
    same_trace(lesson, lambda: zoo.SMALL[name]().model)


def random_root(seed: int) -> Callable | nn.Module:
    """A function, or a module, with a random signature; it gives back what it gets."""
    chance = random.Random(seed)
    names = list("abcdefg"[: chance.randint(0, 7)])
    first_default = chance.randint(0, 7)
    parameters = [
        name
        + chance.choice(["", ": int", ": float"])
        + (f" = {chance.choice(DEFAULTS)}" if number >= first_default else "")
        for number, name in enumerate(names)
    ]
    keyword_only = chance.randint(0, len(names))
    star = chance.choice(["*rest", "*" if keyword_only < len(names) else "*rest"])
    parameters.insert(keyword_only, star)
    parameters.insert(chance.randint(0, keyword_only), "/")
    is_module = chance.random() < 0.5 or parameters[0] == "/"
    signature = ", ".join(["self"] * is_module + parameters + chance.choice([[], ["**options"]]))
    results = "".join(f"{name}, " for name in names)
    source = f"def forward({signature}): return ({results})"
    namespace: dict = {}
    exec(compile(source, "<random>", "exec", dont_inherit=True), namespace)
    return type("Random", (nn.Module,), namespace)() if is_module else namespace["forward"]


DEFAULTS = ["None", "0", "False", "'text'", "(1, 2.5)", "()", "-1.5"]


@pytest.mark.parametrize("seed", range(20))
def test_a_random_signature_is_traced_as_by_torch(lesson, seed):
    same_trace(lesson, lambda: random_root(seed))


# --- concrete arguments -------------------------------------------------------------------------


def branching(x, flag, scale=2):
    return x * scale if flag else x - scale


@pytest.mark.stretch
@pytest.mark.parametrize(
    "concrete",
    [{"flag": True}, {"flag": False, "scale": 3}, {"scale": 2.5, "flag": True}],
    ids=repr,
)
def test_a_concrete_argument_decides_the_branch(lesson, concrete):
    with noting(cause=UNUSED, hint=UNUSED_HINT, on=(TraceError,)):
        same_trace(
            lesson,
            lambda: branching,
            cause="the concrete value didn't reach the function, or no check of it was recorded",
            hint="the placeholder stays; an assertion compares it with the value",
            concrete_args=concrete,
        )


UNUSED = "`concrete_args` wasn't used for this parameter: the function got a proxy"
UNUSED_HINT = "the placeholder stays in the graph; the function gets the value itself"


@pytest.mark.stretch
@pytest.mark.filterwarnings("ignore:Was not able to add assertion")
def test_a_wrong_value_for_a_concrete_argument_is_noticed(lesson):
    traced = graph_module(lesson, branching, concrete_args={"flag": True})
    with refuses(
        AssertionError,
        "flag",
        "True",
        cause="the graph forgets for which value it was traced",
        hint="record `torch._assert(placeholder == value, message)`",
    ):
        traced(torch.ones(1), False, 2)


@pytest.mark.stretch
def test_a_concrete_none_is_checked(lesson):
    def function(x, mask=None):
        return x if mask is None else x * mask

    same_trace(
        lesson,
        lambda: function,
        cause="None needs a check of its own kind: `proxy == None` is no assertion",
        hint="torch records a call of its `_assert_is_none`",
        concrete_args={"mask": None},
    )


@pytest.mark.stretch
def test_a_value_that_cannot_be_checked_is_warned_of(lesson):
    with warns_of("flag", cause="a value of which nothing is recorded passed in silence"):
        graph_module(lesson, branching, concrete_args={"flag": torch.tensor(data=True)})


@pytest.mark.stretch
def test_concrete_arguments_are_your_own(lesson):
    with barred(torch.fx.Tracer, "create_args_for_root"):
        graph = plugged(lesson).trace(branching, {"flag": True})
    equal(
        [target for target, *_ in placeholders(graph)],
        ["x", "flag_1", "scale"],
        cause=UNUSED,
        hint=UNUSED_HINT,
    )


@pytest.mark.stretch
def test_concrete_arguments_are_those_of_one_trace(lesson):
    tracer = plugged(lesson)
    tracer.trace(branching, {"flag": True})
    graphs = [each.trace(lambda x, flag: x + flag) for each in (tracer, plugged(lesson))]
    equal(
        [[target for target, *_ in placeholders(graph)] for graph in graphs],
        [["x", "flag"], ["x", "flag"]],
        cause="concrete arguments were kept, and used for the next function too",
        hint="hand them on as an argument; keep nothing of them on `self` or the class",
    )


@pytest.mark.stretch
def test_a_concrete_argument_has_no_annotation(lesson):
    def function(x, flag):
        return x["a"] if flag else x["b"]

    function.__annotations__ = {"x": dict, "flag": bool}
    same_trace(
        lesson,
        lambda: function,
        cause="each leaf was given the type of the whole",
        hint="a placeholder of a concrete argument has no type",
        concrete_args={"x": {"a": PH, "b": PH}, "flag": True},
    )


class Branching(nn.Module):
    def forward(self, x, flag, scale=2):
        return branching(x, flag, scale)


@pytest.mark.stretch
@pytest.mark.parametrize("build", [lambda: branching, Branching], ids=["function", "module"])
def test_concrete_arguments_may_be_a_tuple(lesson, build):
    same_trace(
        lesson,
        build,
        cause="a tuple stands for the parameters in order",
        hint="pair it with the names and go on as with a dict",
        concrete_args=(PH, True, 3),
    )


@pytest.mark.stretch
def test_a_tuple_of_another_length_is_refused(lesson):
    with refuses(
        RuntimeError,
        "3",
        "2",
        cause="names and values were paired by `zip`, which stops at the shorter",
        hint="compare the lengths, and name both",
    ):
        graph_module(lesson, branching, concrete_args=(PH, True))


class AllVariadic(nn.Module):
    def forward(self, *args, **kwargs):
        return args[0] + args[1]


@pytest.mark.stretch
def test_a_tuple_for_a_variadic_function_names_the_inputs(lesson):
    same_trace(
        lesson,
        AllVariadic,
        cause="with nothing but `*args`, a tuple gives one placeholder a value",
        hint="they are called input_0, input_1, …, and the function is called as it is",
        concrete_args=(PH, PH),
    )


@pytest.mark.stretch
@pytest.mark.parametrize(
    ("function", "concrete"),
    [(lambda x: x + 1, (PH,)), (lambda x, y, *rest: x + y, (PH, PH))],
    ids=["one name", "two names and args"],
)
def test_a_tuple_is_paired_with_the_names_there_are(lesson, function, concrete):
    same_trace(
        lesson,
        lambda: function,
        cause="inputs are numbered where the function says nothing of them but `*args`, not here",
        hint="they are called by their names: x_1, y_1, …",
        concrete_args=concrete,
    )


def nested(x):
    return x["left"] + x["both"][0] * x["both"][1]


@pytest.mark.stretch
def test_a_nested_input_is_flattened_into_placeholders(lesson):
    same_trace(
        lesson,
        lambda: nested,
        cause="the structure became one placeholder",
        hint="one placeholder a leaf, `x_1`, `x_2`, …; the code generator flattens the input",
        concrete_args={"x": {"left": PH, "both": (PH, PH)}},
    )


STRUCTURES = {
    "list of one": [PH],
    "dict of one": {"only": PH},
    "empty list": [],
    "nothing in nothing": ((), {}),
    "named tuple": zoo.Pair(PH, (PH,)),
    "a value and an input": [2, PH, None],
}


@pytest.mark.stretch
@pytest.mark.parametrize("kind", STRUCTURES)
def test_the_function_gets_the_structure_that_was_given(lesson, kind):
    def function(x, y):
        return [x, type(x) is type(STRUCTURES[kind]), y]

    same_trace(
        lesson,
        lambda: function,
        cause="a container was lost on the way: of one element, or of none",
        hint="put the leaves together with the structure that `tree_flatten` gave you",
        concrete_args={"x": STRUCTURES[kind]},
    )


@pytest.mark.stretch
def test_a_graph_with_a_nested_input_is_called_with_the_structure(lesson):
    traced = graph_module(lesson, nested, concrete_args={"x": {"left": PH, "both": (PH, PH)}})
    value = {"left": torch.ones(2), "both": (torch.full((2,), 2.0), torch.full((2,), 3.0))}
    same_numbers(
        traced(value),
        nested(value),
        cause="the leaves reach the placeholders in another order",
        hint="`torch.utils._pytree` fixes the order of the leaves",
    )


@pytest.mark.stretch
def test_the_structure_of_the_output_is_rebuilt(lesson):
    def function(x):
        return {"sum": x[0] + x[1], "all": [x[0], (x[1],)]}

    traced = graph_module(lesson, function, concrete_args={"x": [PH, PH]})
    value = [torch.ones(2), torch.zeros(2)]
    same_numbers(
        traced(value),
        function(value),
        cause="the output was flattened and never put together again",
        hint="remember the output's structure in the code generator's `pytree_info`",
    )


@pytest.mark.stretch
def test_a_placeholder_with_attributes_hands_them_to_the_node(lesson):
    marked = PHWithMeta(ph_key="images")
    marked.example_shape = (1, 3)
    graph = plugged(lesson).trace(nested, {"x": {"left": marked, "both": (PH, PH)}})
    node = next(iter(graph.nodes))
    equal(
        [getattr(node, "ph_key", None), getattr(node, "example_shape", None)],
        ["images", (1, 3)],
        cause=WRITTEN,
        hint=WRITTEN_HINT,
    )


WRITTEN = "what the user wrote on the PH object got lost"
WRITTEN_HINT = "copy its own public attributes to the node"


@pytest.mark.stretch
def test_a_numbered_placeholder_hands_its_attributes_to_the_node(lesson):
    graph = plugged(lesson).trace(AllVariadic(), (PHWithMeta(ph_key="images"), PH))
    keys = [getattr(node, "ph_key", None) for node in graph.find_nodes(op="placeholder")]
    equal(keys, ["images", None], cause=WRITTEN, hint=WRITTEN_HINT)


@pytest.mark.stretch
def test_a_placeholder_leaves_what_is_the_nodes_own(lesson):
    marked = PHWithMeta(ph_key="images")
    marked.name, marked.op, marked.scale = "renamed", "output", len
    setattr(marked, "__hidden__", 1)
    node = next(iter(plugged(lesson).trace(lambda x: x, {"x": marked}).nodes))
    equal(
        [node.name, node.op, hasattr(node, "scale"), hasattr(node, "__hidden__")],
        ["x_1", "placeholder", False, False],
        cause="all attributes were copied: the node's own, methods, and what Python keeps there",
        hint="copy what the node doesn't have, is no method, and doesn't begin with `__`",
    )


@pytest.mark.stretch
def test_a_nested_input_of_a_module_keeps_self(lesson):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x, y):
            return self.linear(x[0] + x[1]) + y

    same_trace(
        lesson,
        Model,
        cause="the root counts as an input to flatten, or the names are off by one",
        hint="the root is an argument like the others and has no leaves to flatten",
        concrete_args={"x": [PH, PH]},
    )


def with_parameters(size: int) -> Callable:
    namespace: dict = {}
    exec(f"def function({', '.join(f'a{n}' for n in range(size))}): return a0", namespace)
    return namespace["function"]


@pytest.mark.stretch
def test_the_work_is_linear_in_the_parameters(lesson):
    factor = growth(lambda size: lambda: signature_of(lesson, with_parameters(size)), 100)
    holds(
        factor < 2.5,
        "twice the steps for twice the parameters",
        got=f"{factor:.1f} times the steps",
        cause="every parameter goes through the whole signature",
        hint="read the signature once",
    )
