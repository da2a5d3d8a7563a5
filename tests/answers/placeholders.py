"""Answers to ``placeholders``.

``BySignature`` is a right answer in small steps; each wrong one takes one step wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from types import FunctionType
from typing import Any

from tests.suite.answers import around, on, right, wrong

STARS = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class BySignature:
    """Reads ``inspect.signature`` and leaves concrete arguments aside."""

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        parameters = self.parameters_of(root_fn)
        args: list[Any] = []
        if is_module:
            self.check_self(parameters)
            args.append(self.root)
            parameters = parameters[1:]
        args += [self.placeholder(parameter) for parameter in parameters]
        return self.by_position(root_fn, len(args)), args

    def parameters_of(self, root_fn: Callable) -> list[Parameter]:
        parameters = inspect.signature(inspect.unwrap(root_fn)).parameters.values()
        return sorted(parameters, key=lambda each: (each.kind in STARS, each.kind))

    def check_self(self, parameters: list[Parameter]) -> None:
        if not parameters or parameters[0].kind in STARS:
            raise RuntimeError("forward has no parameter for `self`")

    def placeholder(self, parameter: Parameter) -> Any:
        target = STARS.get(parameter.kind, "") + parameter.name
        return self.create_proxy(
            "placeholder", target, self.default(parameter), {}, type_expr=self.type_of(parameter)
        )

    def default(self, parameter: Parameter) -> tuple:
        return () if parameter.default is Parameter.empty else (parameter.default,)

    def type_of(self, parameter: Parameter) -> Any:
        if parameter.annotation is Parameter.empty or parameter.kind in STARS:
            return None
        return parameter.annotation

    def by_position(self, root_fn: Callable, count: int) -> Callable:
        code = root_fn.__code__
        takes_more = code.co_kwonlyargcount or code.co_flags & VARIADIC
        if root_fn is not inspect.unwrap(root_fn) or not takes_more:
            return root_fn
        flags = code.co_flags & ~VARIADIC
        code = code.replace(co_argcount=count, co_kwonlyargcount=0, co_flags=flags)
        return FunctionType(code, root_fn.__globals__, None, None, root_fn.__closure__)


def by_signature_in(lesson) -> type:
    """Make a copy of ``BySignature`` the answer, and return it, so that a step can be changed."""
    lesson.Placeholders = type("Placeholders", (BySignature,), {})
    return lesson.Placeholders


@wrong("test_self_is_known_by_its_place", says="the parameter called `self` was left out")
def self_is_known_by_its_name(lesson):
    """Looks for the name ``self``, which is a habit and not a keyword."""

    @on(by_signature_in(lesson))
    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        parameters = self.parameters_of(root_fn)
        named = [self.placeholder(p) for p in parameters if p.name != "self"]
        args = [self.root, *named] if is_module else named
        return self.by_position(root_fn, len(args)), args


@wrong("test_the_arguments_are_the_proxies", says="the first parameter was taken for `self`")
def the_first_parameter_is_always_self(lesson):
    """Leaves the first parameter out, even if the root is a function."""

    @around(by_signature_in(lesson))
    def parameters_of(original, self, root_fn):
        _, *others = original(self, root_fn)
        return others


@wrong("test_forward_without_self_is_refused", says="`forward(*inputs, **options)` was taken")
def forward_without_self_is_not_noticed(lesson):
    """Drops the first parameter without a look at it, even ``*args``."""

    @on(by_signature_in(lesson))
    def check_self(self, parameters):
        pass


@wrong(
    "test_every_kind_of_parameter_becomes_one_placeholder",
    says="`*args` or `**kwargs` were left out",
)
def variadic_parameters_are_dropped(lesson):
    """Passes nothing for the parameters that take any number of arguments."""

    @around(by_signature_in(lesson))
    def parameters_of(original, self, root_fn):
        return [p for p in original(self, root_fn) if p.kind not in STARS]


@wrong("test_every_kind_of_parameter_becomes_one_placeholder", says="in another order")
def parameters_come_as_they_are_written(lesson):
    """Leaves ``*args`` before the keyword-only parameters, as in the signature."""

    @on(by_signature_in(lesson))
    def parameters_of(self, root_fn):
        return [*inspect.signature(inspect.unwrap(root_fn)).parameters.values()]


@wrong("test_an_annotation_becomes_the_type_of_the_node", says="each element is a float")
def the_elements_type_is_that_of_all(lesson):
    """Gives the placeholder of ``*rest: float`` the type ``float``."""

    @on(by_signature_in(lesson))
    def type_of(self, parameter):
        return None if parameter.annotation is Parameter.empty else parameter.annotation


@wrong("test_a_decorated_function_is_seen_through", says="the wrapper's own `*args, **kwargs`")
def the_wrapper_is_read(lesson):
    """Reads the signature of the outermost function, which takes anything."""

    @on(by_signature_in(lesson))
    def parameters_of(self, root_fn):
        signature = inspect.signature(root_fn, follow_wrapped=False)
        return [*signature.parameters.values()]


@wrong("test_the_arguments_are_the_proxies", says="nodes were returned")
def the_arguments_are_nodes(lesson):
    """Calls the function with nodes, which record nothing."""

    @around(by_signature_in(lesson))
    def placeholder(original, self, parameter):
        return original(self, parameter).node


@wrong("test_a_default_is_kept", says="None or false was taken for no default")
def a_false_default_is_taken_for_none(lesson):
    """Asks ``if default``, which is false for 0 and None too."""

    @on(by_signature_in(lesson))
    def default(self, parameter):
        has_one = parameter.default is not Parameter.empty and parameter.default
        return (parameter.default,) if has_one else ()


@wrong(
    "test_any_other_function_can_be_called_by_position",
    says="it still packs its arguments into a tuple or a dict",
)
def variadic_parameters_are_packed(lesson):
    """Makes keyword-only parameters positional, and leaves the stars alone."""

    @on(lesson)
    def call_by_position(fn, count):
        code = fn.__code__
        positional = code.co_argcount + code.co_kwonlyargcount
        code = code.replace(co_argcount=positional, co_kwonlyargcount=0)
        return FunctionType(code, fn.__globals__, closure=fn.__closure__)


@wrong(
    "test_a_decorated_function_still_runs_its_decorator",
    says="the inner function is called instead of the decorated one",
)
def the_decorator_is_skipped(lesson):
    """Calls the function whose parameters it has read."""

    @around(by_signature_in(lesson))
    def by_position(original, self, root_fn, count):
        return original(self, inspect.unwrap(root_fn), count)


@wrong(
    "test_a_trace_with_concrete_arguments_is_the_trace_of_torch",
    says="`concrete_args` wasn't used for this parameter",
)
def concrete_arguments_are_ignored(lesson):
    """Makes a proxy for every parameter, known or not."""
    lesson.Placeholders = BySignature


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def by_signature(lesson):
    """A class of small steps around ``inspect.signature``."""
    lesson.Placeholders = BySignature


@right(core_only=True)
def the_copy_keeps_its_annotations(lesson):
    """Annotates what the copy returns like what the function returns; torch's copy isn't."""

    @around(by_signature_in(lesson))
    def by_position(original, self, root_fn, count):
        function = original(self, root_fn, count)
        function.__annotations__ = root_fn.__annotations__
        return function


@right(core_only=True)
def keywords_through_a_wrapper(lesson):
    """Passes keyword-only parameters by name, and makes new code for variadic ones alone."""

    @around(by_signature_in(lesson))
    def by_position(original, self, root_fn, count):
        code = inspect.unwrap(root_fn).__code__
        if code.co_flags & VARIADIC:
            return original(self, root_fn, count)
        names = code.co_varnames[code.co_argcount : count]

        def by_name(*args):
            positional, keywords = args[: code.co_argcount], args[code.co_argcount :]
            return root_fn(*positional, **dict(zip(names, keywords, strict=True)))

        return by_name if names else root_fn
