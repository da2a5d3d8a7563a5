"""Answers to ``create_arg``.

A wrong answer makes one mistake and leaves the rest to the reference.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch._library.fake_class_registry import FakeScriptObject
from torch._library.opaque_object import is_opaque_reference_type as is_opaque_by_reference
from torch.fx import Proxy
from torch.fx._symbolic_trace import _proxyable_classes
from torch.utils._pytree import TreeSpec

from tests.suite.answers import right, wrong


def constant_name(root: nn.Module) -> str:
    """The first ``_tensor_constantN`` that the root doesn't have."""
    names = (f"_tensor_constant{number}" for number in itertools.count())
    return next(name for name in names if not hasattr(root, name))


def read(tracer, path: str) -> torch.fx.Node:
    return tracer.create_node("get_attr", path, (), {})


def stored(tracer, a: object) -> str:
    """The name of a new attribute of the root that holds ``a``."""
    name = constant_name(tracer.root)
    setattr(tracer.root, name, a)
    return name


def is_constant(a: object) -> bool:
    """A tensor that isn't a parameter."""
    return isinstance(a, torch.Tensor) and not isinstance(a, nn.Parameter)


def without_an_index(tracer, a: object) -> str | None:
    """The first path below the root that leads to ``a``."""
    root = tracer.root
    for held in (root.named_parameters, root.named_buffers, root.named_modules):
        for path, value in held(remove_duplicate=False):
            if value is a:
                return path
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if value is a:
                return f"{path}.{name}".lstrip(".")
    return None


def in_a_dict(tracer) -> dict:
    """A dict that the tracer keeps, for an answer that remembers something."""
    return vars(tracer).setdefault("remembered", {})


# --- wrong: proxies and containers --------------------------------------------------------------


@wrong(fails="test_a_proxy_becomes_its_node", says="the proxy itself went into the graph")
def values_are_left_as_they_are(lesson):
    """A proxy is put into the graph, which knows nodes only."""

    class CreateArg:
        def create_arg(self, a):
            return a

    lesson.CreateArg = CreateArg


@wrong(fails="test_a_named_tuple_is_built_by_a_node", says="treated as a plain tuple")
def a_named_tuple_is_a_tuple(lesson):
    """``isinstance(a, tuple)`` comes first and is true of named tuples."""

    class CreateArg(lesson.CreateArg):
        def create_arg(self, a):
            if isinstance(a, tuple):
                return tuple(self.create_arg(element) for element in a)
            return super().create_arg(a)

    lesson.CreateArg = CreateArg


@wrong(fails="test_a_dataclass_is_built_by_a_node", says="became a dict of its fields")
def a_dataclass_is_a_dict(lesson):
    """The class is lost: the graph builds a dict where the code had an object."""

    class CreateArg(lesson.CreateArg):
        def create_arg(self, a):
            if dataclasses.is_dataclass(a) and not isinstance(a, type):
                names = (field.name for field in dataclasses.fields(a))
                return {name: self.create_arg(getattr(a, name)) for name in names}
            return super().create_arg(a)

    lesson.CreateArg = CreateArg


@wrong(fails="test_a_plain_value_stays_itself", says="delegate to super()")
def the_rest_is_delegated_to_oneself(lesson):
    """``self.create_arg(a)`` with the same ``a`` comes back to where it is."""

    class CreateArg:
        def create_arg(self, a):
            if isinstance(a, Proxy):
                return a.node
            if isinstance(a, nn.Module):
                return read(self, without_an_index(self, a))
            return self.create_arg(a)

    lesson.CreateArg = CreateArg


@wrong(fails="test_an_unknown_type_is_refused_by_its_name", says="generated code cannot print")
def unknown_values_pass(lesson):
    """Whatever isn't known is taken for a plain value."""

    class CreateArg(lesson.CreateArg):
        def create_arg(self, a):
            try:
                return super().create_arg(a)
            except NotImplementedError:
                return a

    lesson.CreateArg = CreateArg


# --- wrong: what the model holds ----------------------------------------------------------------


@wrong(fails="test_a_module_is_read_from_the_model", says="the value itself was put into the graph")
def a_module_is_a_plain_value(lesson):
    """The graph holds the module itself, which generated code cannot print."""

    class CreateArg(lesson.CreateArg):
        def create_arg(self, a):
            return a if isinstance(a, nn.Module) else super().create_arg(a)

    lesson.CreateArg = CreateArg


