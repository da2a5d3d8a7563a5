"""Answers to ``inversion``."""

from __future__ import annotations

import copy
import operator

import torch
from torch import nn
from torch.fx import Graph, GraphModule, symbolic_trace

from tests.suite.answers import right, wrong


def walks_back(lesson, *, undo=None, name=None, forwards=False):
    """The well-known example: functions of one argument, and no questions asked."""

    def invert(model):
        traced = symbolic_trace(model)
        graph, values = Graph(), {}
        nodes = list(traced.graph.nodes)
        output = nodes[-1]
        value = graph.placeholder(name or output.name)
        steps = [node for node in nodes if node.op.startswith("call_")]
        for node in steps if forwards else reversed(steps):
            value = (undo or plainly_undone)(lesson, graph, node, value)
            values[node] = value
        graph.output(value)
        return GraphModule(traced, graph)

    lesson.invert = invert


def plainly_undone(lesson, graph, node, value):
    function = node.target if node.op == "call_function" else getattr(torch, node.target)
    return graph.call_function(lesson.inverse_of(function), (value,))


@wrong(
    fails="test_the_example_gives_back_the_numbers",
    says="the steps are undone in another order",
)
def undoes_the_first_step_first(lesson):
    """Walks the graph forwards."""
    walks_back(lesson, forwards=True)


@wrong(
    fails="test_the_example_prints_the_code_of_its_inverse",
    says="the output's name becomes the placeholder's",
)
def names_the_input_itself(lesson):
    """Calls the new placeholder y."""
    walks_back(lesson, name="y")


@wrong(
    fails="test_the_place_of_the_constant_matters",
    says="`2 - x` was undone like `x - 2`",
)
def ignores_the_place_of_the_constant(lesson):
    """Undoes ``2 - x`` like ``x - 2``."""
    opposite = {
        operator.add: operator.sub,
        operator.sub: operator.add,
        operator.mul: operator.truediv,
        operator.truediv: operator.mul,
    }

    def undo(lesson, graph, node, value):
        constants = [arg for arg in node.args if not isinstance(arg, torch.fx.Node)]
        if node.target in opposite and constants:
            return graph.call_function(opposite[node.target], (value, constants[0]))
        return plainly_undone(lesson, graph, node, value)

    walks_back(lesson, undo=undo)


@wrong(
    fails="test_what_has_no_inverse_is_refused",
    says="inverted all the same",
)
def asks_no_questions(lesson):
    """Takes every graph for a chain of known steps."""

    def undo(lesson, graph, node, value):
        try:
            return plainly_undone(lesson, graph, node, value)
        except Exception:
            return value

    walks_back(lesson, undo=undo)


@wrong(
    fails="test_each_of_a_pair_is_the_inverse_of_the_other",
    says="the pair was registered one way only",
)
def registers_one_way(lesson):
    """Knows the inverse of ``sin``, and not that of ``arcsin``."""
    lesson.inverses.INVERSES.clear()
    lesson.inverses.INVERSES.update(dict(lesson.inverses.PAIRS))
    known = lesson.inverse_of

    def inverse_of(function):
        try:
            return known(function)
        except lesson.NotInvertibleError:
            return None

    lesson.inverse_of = inverse_of


@wrong(
    fails="test_an_unknown_function_is_refused_by_name",
    says="how to register its inverse",
)
def lets_a_key_error_out(lesson):
    """Looks the function up, and says nothing of its own."""

    def inverse_of(function):
        inverse = lesson.inverses.INVERSES.get(function)
        if inverse is None:
            raise lesson.NotInvertibleError("unknown")
        return inverse

    lesson.inverse_of = inverse_of


@wrong(
    fails="test_the_model_given_is_not_changed",
    says="the trace stored a constant on the model",
)
def traces_the_model_itself(lesson):
    """Lets the tracer write its constants onto the model."""
    lesson._chain._twin = lambda model: model


@wrong(
    fails="test_parameters_are_shared_with_the_model",
    says="the inverse has copies of the parameters",
)
def copies_the_model(lesson):
    """Protects the model by a deep copy."""
    lesson._chain._twin = copy.deepcopy


@wrong(
    fails="test_a_buffer_that_holds_zero_is_no_factor",
    says="look the attribute up and check all its elements",
)
def trusts_attributes(lesson):
    """Checks numbers only."""
    check = lesson._undo.Undoing.check_constant

    def check_constant(self, step, constant, is_factor):
        if not isinstance(constant, torch.fx.Node):
            check(self, step, constant, is_factor)

    lesson._undo.Undoing.check_constant = check_constant


