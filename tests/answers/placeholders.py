"""Answers to ``create_args_for_root``.

``BySignature`` is a right answer in small steps; each wrong one takes one step wrong.
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
from collections.abc import Callable
from inspect import Parameter
from types import FunctionType
from typing import Any

from tests.suite.answers import right, wrong

STARS = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
ORDER = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_POSITIONAL,
    Parameter.VAR_KEYWORD,
)
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
        signature = inspect.signature(inspect.unwrap(root_fn))
        return sorted(signature.parameters.values(), key=lambda p: ORDER.index(p.kind))

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
        if root_fn is not inspect.unwrap(root_fn) or not takes_more(code):
            return root_fn
        return FunctionType(
            all_by_position(code, count), root_fn.__globals__, None, None, root_fn.__closure__
        )


def takes_more(code) -> bool:
    """Whether there are parameters that cannot be passed one by one, by position."""
    return bool(code.co_kwonlyargcount or code.co_flags & VARIADIC)


def all_by_position(code, count: int):
    """The code with ``count`` ordinary parameters and no others."""
    return code.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~VARIADIC,
    )


# --- wrong: which parameters --------------------------------------------------------------------


@wrong(fails="test_the_root_takes_the_place_of_self", says="`self` became a placeholder")
def self_is_a_placeholder(lesson):
    """``self`` is treated like any other parameter."""

    class Placeholders(BySignature):
        def create_args_for_root(self, root_fn, is_module, concrete_args=None):
            return super().create_args_for_root(root_fn, is_module=False)

    lesson.Placeholders = Placeholders


@wrong(fails="test_self_is_known_by_its_place", says="the parameter called `self` was left out")
def self_is_known_by_its_name(lesson):
    """``self`` is a habit, no keyword."""

    class Placeholders(BySignature):
        def create_args_for_root(self, root_fn, is_module, concrete_args=None):
            parameters = self.parameters_of(root_fn)
            named = [self.placeholder(p) for p in parameters if p.name != "self"]
            args = [self.root, *named] if is_module else named
            return self.by_position(root_fn, len(args)), args

    lesson.Placeholders = Placeholders


@wrong(fails="test_forward_without_self_is_refused", says="`forward(*args)` was taken")
def forward_without_self_is_not_noticed(lesson):
    """The first parameter is dropped unseen, be it ``*args``."""

    class Placeholders(BySignature):
        def check_self(self, parameters):
            pass

    lesson.Placeholders = Placeholders


@wrong(
    fails="test_variadic_parameters_are_one_placeholder_each",
    says="`*args` or `**kwargs` were left out",
)
def variadic_parameters_are_dropped(lesson):
    """A function without a fixed number of arguments is given none."""

    class Placeholders(BySignature):
        def parameters_of(self, root_fn):
            return [p for p in super().parameters_of(root_fn) if p.kind not in STARS]

    lesson.Placeholders = Placeholders


@wrong(
    fails="test_a_default_is_the_very_object_of_the_signature",
    says="the default in the placeholder is a copy",
)
def defaults_are_copied(lesson):
    """Copies the defaults, so that they can't be changed."""

    class Placeholders(BySignature):
        def default(self, parameter):
            return copy.deepcopy(super().default(parameter))

    lesson.Placeholders = Placeholders


def annotated(call: Callable) -> Callable:
    def wrapper(*args):
        return call(*args)

    wrapper.__annotations__ = {"return": Any}
    return wrapper


@wrong(
    fails="test_a_decorated_function_is_seen_through", says="the wrapper's own `*args, **kwargs`"
)
def the_wrapper_is_read(lesson):
    """The signature of the outermost function, which takes anything."""

    class Placeholders(BySignature):
        def parameters_of(self, root_fn):
            signature = inspect.signature(root_fn, follow_wrapped=False)
            return [*signature.parameters.values()]

    lesson.Placeholders = Placeholders


# --- wrong: what a placeholder says -------------------------------------------------------------


@wrong(fails="test_the_arguments_are_the_proxies", says="nodes were returned")
def the_arguments_are_nodes(lesson):
    """The function is called with nodes, which record nothing."""

    class Placeholders(BySignature):
        def placeholder(self, parameter):
            return super().placeholder(parameter).node

    lesson.Placeholders = Placeholders


@wrong(fails="test_a_default_is_kept", says="taken for no default (`if default:`)")
def a_false_default_is_no_default(lesson):
    """``if default`` is false for 0 and None too."""

    class Placeholders(BySignature):
        def default(self, parameter):
            has_one = parameter.default is not Parameter.empty and parameter.default
            return (parameter.default,) if has_one else ()

    lesson.Placeholders = Placeholders


@wrong(
    fails="test_an_annotation_becomes_the_type_of_the_node",
    says="the annotation wasn't handed to `create_proxy`",
)
def annotations_are_dropped(lesson):
    """A placeholder without a type."""

    class Placeholders(BySignature):
        def type_of(self, parameter):
            return None

    lesson.Placeholders = Placeholders


# --- wrong: how the function is called ----------------------------------------------------------


@wrong(
    fails="test_inside_the_function_variadic_parameters_are_proxies",
    says="still packs its arguments into a tuple or a dict",
)
def variadic_parameters_are_packed(lesson):
    """The function itself is returned: its ``*rest`` takes all that is left into a tuple."""

    class Placeholders(BySignature):
        def by_position(self, root_fn, count):
            return root_fn

    lesson.Placeholders = Placeholders