@wrong(fails="test_the_conversion_is_your_own", says="handed on to torch's own method: `super()`")
def the_question_is_handed_on(lesson):
    """A right answer, and torch's: a second tracer is asked, which has the same root."""

    class CreateArg:
        def create_arg(self, a):
            if not isinstance(a, torch.Tensor | nn.Module):
                return super().create_arg(a)
            tracer = torch.fx.Tracer()
            tracer.root, tracer.graph, tracer.tensor_attrs = self.root, self.graph, {}
            return tracer.create_arg(a)

    lesson.CreateArg = CreateArg


@wrong(fails="test_every_use_has_a_node_of_its_own", says="a node was kept and handed out again")
def a_node_is_made_once(lesson):
    """A value that was fetched once is never fetched again."""

    class CreateArg(lesson.CreateArg):
        def create_arg(self, a):
            if not isinstance(a, nn.Parameter):
                return super().create_arg(a)
            node = super().create_arg(a)
            return in_a_dict(self).setdefault((self.graph, node.target), node)

    lesson.CreateArg = CreateArg


# --- wrong: an index that goes stale ------------------------------------------------------------


def with_index(lesson, lookup: Callable[[Any, nn.Parameter], str | None]) -> type:
    """An answer that finds parameters in an index of its own."""

    class CreateArg(lesson.CreateArg):
        indexed = None

        def create_arg(self, a):
            if not isinstance(a, nn.Parameter):
                return super().create_arg(a)
            path = lookup(self, a)
            if path is None:
                raise NameError("no such parameter")
            return read(self, path)

        def build(self):
            self.indexed = self.root
            self.index = {id(value): path for path, value in self.root.named_parameters()}

    return CreateArg


@wrong(
    fails="test_another_root_has_its_own_paths",
    says="a path below one root was the answer for another",
)
def the_index_is_built_once_and_for_all(lesson):
    """The first root that a tracer sees is taken for its only one."""

    def lookup(tracer, parameter):
        if tracer.indexed is None:
            tracer.build()
        return tracer.index.get(id(parameter))

    lesson.CreateArg = with_index(lesson, lookup)


@wrong(
    fails="test_a_parameter_registered_later_is_found",
    says="registered after the first lookup is not known",
)
def the_index_never_learns(lesson):
    """A parameter that isn't in the index is refused without another look."""

    def lookup(tracer, parameter):
        if tracer.indexed is not tracer.root:
            tracer.build()
        return tracer.index.get(id(parameter))

    lesson.CreateArg = with_index(lesson, lookup)


@wrong(
    fails="test_a_parameter_that_was_replaced_is_refused",
    says="a path that leads to another parameter by now",
)
def the_index_never_forgets(lesson):
    """A path is handed out without a look at what it leads to now."""

    def lookup(tracer, parameter):
        if tracer.indexed is not tracer.root or id(parameter) not in tracer.index:
            tracer.build()
        return tracer.index.get(id(parameter))

    lesson.CreateArg = with_index(lesson, lookup)


# --- wrong: constants ---------------------------------------------------------------------------


@wrong(fails="test_a_constant_is_kept_on_the_model", says="a copy was stored")
def a_constant_is_stored_as_a_copy(lesson):
    """The graph reads a copy, which no longer follows the tensor it was made of."""

    class CreateArg(lesson.CreateArg):
        def create_arg(self, a):
            if not is_constant(a) or without_an_index(self, a):
                return super().create_arg(a)
            name = constant_name(self.root)
            setattr(self.root, name, a.clone())
            return read(self, name)

    lesson.CreateArg = CreateArg


@wrong(fails="test_an_unusual_tensor_is_a_constant_too", says="a plain value was put")
def a_tensor_of_one_number_is_a_number(lesson):
    """``item()`` puts a copy of the number into the graph, which no longer follows the tensor."""

    class CreateArg(lesson.CreateArg):
        def create_arg(self, a):
            return a.item() if is_constant(a) and not a.dim() else super().create_arg(a)

    lesson.CreateArg = CreateArg


@wrong(fails="test_a_constant_is_no_part_of_the_state", says="saved and loaded with the model")
def a_constant_is_registered(lesson):
    """A buffer is easily found again, and it is in every checkpoint from then on."""

    class CreateArg(lesson.CreateArg):
        def create_arg(self, a):
            if not is_constant(a) or without_an_index(self, a):
                return super().create_arg(a)
            name = constant_name(self.root)
            self.root.register_buffer(name, a)
            return read(self, name)

    lesson.CreateArg = CreateArg


