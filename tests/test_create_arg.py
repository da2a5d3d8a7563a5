"""``create_arg``: your mixin as the first base of torch's ``Tracer``, and of a ``TracerBase``."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.fx import Node
from torch.fx.proxy import TracerBase

from tests import zoo
from tests.models.create_arg import (
    Model,
    Named,
    Unknown,
    is_constant,
    is_refused,
    kept_on_the_root,
    made_by_it,
    plugged,
    proxy,
    standing,
    target_of,
    tracer_at,
)
from tests.suite import barred, equal, holds, is_value, own, refuses, same_graph


@pytest.fixture(params=[torch.fx.Tracer, TracerBase], ids=["on_tracer", "on_tracer_base"])
def tracer(request, lesson):
    """A tracer with the lesson's method in front, a root and an empty graph."""
    return tracer_at(lesson, Model(), request.param)


# --- step 1: values that need no model ------------------------------------------------------------


def test_a_proxy_becomes_its_node(tracer):
    x = proxy(tracer)
    got = tracer.create_arg(x)
    holds(
        got is x.node,
        "the proxy's own node",
        got=got,
        cause=(got is x, "the proxy itself went into the graph"),
        hint="a graph refers to nodes: `proxy.node`",
    )


PLAIN = [
    *(None, ..., 1, True, 2.5, 1j, "text", torch.float32, torch.device("cpu"), torch.strided),
    *(torch.preserve_format, torch.ops.aten.relu.default, zoo.Colour.RED),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_a_plain_value_stays_itself(tracer, value):
    got = tracer.create_arg(value)
    holds(
        got is value,
        f"{value!r} itself",
        got=got,
        cause=(isinstance(got, Node), "a value that a graph can hold was turned into a node"),
        hint="pass values that are neither tensors nor modules to `super().create_arg(a)`",
    )


CONTAINERS = {
    "tuple": lambda x: (x, (1, x)),
    "list": lambda x: [x, [1, x]],
    "dict": lambda x: {"a": x, "b": {"c": [(x, slice(None, x))]}},
    "slice": lambda x: slice(x, None, 2),
    "range": lambda x: range(1, 10, 2),
    "size": lambda x: torch.Size([2, 3]),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_container_keeps_its_shape_with_nodes_for_proxies(tracer, kind):
    x = proxy(tracer)
    given = CONTAINERS[kind](x)
    equal(
        repr(tracer.create_arg(given)),  # a proxy that is left cannot be compared
        repr(CONTAINERS[kind](x.node)),
        cause=[
            (lambda got: "Proxy(" in got, "a proxy is left inside: look at the inner containers"),
            (is_value("(2, 3)"), "a subclass of tuple became a plain tuple"),
        ],
        hint="make a new container of the same class, with `self.create_arg` on every element",
    )
    rewritten = (True, "the caller's own container was rewritten in place")
    equal(repr(given), repr(CONTAINERS[kind](x)), cause=rewritten, hint="make a new container")


def test_what_generated_code_cannot_print_is_refused(tracer):
    went_in = "a value that generated code cannot print went into the graph"
    hint = "hand what you don't know to `super().create_arg(a)`, which refuses it"
    with refuses(NotImplementedError, "Unknown", cause=went_in, hint=hint):
        tracer.create_arg({"a": [Unknown()]})
    with refuses(RuntimeError, cause=went_in, hint=hint):
        tracer.create_arg({proxy(tracer): 1})


def test_a_named_tuple_is_built_by_a_node(tracer):
    x = proxy(tracer)
    made = tracer.create_arg(zoo.Pair(x, right=[x, 1]))
    is_call = isinstance(made, Node) and made.op == "call_function"
    equal(
        (made.target, repr(made.args), made.kwargs) if is_call else made,
        (zoo.Pair, repr((x.node, [x.node, 1])), {}),
        cause=(is_value((x.node, [x.node, 1])), "a named tuple was treated as a plain tuple"),
        hint="`call_function` of the class, its elements as positional arguments",
    )
    made_by_it(tracer, made)
    made_by_it(tracer, tracer.create_arg(zoo.Pair(1, 2)))


def test_elements_are_converted_by_the_most_derived_method(lesson):
    class Doubling(own(lesson.CreateArg, "create_arg"), torch.fx.Tracer):
        def create_arg(self, a: object) -> object:
            return a * 2 if isinstance(a, int) else super().create_arg(a)

    tracer = standing(Doubling(), Model())
    equal(
        [tracer.create_arg([1, {"a": (2,)}]), tracer.create_arg(zoo.Pair(1, 2)).args],
        [[2, {"a": (4,)}], (2, 4)],
        cause=(lambda got: 1 in got[0] + [*got[1]], "the subclass wasn't asked for the elements"),
        hint="call `self.create_arg(element)`, so that subclasses have their say",
    )


# --- step 2: what the model holds -----------------------------------------------------------------


def test_a_tensor_that_the_model_holds_has_a_path(lesson):
    root = Model()
    tensors = root.weight, root.child.mean, root.child.inner.table, root.weight.detach()
    paths = lesson.tensor_paths(root)
    equal(
        [paths.get(tensor) for tensor in tensors],
        ["weight", "child.mean", "child.inner.table", None],
    )


HELD = [
    *("weight", "child.weight", "mean", "child.mean", "table", "child.inner.table"),
    *("child", "child.inner"),
]


@pytest.mark.parametrize("path", HELD)
def test_a_value_that_the_model_holds_is_read_from_there(tracer, path):
    def is_only_below(got):
        return "." in path and is_refused(got) and target_of(tracer, tracer.root.weight) == "weight"

    equal(
        target_of(tracer, operator.attrgetter(path)(tracer.root)),
        path,
        cause=[
            (is_constant, "a tensor that the model holds became a constant"),
            (is_only_below, "only what the root itself holds was searched"),
            (is_value(f".{path}"), "a leading dot: the root's empty path was joined with the name"),
            (is_value("child.tied"), "the last of two names was taken, and not the first"),
            (is_value("child.alias"), "a plain attribute was taken, and not the registered buffer"),
            (lambda got: got in ["", *HELD], "another value of the model was taken for it"),
        ],
    )


@pytest.mark.parametrize("name", ["weight", "mean"])
def test_tensors_with_equal_numbers_are_told_apart(tracer, name):
    first, second = getattr(tracer.root, name), getattr(tracer.root.child, name)
    first.data.fill_(1.0)
    second.data.fill_(1.0)
    equal(
        target_of(tracer, second),
        f"child.{name}",
        cause=(is_value(name), "tensors were compared with `==`, by their numbers"),
        hint="compare with `is`, or index by `id`",
    )


def test_a_foreign_module_is_refused(tracer):
    hint = "hand it to `super().create_arg(a)`, which refuses it"
    went_in = "a module that the root doesn't hold went into the graph"
    with refuses((NotImplementedError, NameError), "Tanh", cause=went_in, hint=hint):
        tracer.create_arg(nn.Tanh())


def test_another_root_has_its_own_paths(tracer):
    child = tracer.root.child
    values = child.weight, child.table, child.inner
    before = [target_of(tracer, value) for value in values]
    standing(tracer, child)
    got = [target_of(tracer, value) for value in values]
    equal(
        [before, got],
        [["child.weight", "child.table", "child.inner"], ["weight", "table", "inner"]],
        cause=(bool({*before} & {*got}), "a path below one root was the answer for another"),
        hint="remember for which root the paths are, or remember nothing",
    )


def test_a_new_trace_reads_the_model_again(tracer):
    target_of(tracer, tracer.root.weight)
    tracer.root.late = torch.ones(2)
    standing(tracer, tracer.root)
    equal(target_of(tracer, tracer.root.late), "late", hint="a new trace has a new `self.graph`")


def test_every_use_has_a_node_of_its_own(tracer):
    values = tracer.root.weight, tracer.root.child, zoo.Pair(1, 2)
    nodes = [tracer.create_arg(value) for value in values * 2]
    equal(
        len({id(node) for node in nodes}),
        6,
        cause=(
            lambda different: different < 6,
            "a node was kept and handed out again: it may come after its next user",
        ),
        hint="remember paths, and make a node for each use",
    )


# --- step 3: constants ----------------------------------------------------------------------------


def test_an_attribute_of_any_kind_is_found(lesson):
    root = Model()
    root.register_buffer("empty", None)
    names = ["training", "weight", "mean", "child", "forward", "eval", "empty"]
    equal([name for name in [*names, "nothing"] if lesson.has_attribute(root, name)], names)


def test_an_attribute_is_found_without_being_read(lesson):
    root, read = Model(), []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(nn.Module, "__getattr__", lambda self, name: read.append(name))
        lesson.has_attribute(root, "nothing")
    equal(read, [], cause=(bool, "`nn.Module.__getattr__` was called: a trace may add a node then"))


def test_each_prefix_is_counted_from_0_without_the_names_in_use(lesson):
    tracer, names = plugged(lesson), []
    tracer.root = nn.Module()
    tracer.root.register_buffer("_first0", torch.zeros(1))
    for prefix in ("_first", "_first", "_second"):
        names.append(tracer.get_fresh_qualname(prefix))
        vars(tracer.root)[names[-1]] = 1
    hint = "count on until no attribute of the root has the name"
    equal(names, ["_first1", "_first2", "_second0"], hint=hint)


def test_each_tracer_counts_from_0(lesson):
    names = []
    for _ in range(2):
        tracer = plugged(lesson)
        tracer.root = nn.Module()
        names += [tracer.get_fresh_qualname("_constant")]
        setattr(tracer.root, names[-1], 1)
        tracer.get_fresh_qualname("_constant")
    equal(names, ["_constant0"] * 2, hint="keep the numbers on the tracer, not on its class")


CONSTANTS = {
    "plain": lambda model: torch.rand(3),
    "without dimensions": lambda model: torch.tensor(2.0),
    "with a gradient": lambda model: torch.rand(3, requires_grad=True),
    "of a subclass": lambda model: torch.rand(3).as_subclass(Named),
    "in the memory of a parameter": lambda model: model.weight.detach(),
}


@pytest.mark.parametrize("kind", CONSTANTS)
def test_a_tensor_that_the_model_does_not_hold_is_kept_on_it(tracer, kind):
    kept_on_the_root(
        tracer,
        CONSTANTS[kind](tracer.root),
        "_tensor_constant",
        hint="a free name on the root, `setattr`, then a get_attr node",
    )


def test_a_constant_is_not_part_of_the_state(tracer):
    paths = [target_of(tracer, torch.rand(3, requires_grad=each)) for each in (True, False)]
    state = dict([*tracer.root.named_buffers(), *tracer.root.named_parameters()])
    equal(
        [path for path in paths if path in state],
        [],
        cause=(bool, "a constant was registered, so that it is saved and loaded with the model"),
        hint="an ordinary attribute will do: `setattr(self.root, path, a)`",
    )


def test_each_constant_is_kept_once(tracer):
    first, second = torch.ones(2), torch.ones(2)
    paths = [target_of(tracer, constant) for constant in (first, second, first)]
    equal(len({*tracer.made}), 3, hint="make a node for each use")
    equal(
        [paths.index(path) for path in paths],
        [0, 1, 0],
        cause=(is_value([0, 1, 2]), "each use of one tensor made an attribute of its own"),
        hint="remember the path of each constant by identity",
    )
    standing(tracer, child := tracer.root.child)
    path = target_of(tracer, first)
    holds(getattr(child, path, None) is first, "the constant on the root of the next trace too")


def test_a_foreign_parameter_is_refused(tracer):
    got = target_of(tracer, nn.Parameter(torch.rand(2)))
    holds(
        is_refused(got),
        "NameError",
        got=got,
        cause=(is_constant, "a parameter that the model doesn't have became a constant"),
        hint="raise NameError: training the graph would train a tensor that isn't the model's",
    )


def test_the_conversion_is_your_own(lesson):
    tracer = tracer_at(lesson, Model(), TracerBase)
    with barred(torch.fx.Tracer, "create_arg"):
        paths = [target_of(tracer, tracer.root.child.mean), target_of(tracer, torch.rand(1))]
    equal(paths[0], "child.mean", cause=(is_constant, "the buffer was taken for a constant"))


# --- the whole: inside the real engine ------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.SMALL)
def test_a_trace_with_it_is_the_trace_of_torch(lesson, name):
    same_graph(
        plugged(lesson).trace(zoo.SMALL[name]().model),
        torch.fx.Tracer().trace(zoo.SMALL[name]().model),
    )
