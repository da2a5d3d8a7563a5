"""Answers to ``inversion``."""

from __future__ import annotations

import copy
import operator
from itertools import pairwise

import torch

from tests.suite.answers import around, on, right, wrong
from tests.suite.engine import graph_module

# --- wrong ----------------------------------------------------------------------------------------


@wrong(
    "test_the_steps_are_undone_from_the_last_to_the_first",
    says="the steps are undone in the order in which they were done",
)
def undoes_the_first_step_first(lesson):
    """Walks the chain forwards."""

    @on(lesson.InverseBuilder)
    def build(self):
        *steps, output = self.chain
        result = self.graph.placeholder(output.name)
        self.copy_constants()
        for source, step in pairwise(steps):
            result = self.undo(step, source, result)
        self.graph.output(result)
        return graph_module(self.root, self.graph)


@wrong("test_an_operation_is_solved_for_either_operand", says="solve `y = sub(c, x)`")
def ignores_the_place_of_the_constant(lesson):
    """Undoes ``2 - x`` like ``x - 2``."""

    @around(lesson)
    def solve(original, function, operands, place, result):
        return original(function, operands[::-1] if place else operands, 0, result)


@wrong(
    "test_each_of_a_pair_is_the_inverse_of_the_other",
    says="`INVERSES` has both functions of a pair",
)
def knows_one_way(lesson):
    """Knows the inverse of ``sin``, and takes ``arcsin`` for its own."""
    names = ("sin", "cos", "tan", "exp")
    known = {getattr(torch, name): lesson.inverse_of(getattr(torch, name)) for name in names}
    lesson.inverse_of = lambda function: known.get(function, function)


@wrong("test_an_unknown_function_is_refused_by_name", says="KeyError")
def lets_a_key_error_out(lesson):
    """Looks the function up without an error of its own."""
    lesson.inverse_of = lambda function: lesson.INVERSES[function]


@wrong(
    "test_a_function_that_only_shares_its_name_with_a_known_one_is_another",
    says="it was looked up by its name",
)
def looks_functions_up_by_name(lesson):
    """Takes every function called ``exp`` for ``torch.exp``."""
    known = {f.__name__: g for f, g in lesson.INVERSES.items()}
    by_identity = lesson.inverse_of
    lesson.inverse_of = lambda f: known.get(getattr(f, "__name__", "")) or by_identity(f)


@wrong("test_a_later_pair_wins", says="the first pair stays")
def keeps_the_first_pair(lesson):
    """Ignores a later pair with the same function."""

    @on(lesson)
    def add_inverse(f, g):
        lesson.INVERSES.setdefault(f, g)
        lesson.INVERSES.setdefault(g, f)


@wrong("test_a_graph_that_is_not_a_chain_is_refused", says="one user of each value")
def follows_the_first_user(lesson):
    """Goes from each value to a user, and doesn't ask whether there are others."""

    @on(lesson)
    def find_chain(graph):
        chain = graph.find_nodes(op="placeholder")
        while chain[-1].op != "output":
            chain.append(next(iter(chain[-1].users)))
        return chain


@wrong("test_a_zero_that_is_a_term_is_fine", says="contains zero")
def refuses_every_zero(lesson):
    """Refuses ``x + 0`` like ``x * 0``."""

    @around(lesson.InverseBuilder)
    def check_constant(original, self, value, inverse):
        original(self, value, operator.mul)


@wrong("test_a_step_whose_input_isnt_one_operand_is_refused", says="count the operands")
def takes_the_first_operand_that_is_the_input(lesson):
    """Solves ``x * x`` for the first ``x``, as if the second were a constant."""

    @on(lesson.InverseBuilder)
    def undo(self, step, source, result):
        function, operands = self.call_of(step)
        inverse, arguments = lesson.solve(function, operands, operands.index(source), result)
        copied = tuple(self.copies.get(each, each) for each in arguments)
        return self.graph.call_function(inverse, copied)


def inverting(lesson, copied, inlined):
    """Invert what ``copied`` returns for the model, with ``inlined`` for the calls of modules."""

    @on(lesson)
    def invert(model):
        tracer = lesson.Tracer()
        graph = tracer.trace(copied(model))
        gm = inlined(graph_module(tracer.root, graph))
        return lesson.InverseBuilder(gm, lesson.find_chain(gm.graph)).build()


