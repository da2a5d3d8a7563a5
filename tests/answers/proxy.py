"""Answers to ``proxy``."""

from __future__ import annotations

import dis
import operator
import sys
import types

import torch
from torch.overrides import is_tensor_method_or_property

from tests.suite.answers import right, wrong


def recording(lesson):
    """What the reference does with a function and its arguments."""
    return lesson.record_call


# --- wrong: operators and functions ---------------------------------------------------------------


@wrong(fails="test_a_proxy_on_the_right_stays_on_the_right", says="the operands changed places")
def reflected_operators_are_not_reflected(lesson):
    """``7 - x`` becomes ``x - 7``."""
    for name in lesson.BINARY:
        method = lesson.operator_method(name)
        setattr(lesson.Proxy, f"__r{name.strip('_')}__", method)


@wrong(fails="test_a_proxy_is_found_at_any_depth", says="no proxy was found in")
def proxies_in_lists_are_not_found(lesson):
    """Looks for a proxy among the arguments themselves: ``torch.cat([x, y])`` has none."""

    def record_call(function, *args, **kwargs):
        values = [*args, *kwargs.values()]
        tracer = next(each.tracer for each in values if isinstance(each, lesson.Proxy))
        return tracer.create_proxy("call_function", function, args, kwargs)

    lesson.record_call = record_call


@wrong(fails="test_a_function_of_torch_is_a_call_of_it", says="the keyword arguments were dropped")
def keyword_arguments_are_dropped(lesson):
    """Passes the positional arguments on, and forgets the others."""
    record_call = recording(lesson)
    lesson.record_call = lambda function, *args, **kwargs: record_call(function, *args)


@wrong(
    fails="test_a_method_of_a_tensor_that_meets_a_proxy_is_a_method_call",
    says="is_tensor_method_or_property",
)
def every_function_is_a_call_function(lesson):
    """``torch.ones(2).add(x)`` becomes a call of ``torch.Tensor.add``."""

    def record_call(function, *args, **kwargs):
        tracer = next(
            each.tracer
            for each in lesson.tree_leaves((args, kwargs))
            if isinstance(each, lesson.Proxy)
        )
        return tracer.create_proxy("call_function", function, args, kwargs)

    lesson.record_call = record_call


@wrong(fails="test_an_operation_answers_with_a_proxy_of_its_node", says="is a Proxy again")
def an_operation_answers_with_a_node(lesson):
    """Creates the node, and returns it instead of its proxy."""
    record_call = recording(lesson)
    lesson.record_call = lambda function, *args, **kwargs: (
        record_call(function, *args, **kwargs).node
    )


# --- wrong: attributes and methods ----------------------------------------------------------------


@wrong(
    fails="test_an_attribute_that_nobody_uses_leaves_no_node",
    says="the node was made when the attribute was read",
)
def attributes_are_fetched_at_once(lesson):
    """Makes the node of ``getattr`` as soon as the attribute is read."""

    def __getattr__(self, attr):
        attribute = lesson.Attribute(self, attr)
        attribute.node
        return attribute

    lesson.Proxy.__getattr__ = __getattr__


@wrong(
    fails="test_an_attribute_that_is_used_twice_is_one_node",
    says="each use made a node of its own",
)
def attributes_are_fetched_at_each_use(lesson):
    """Makes a node of ``getattr`` whenever it is asked for one."""
    lesson.Attribute.node = property(
        lambda self: lesson.record_call(getattr, self.root, self.attr).node
    )


@wrong(fails="test_a_method_is_a_method_call", says="its first argument is `self.root`")
def a_method_of_the_attribute(lesson):
    """Passes the attribute itself in the place of the proxy that has the method."""

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self, *args), kwargs)

    lesson.Attribute.__call__ = __call__


@wrong(fails="test_a_call_of_a_proxy_is_a_call_of_its_method", says="call_function")
def a_call_of_a_proxy_is_a_function_call(lesson):
    """``x(y)`` becomes a ``call_function`` whose function is the proxy."""

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_function", operator.call, (self, *args), kwargs)

    lesson.Proxy.__call__ = __call__


# --- wrong: questions -----------------------------------------------------------------------------