@wrong(
    fails="test_a_decorated_function_still_runs_its_decorator",
    says="the inner function is called instead of the decorated one",
)
def the_decorator_is_skipped(lesson):
    """The function that tells the names is the one that is called."""

    class Placeholders(BySignature):
        def by_position(self, root_fn, count):
            return super().by_position(inspect.unwrap(root_fn), count)

    lesson.Placeholders = Placeholders


class CopiesTheInnermost(BySignature):
    """Makes the copy that takes all by position from the function that tells the names."""

    def by_position(self, root_fn, count):
        inner = inspect.unwrap(root_fn)
        return super().by_position(inner, count) if takes_more(inner.__code__) else root_fn


@wrong(
    fails="test_a_decorator_survives_keyword_only_parameters",
    says="the decorator is lost",
)
def keyword_only_parameters_lose_the_decorator(lesson):
    """The graph computes something else, and nothing says so."""
    lesson.Placeholders = CopiesTheInnermost


@wrong(
    fails="test_a_decorated_variadic_function_is_refused",
    says="what the decorator does is lost without a word",
)
def variadic_parameters_lose_the_decorator(lesson):
    """What cannot pass through a decorator is passed by it."""
    lesson.Placeholders = CopiesTheInnermost


@wrong(
    fails="test_a_concrete_argument_decides_the_branch",
    says="`concrete_args` wasn't used for this parameter",
)
def concrete_arguments_are_ignored(lesson):
    """Every parameter is a proxy, known or not."""
    lesson.Placeholders = BySignature


class ByCode(BySignature):
    """Makes new code for ``*args`` and ``**kwargs``, in a way that the wrong answers choose."""

    def changed(self, code, count: int):
        raise NotImplementedError

    def by_position(self, root_fn, count):
        if not takes_more(root_fn.__code__):
            return root_fn
        code = self.changed(root_fn.__code__, count)
        return FunctionType(code, root_fn.__globals__, None, None, root_fn.__closure__)


@wrong(fails="test_a_variadic_function_keeps_its_local_variables", says="has lost its other flags")
def all_flags_are_taken_out(lesson):
    """Without its flags the code is no longer that of a function."""

    class Placeholders(ByCode):
        def changed(self, code, count):
            return all_by_position(code, count).replace(co_flags=0)

    lesson.Placeholders = Placeholders


# --- wrong: concrete arguments, where the reference does the rest -------------------------------


# --- right --------------------------------------------------------------------------------------


@right(core_only=True)
def by_signature(lesson):
    """A class of small steps around ``inspect.signature``."""
    lesson.Placeholders = BySignature


def rebuilt(function: FunctionType, code) -> FunctionType:
    """A function of the same globals and closure with other code."""
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


@right(core_only=True)
def always_a_new_function(lesson):
    """Every function is rebuilt, also one that needs no change; a decorated one is called through
    a lambda."""

    class Placeholders(BySignature):
        def by_position(self, root_fn, count):
            if hasattr(root_fn, "__wrapped__"):
                return lambda *args: root_fn(*args)
            code = all_by_position(root_fn.__code__, count)
            rebuild = functools.partial(FunctionType, code, root_fn.__globals__)
            return functools.wraps(root_fn)(rebuild(closure=root_fn.__closure__))

    lesson.Placeholders = Placeholders


@right(core_only=True)
def the_copy_keeps_its_annotations(lesson):
    """What the copy returns is annotated like what the function returns; torch's copy isn't."""

    class Placeholders(BySignature):
        def by_position(self, root_fn, count):
            function = super().by_position(root_fn, count)
            function.__annotations__ = root_fn.__annotations__
            return function

    lesson.Placeholders = Placeholders


@right(core_only=True)
def keywords_through_a_wrapper(lesson):
    """Keyword-only parameters reach an unchanged function by their names; new code is made for
    variadic ones alone."""

    class Placeholders(BySignature):
        def by_position(self, root_fn, count):
            code = inspect.unwrap(root_fn).__code__
            if code.co_flags & VARIADIC:
                return super().by_position(root_fn, count)
            names = code.co_varnames[code.co_argcount : count]

            def by_name(*args):
                positional, keywords = args[: code.co_argcount], args[code.co_argcount :]
                return root_fn(*positional, **dict(zip(names, keywords, strict=True)))

            return by_name if names else root_fn

    lesson.Placeholders = Placeholders


@right
def containers_by_recursion(lesson):
    """A recursion into lists, tuples and dicts in place of ``tree_flatten``; keyword-only
    parameters by their names."""

    class Placeholders(lesson.Placeholders):
        def proxy_placeholder(self, parameter):
            name, concrete_args = parameter.target, self.concrete_args or {}
            if name not in concrete_args:
                return super().proxy_placeholder(parameter)
            numbers = itertools.count(1)

            def built(value):
                if isinstance(value, dict):
                    return {key: built(element) for key, element in value.items()}
                if isinstance(value, tuple) and hasattr(value, "_fields"):
                    return type(value)(*map(built, value))
                if isinstance(value, list | tuple):
                    return type(value)(map(built, value))
                target = f"{name}_{next(numbers)}"
                place = lesson.Input(target, parameter.default, None)
                proxy = lesson.leaf_placeholder(self, value, place)
                return lesson.specialized(proxy, value, name)

            return built(concrete_args[name])

    lesson.Placeholders = Placeholders