@wrong("test_the_model_given_is_not_changed", says="the trace stored a constant on it")
def traces_the_model_itself(lesson):
    """Lets the tracer write its constants onto the model."""
    inverting(lesson, lambda model: model, lesson.inline_all)


@wrong(
    "test_parameters_and_buffers_are_shared_with_the_model",
    says="the inverse doesn't have these of the model",
)
def copies_the_model(lesson):
    """Protects the model by a deep copy."""
    inverting(lesson, copy.deepcopy, lesson.inline_all)


@wrong(
    "test_a_module_of_torch_is_undone_by_what_undoes_its_function",
    says="the call of the module was left in the graph",
)
def leaves_calls_of_modules(lesson):
    """Looks for the inverse of a module, not of what the module computes."""
    inverting(lesson, copy.copy, lambda gm: gm)


def computes(lesson, is_refused):
    """Let functions and methods compute constants, except for those that are refused."""

    @around(lesson.InverseBuilder)
    def value_of(original, self, constant):
        if constant.op == "get_attr" or is_refused(constant):
            return original(self, constant)
        from solutions.interpreter import Interpreter  # of this copy of the reference

        interpreter = Interpreter(self.root, graph=constant.graph)
        interpreter.env = self.values
        with torch.no_grad():
            return interpreter.run_node(constant)


@wrong(
    "test_a_constant_that_changes_the_model_is_refused_by_name",
    says="the operation that changes the weight was run",
)
def computes_every_constant(lesson):
    """Runs every node that doesn't depend on the input."""
    computes(lesson, lambda node: False)


@wrong(
    "test_a_constant_with_side_effects_is_refused_and_not_computed",
    says="`invert` ran the operation that changes the model",
)
def knows_side_effects_by_their_spelling(lesson):
    """Refuses functions by their names: a trailing underscore, or ``rand``."""
    lesson.RefuseSideEffects = torch.no_grad

    @around(lesson.InverseBuilder)
    def value_of(original, self, constant):
        name = getattr(constant.target, "__name__", str(constant.target))
        if name.endswith("_") or "rand" in name:
            raise lesson.NotInvertibleError(f"{name} has side effects")
        return original(self, constant)


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def traces_into_every_module(lesson):
    """Lets no module be a leaf, so that no call is left to inline."""

    class Through(lesson.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    lesson.Tracer = Through
    inverting(lesson, copy.copy, lambda gm: gm)


@right(core_only=True)
def a_registry_of_its_own(lesson):
    """Keeps pairs in a list, and searches it from the end."""
    pairs = list(lesson.INVERSES.items())

    def add_inverse(f, g):
        pairs.append((f, g))

    def inverse_of(function):
        for f, g in reversed(pairs):
            if function in (f, g):
                return g if function is f else f
        name = getattr(function, "__name__", function)
        raise lesson.NotInvertibleError(f"{name} has no partner: add_inverse")

    lesson.add_inverse, lesson.inverse_of = add_inverse, inverse_of


@right(core_only=True)
def blames_other_nodes(lesson):
    """Names the node at which a chain splits or joins, in words of its own."""

    @on(lesson)
    def find_chain(graph):
        chain = graph.find_nodes(op="placeholder")[:1]
        for node in graph.nodes:
            values = [each for each in node.all_input_nodes if each in chain]
            if len(values) > 1:
                raise lesson.NotInvertibleError(f"{node} has two inputs")
            if values and values[0] is not chain[-1]:
                raise lesson.NotInvertibleError(f"{values[0]} is used by two nodes")
            if values:
                chain.append(node)
            elif node.op == "output" or (node.op == "placeholder" and node is not chain[0]):
                raise lesson.NotInvertibleError(f"{node} isn't reached from the input")
        if list(chain[-1].args) != chain[-2:-1]:
            raise lesson.NotInvertibleError(f"{chain[-1]} is more than one value")
        return chain


@right(core_only=True)
def computes_constants_of_known_functions(lesson):
    """Lets a constant be the sum or the exponential of parameters, and refuses other functions."""
    known = (torch.exp, torch.log, operator.add, operator.mul)
    computes(lesson, lambda node: node.target not in known)