@wrong(
    fails="test_the_search_for_a_free_name_is_not_recorded",
    says="asking the model for an attribute was recorded",
)
def a_free_name_is_found_with_hasattr(lesson):
    """While a trace runs, ``hasattr`` of a parameter makes a node that reads it."""

    class CreateArg(lesson.CreateArg):
        def get_fresh_qualname(self, prefix):
            names = (f"{prefix}{number}" for number in itertools.count())
            return next(name for name in names if not hasattr(self.root, name))

    lesson.CreateArg = CreateArg


# --- right --------------------------------------------------------------------------------------


@right(core_only=True)
def scans_and_super(lesson):
    """Every lookup walks the whole model; values that need no model go to ``super()``."""

    class CreateArg:
        def create_arg(self, a):
            if isinstance(a, tuple) and hasattr(a, "_fields"):
                args = tuple(self.create_arg(element) for element in a)
                return self.create_node("call_function", type(a), args, {})
            if not isinstance(a, torch.Tensor | nn.Module):
                return super().create_arg(a)
            path = without_an_index(self, a)
            if path is None and isinstance(a, nn.Module):
                return super().create_arg(a)
            if path is None and isinstance(a, nn.Parameter):
                raise NameError("the model doesn't have this parameter")
            return read(self, path or stored(self, a))

    lesson.CreateArg = CreateArg


def argument_of_a_tuple(tracer, a: tuple) -> Any:
    elements = [tracer.create_arg(element) for element in a]
    if not hasattr(a, "_fields"):
        return type(a)(elements)
    return tracer.create_node("call_function", type(a), tuple(elements), {})


def argument_of_a_part(tracer, a: nn.Module | torch.Tensor) -> Any:
    path = without_an_index(tracer, a)
    if path is None:
        raise NameError(f"{type(a).__name__} is not part of {type(tracer.root).__name__}")
    return read(tracer, path)


def argument_of_a_tensor(tracer, a: torch.Tensor) -> Any:
    if without_an_index(tracer, a) is None:
        stored(tracer, a)
    return argument_of_a_part(tracer, a)


RULES = [
    (Proxy, lambda tracer, a: a.node),
    (tuple, argument_of_a_tuple),
    (list, lambda tracer, a: [tracer.create_arg(element) for element in a]),
    (nn.Parameter | nn.Module, argument_of_a_part),
    (torch.Tensor, argument_of_a_tensor),
]


@right(core_only=True)
def a_table_of_rules(lesson):
    """A list of pairs, type and what to do with it; the first that fits is applied."""

    class CreateArg:
        def create_arg(self, a):
            for kind, rule in RULES:
                if isinstance(a, kind):
                    return rule(self, a)
            return super().create_arg(a)

    lesson.CreateArg = CreateArg


class Dispatching:
    """Has a method for each type of value."""

    @functools.singledispatchmethod
    def create_arg(self, a):
        return super().create_arg(a)

    @create_arg.register
    def _(self, a: tuple):
        return argument_of_a_tuple(self, a)

    @create_arg.register(nn.Module)
    @create_arg.register(nn.Parameter)
    def _(self, a):
        return argument_of_a_part(self, a)

    @create_arg.register
    def _(self, a: torch.Tensor):
        return argument_of_a_tensor(self, a)


@right(core_only=True)
def dispatch_on_the_type(lesson):
    """``functools.singledispatchmethod`` picks the method by the type of the value."""
    lesson.CreateArg = Dispatching


def paths_below(root: nn.Module) -> dict[int, str]:
    """What a model holds, by identity, with the first path of each."""
    held = [*root.named_parameters(), *root.named_buffers(), *root.named_modules()]
    paths = {}
    for path, value in held:
        paths.setdefault(id(value), path)
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            paths.setdefault(id(value), f"{path}.{name}" if path else name)
    return paths


@right(core_only=True)
def one_index_of_all_that_a_model_holds(lesson):
    """A dict by identity of parameters, buffers, modules and attributes, made for each tensor."""

    class CreateArg:
        def create_arg(self, a):
            match a:
                case Proxy():
                    return a.node
                case tuple() if hasattr(a, "_fields"):
                    args = tuple(map(self.create_arg, a))
                    return self.create_node("call_function", type(a), args, {})
                case nn.Module() | torch.Tensor():
                    return self.get_attr(a, paths_below(self.root).get(id(a)))
            return super().create_arg(a)

        def get_attr(self, a, path):
            if path is None and not is_constant(a):
                raise NameError(f"the model doesn't have this {type(a).__name__}")
            if path is None:
                path = stored(self, a)
            return self.create_node("get_attr", path, (), {})

    lesson.CreateArg = CreateArg