@wrong(fails="test_the_truth_of_a_proxy_is_refused", says="it was taken as true or false")
def a_proxy_is_always_true(lesson):
    """Leaves ``__bool__`` to Python, for which every object is true."""
    lesson.Proxy.__bool__ = lambda self: True


@wrong(fails="test_a_tracer_may_know_the_truth_and_the_elements", says="TraceError: no")
def the_tracer_is_not_asked(lesson):
    """Refuses by itself, though a tracer may know the answer."""

    def __bool__(self):
        raise lesson.TraceError("no")

    lesson.Proxy.__bool__ = __bool__


@wrong(fails="test_a_refusal_is_an_error_that_is_raised", says="the error was returned")
def the_length_is_an_error(lesson):
    """Makes the error, and returns it."""
    lesson.Proxy.__len__ = lambda self: self.refusal(RuntimeError, "no length", "take `shape`")


@wrong(fails="test_the_elements_of_a_proxy_are_refused", says="it was iterated over")
def iteration_ends_at_once(lesson):
    """Takes a proxy for empty."""
    lesson.Proxy.__iter__ = lambda self: iter(())


@wrong(fails="test_unpacking_into_names_is_indexing", says="another number of elements")
def the_first_unpacking_of_the_function_counts(lesson):
    """Looks for ``UNPACK_SEQUENCE`` in the function, and not for the one that is running."""

    def __iter__(self):
        frame = sys._getframe(1)
        numbers = {each.offset: each for each in dis.get_instructions(frame.f_code)}
        if numbers[frame.f_lasti].opname != "UNPACK_SEQUENCE":
            return self.tracer.iter(self)
        first = next(each for each in numbers.values() if each.opname == "UNPACK_SEQUENCE")
        return map(self.__getitem__, range(first.argval))

    lesson.Proxy.__iter__ = __iter__


@wrong(fails="test_a_proxy_as_an_index_is_refused", says="it was taken as an int")
def a_proxy_is_index_zero(lesson):
    """Returns a number where Python insists on one."""
    lesson.Proxy.__index__ = lambda self: 0


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def operators_written_out(lesson):
    """Finds the tracer by a walk of its own, and has two branches in another order."""

    def find(value):
        if isinstance(value, lesson.Proxy):
            return value.tracer
        parts = value.values() if isinstance(value, dict) else value
        found = map(find, parts) if isinstance(value, tuple | list | dict) else ()
        return next((each for each in found if each is not None), None)

    def record_call(function, *args, **kwargs):
        is_method = is_tensor_method_or_property(function)
        kind = "call_method" if is_method else "call_function"
        return find((args, kwargs)).create_proxy(
            kind, function.__name__ if is_method else function, args, kwargs
        )

    lesson.record_call = record_call


@right(core_only=True)
def unpacking_by_the_caller_s_instructions(lesson):
    """Disassembles the caller's function, and looks for the instruction at which it is."""
    import dis
    import sys

    def __iter__(self):
        frame = sys._getframe(1)
        instructions = dis.get_instructions(frame.f_code)
        *_, current = (each for each in instructions if each.offset <= frame.f_lasti)
        if current.opname == "UNPACK_SEQUENCE":
            return (self[number] for number in range(current.argval))
        return self.tracer.iter(self)

    lesson.Proxy.__iter__ = __iter__


@right(core_only=True)
def attributes_without_a_class_body(lesson):
    """Keeps the node of an attribute in a cell."""

    def attribute(root, attr):
        made = []

        class Attribute(lesson.Proxy):
            def __init__(self):
                self.tracer = root.tracer

            @property
            def node(self):
                made[:] = made or [
                    root.tracer.create_proxy("call_function", getattr, (root, attr), {})
                ]
                return made[0].node

            def __call__(self, *args, **kwargs):
                return root.tracer.create_proxy("call_method", attr, (root, *args), kwargs)

        return Attribute()

    lesson.Proxy.__getattr__ = attribute
    lesson.Attribute = types.FunctionType(
        attribute.__code__, attribute.__globals__, closure=attribute.__closure__
    )


@right
def torch_functions_are_asked_for_by_name(lesson):
    """``torch.Tensor`` has an attribute of the function's name, and it is that function."""

    def is_method(function):
        name = getattr(function, "__name__", "")
        return getattr(torch.Tensor, name, None) is function or is_tensor_method_or_property(
            function
        )

    lesson.is_tensor_method_or_property = is_method