@wrong(
    fails="test_a_module_with_an_inverse_is_one_step",
    says="its value is used twice",
)
def looks_into_modules(lesson):
    """Traces through modules that have an inverse of their own."""
    del lesson._chain._StepTracer.is_leaf_module


@wrong(
    fails="test_a_module_undoes_itself",
    says="what was changed last has to be mended first",
)
def mends_in_the_same_order(lesson):
    """Takes the first change back first."""

    class RevBlock(lesson.RevBlock):
        def inverse(self, y):
            first, second = torch.tensor_split(y, 2, self.dim)
            first = first - self.f(second)
            second = second - self.g(first)
            return torch.cat((first, second), self.dim)

    lesson.RevBlock = RevBlock


@right
def a_registry_of_its_own(lesson):
    """Keeps pairs in a list, and searches it from the end."""
    pairs = list(lesson.inverses.PAIRS)

    check_and_add = lesson.add_inverse

    def add_inverse(f, g):
        check_and_add(f, g)
        pairs.append((f, g))

    def inverse_of(function):
        for f, g in reversed(pairs):
            if function in (f, g):
                return g if function is f else f
        name = getattr(function, "__name__", function)
        raise lesson.NotInvertibleError(f"{name} has no partner: add_inverse")

    lesson.add_inverse, lesson.inverse_of = add_inverse, inverse_of
    lesson._undo.inverse_of = inverse_of


@right
def undoes_operators_in_words(lesson):
    """Writes each operation with a constant out, instead of looking it up in a table."""

    def undo_operator(self, step, function, operands, value):
        function = lesson._undo.OPERATORS.get(function, function)
        x = self.chain.input_of(step)
        if len(operands) != 2 or operands[0] is operands[1]:
            raise lesson._chain.not_invertible(step, "it isn't x and a constant")
        first = operands[0] is x
        constant = operands[1] if first else operands[0]
        steps = {
            operator.add: lambda y, c: (operator.sub, (y, c)),
            operator.sub: lambda y, c: (operator.add, (y, c)) if first else (operator.sub, (c, y)),
            operator.mul: lambda y, c: (operator.truediv, (y, c)),
            operator.truediv: lambda y, c: (
                (operator.mul, (y, c)) if first else (operator.truediv, (c, y))
            ),
        }
        if function not in steps:
            raise lesson._chain.not_invertible(step, "the operator is unknown")
        is_factor = function in (operator.mul, operator.truediv)
        self.check_constant(step, constant, is_factor)
        return self.graph.call_function(
            *steps[function](value, self.copies.get(constant, constant))
        )

    lesson._undo.Undoing.undo_operator = undo_operator


@right
def couples_by_slices(lesson):
    """Cuts the input by ``narrow``, and undoes by the opposite sign."""

    class AdditiveCoupling(lesson.AdditiveCoupling):
        def changed(self, x, sign):
            half = x.size(self.dim) // 2
            first = x.narrow(self.dim, 0, half)
            second = x.narrow(self.dim, half, x.size(self.dim) - half)
            return torch.cat([first, second + sign * self.f(first)], dim=self.dim)

        def forward(self, x):
            return self.changed(x, 1)

        def inverse(self, y):
            return self.changed(y, -1)

    lesson.AdditiveCoupling = AdditiveCoupling


@right(core_only=True)
def leaves_modules_out(lesson):
    """Knows nothing of modules that have an inverse."""

    def undo_module(self, step, value):
        raise lesson._chain.not_invertible(step, "it is a module")

    lesson._undo.Undoing.undo_module = undo_module
    assert issubclass(lesson.RevBlock, nn.Module)


@wrong(
    fails="test_a_function_that_is_only_called_like_a_known_one_is_unknown",
    says="two functions may have one name",
)
def looks_functions_up_by_name(lesson):
    """Takes every function called ``exp`` for ``torch.exp``."""
    known = {f.__name__: g for f, g in lesson.inverses.INVERSES.items()}
    by_identity = lesson.inverse_of

    def inverse_of(f):
        return known.get(getattr(f, "__name__", "")) or by_identity(f)

    lesson.inverse_of = lesson.inverses.inverse_of = lesson._undo.inverse_of = inverse_of


@wrong(fails="test_a_later_pair_wins", says="overwrite what was registered before")
def keeps_the_first_pair(lesson):
    """Registers a function once and for all."""

    def add_inverse(f, g):
        lesson.inverses.INVERSES.setdefault(f, g)
        lesson.inverses.INVERSES.setdefault(g, f)

    lesson.add_inverse = add_inverse