TABLES = ("_parameters", "_buffers", "_modules", "__dict__")
PREFIXES = {
    torch.Tensor: "_tensor_constant",
    TreeSpec: "_tree_spec_constant",
    torch.ScriptObject: "_torchbind_obj",
    FakeScriptObject: "_torchbind_obj",
    object: "_opaque_obj",
}


def prefix_of(a: object) -> str:
    """How the name of a constant begins; empty for what is none."""
    prefix = next(prefix for kind, prefix in PREFIXES.items() if isinstance(a, kind))
    return prefix if prefix != PREFIXES[object] or is_opaque_by_reference(type(a)) else ""


def held_at(root: nn.Module, path: str) -> Any:
    """What is at a path right now, read from the tables: ``getattr`` is patched in a trace."""
    value: Any = root
    for name in path.split(".") if path else ():
        tables = [getattr(value, table, {}) for table in TABLES]
        value = next((table[name] for table in tables if name in table), None)
    return value


def below(module: nn.Module, path: str = "", above: tuple = ()) -> Iterator[tuple[str, nn.Module]]:
    """The modules on every path that doesn't come back to where it has been."""
    yield path, module
    first_names = {id(child): name for name, child in reversed(module._modules.items())}
    for name, child in module._modules.items():
        is_new = child is not None and all(child is not each for each in (*above, module))
        if is_new and first_names[id(child)] == name:
            yield from below(child, f"{path}.{name}".lstrip("."), (*above, module))


class TwoDicts:
    """Has a dict of what is registered and one of constants; what they say is looked at again."""

    listed: tuple = (None, None)

    def create_arg(self, a):
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return argument_of_a_tuple(self, a)
        if type(a) in _proxyable_classes:
            return read(self, self.stored(a, f"_{type(a).__name__}_constant_"))
        if isinstance(a, nn.Parameter | nn.Module):
            return read(self, self.path_of_a_part(a))
        prefix = prefix_of(a)
        return read(self, self.path_of_a_constant(a, prefix)) if prefix else super().create_arg(a)

    def path_of_a_part(self, a):
        path = self.registered_path(a)
        if path is None:
            what = f"{type(a).__name__} {tuple(getattr(a, 'shape', ()))}"
            raise NameError(f"the {type(self.root).__name__} doesn't hold this {what}")
        return path

    def registered_path(self, a):
        if self.listed[0] is not self.root or self.listed[1] is not self.graph:
            self.list_all()
        if id(a) not in self.registered or held_at(self.root, self.registered[id(a)]) is not a:
            self.list_registered()
        return self.registered.get(id(a))

    def list_all(self):
        self.listed, self.numbers = (self.root, self.graph), {}
        self.list_registered()
        self.constants = {
            value: f"{path}.{name}".lstrip(".")
            for path, module in below(self.root)
            for name, value in vars(module).items()
            if not isinstance(value, nn.Module) and prefix_of(value)
        }

    def list_registered(self):
        self.registered = {id(self.root): ""}
        for path, module in below(self.root):
            for table in TABLES[:3]:
                for name, value in getattr(module, table).items():
                    self.registered.setdefault(id(value), f"{path}.{name}".lstrip("."))

    def path_of_a_constant(self, a, prefix):
        path = self.registered_path(a) or self.constants.get(a)
        held = held_at(self.root, path) if path else None
        if held is not a and (held is None or isinstance(a, torch.Tensor) or held != a):
            path = self.constants[a] = self.stored(a, prefix)
        return path

    def stored(self, a, prefix):
        self.registered_path(a)
        number = self.numbers.get(prefix, 0)
        while held_at(self.root, f"{prefix}{number}") is not None or hasattr(
            type(self.root), f"{prefix}{number}"
        ):
            number += 1
        self.numbers[prefix] = number
        setattr(self.root, f"{prefix}{number}", a)
        return f"{prefix}{number}"


@right
def two_dicts(lesson):
    """One dict by identity of what is registered, one of constants; every path is followed."""
    lesson.CreateArg = TwoDicts
