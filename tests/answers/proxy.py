"""Answers to ``proxy``."""

from __future__ import annotations

import dis
import sys

import torch
from torch.overrides import is_tensor_method_or_property

from tests.suite.answers import around, on, right, wrong

# --- wrong: operators and functions ---------------------------------------------------------------


@wrong("test_a_proxy_on_the_right_stays_on_the_right", says="the operands were swapped")
def reflected_operators_are_not_reflected(lesson):
    """``7 - x`` becomes ``x - 7``."""
    for name in lesson.BINARY:
        method = lesson.operator_method(name)
        setattr(lesson.Proxy, f"__r{name.strip('_')}__", method)


@wrong("test_a_proxy_is_found_at_any_depth", says="no proxy was found in")
def proxies_in_lists_are_not_found(lesson):
    """Looks at the arguments themselves: in ``torch.cat([x, y])`` none is a proxy."""

    @on(lesson)
    def record_call(function, *args, **kwargs):
        values = [*args, *kwargs.values()]
        tracer = next(each.tracer for each in values if isinstance(each, lesson.Proxy))
        return tracer.create_proxy("call_function", function, args, kwargs)


@wrong("test_a_function_of_torch_is_a_call_of_it", says="the keyword arguments were dropped")
def keyword_arguments_are_dropped(lesson):
    """Passes on only the positional arguments."""
    record_call = lesson.record_call
    lesson.record_call = lambda function, *args, **kwargs: record_call(function, *args)


@wrong(
    "test_a_method_of_a_tensor_called_with_a_proxy_is_a_method_call",
    says="is_tensor_method_or_property",
)
def every_function_is_a_call_function(lesson):
    """``torch.ones(2).add(x)`` becomes a call of ``torch.Tensor.add``."""
    lesson.is_tensor_method_or_property = lambda function: False


# --- wrong: attributes and methods ----------------------------------------------------------------


@wrong(
    "test_an_unused_attribute_leaves_no_node", says="the node was made when the attribute was read"
)
def attributes_are_fetched_at_once(lesson):
    """Creates the ``getattr`` node as soon as the attribute is read."""

    @on(lesson.Proxy)
    def __getattr__(self, attr):
        attribute = lesson.Attribute(self, attr)
        attribute.node
        return attribute


@wrong(
    "test_an_attribute_is_one_node_for_all_uses_and_another_if_it_is_read_again",
    says="each use created another node",
)
def attributes_are_fetched_at_each_use(lesson):
    """Creates a ``getattr`` node at each use."""
    lesson.Attribute.node = property(
        lambda self: lesson.record_call(getattr, self.root, self.attr).node
    )


@wrong("test_a_method_is_a_method_call", says="its first argument is `self.root`")
def a_method_of_the_attribute(lesson):
    """Passes the attribute itself instead of the proxy that has the method."""

    @on(lesson.Attribute)
    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self, *args), kwargs)


# --- wrong: questions -----------------------------------------------------------------------------


@wrong("test_a_proxy_has_no_truth_no_elements_and_no_number", says="was taken for a value")
def a_proxy_is_always_true(lesson):
    """Leaves ``__bool__`` to Python, for which every object is true."""
    lesson.Proxy.__bool__ = lambda self: True


@wrong("test_a_tracer_may_know_the_truth_and_the_elements", says="TraceError: no")
def the_tracer_is_not_asked(lesson):
    """Raises the error itself, though a tracer may know the answer."""

    @on(lesson.Proxy)
    def __bool__(self):
        raise lesson.TraceError("no")


@wrong(
    "test_a_refusal_is_an_error_with_a_reason_that_is_raised",
    says="what is wrong, then what to write instead",
)
def a_refusal_without_a_way_out(lesson):
    """Says what is wrong, and leaves the reader there."""

    @on(lesson.Proxy)
    def __len__(self):
        raise RuntimeError("the length of a proxy is unknown")


@wrong("test_unpacking_into_names_is_indexing", says="another number of elements")
def the_first_unpacking_of_the_function_counts(lesson):
    """Takes the first ``UNPACK_SEQUENCE`` of the function, not the one that is running."""

    @on(lesson.Proxy)
    def __iter__(self):
        frame = sys._getframe(1)
        numbers = {each.offset: each for each in dis.get_instructions(frame.f_code)}
        if numbers[frame.f_lasti].opname != "UNPACK_SEQUENCE":
            return self.tracer.iter(self)
        first = next(each for each in numbers.values() if each.opname == "UNPACK_SEQUENCE")
        return map(self.__getitem__, range(first.argval))


@wrong(
    "test_a_refusal_is_an_error_with_a_reason_that_is_raised",
    says="nothing in it runs before the first element is requested",
)
def the_unpacking_is_a_generator(lesson):
    """Looks at the caller's code in a generator, whose caller asks for an element."""

    @around(lesson.Proxy)
    def __iter__(original, self):
        yield from original(self)


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def operators_written_out(lesson):
    """Searches the arguments recursively for the tracer, and computes the kind first."""

    def find(value):
        if isinstance(value, lesson.Proxy):
            return value.tracer
        parts = value.values() if isinstance(value, dict) else value
        found = map(find, parts) if isinstance(value, tuple | list | dict) else ()
        return next((each for each in found if each is not None), None)

    @on(lesson)
    def record_call(function, *args, **kwargs):
        is_method = is_tensor_method_or_property(function)
        kind = "call_method" if is_method else "call_function"
        return find((args, kwargs)).create_proxy(
            kind, function.__name__ if is_method else function, args, kwargs
        )


@right(core_only=True)
def unpacking_by_the_caller_s_instructions(lesson):
    """Disassembles the caller's function and takes the instruction that is running."""

    @on(lesson.Proxy)
    def __iter__(self):
        frame = sys._getframe(1)
        instructions = dis.get_instructions(frame.f_code)
        *_, current = (each for each in instructions if each.offset <= frame.f_lasti)
        if current.opname == "UNPACK_SEQUENCE":
            return (self[number] for number in range(current.argval))
        return self.tracer.iter(self)


@right(core_only=True)
def torch_functions_are_asked_for_by_name(lesson):
    """Looks on ``torch.Tensor`` for a method that is this function."""

    @around(lesson)
    def is_tensor_method_or_property(original, function):
        name = getattr(function, "__name__", "")
        return getattr(torch.Tensor, name, None) is function or original(function)
