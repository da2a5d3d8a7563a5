"""Answers to ``create_arg``."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.fx import Proxy

from tests.suite.answers import around, on, right, wrong


def read(tracer, path: str) -> torch.fx.Node:
    return tracer.create_node("get_attr", path, (), {})


def free_name(root: nn.Module) -> str:
    """Return the first name of a constant that the root doesn't have."""
    names = (f"_tensor_constant{number}" for number in itertools.count())
    return next(name for name in names if not hasattr(root, name))


def paths_below(root: nn.Module) -> dict[int, str]:
    """Return the first path of everything that a model holds, by identity."""
    paths: dict[int, str] = {}
    for path, value in (*root.named_parameters(), *root.named_buffers(), *root.named_modules()):
        paths.setdefault(id(value), path)
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            paths.setdefault(id(value), f"{path}.{name}".lstrip("."))
    return paths


@wrong("test_a_proxy_becomes_its_node", says="the proxy itself went into the graph")
def values_are_left_as_they_are(lesson):
    """Puts a proxy into the graph, which knows nodes only."""
    lesson.CreateArg.create_arg = lambda self, a: a


@wrong("test_a_named_tuple_is_built_by_a_node", says="treated as a plain tuple")
def a_named_tuple_is_a_tuple(lesson):
    """Asks ``isinstance(a, tuple)`` first, which is true of named tuples."""

    @around(lesson.CreateArg)
    def create_arg(original, self, a):
        return tuple(map(self.create_arg, a)) if isinstance(a, tuple) else original(self, a)


@wrong("test_a_plain_value_stays_itself", says="delegate to super()")
def the_rest_is_delegated_to_oneself(lesson):
    """Calls ``self.create_arg(a)`` with the same ``a``, and comes back to where it is."""
    lesson.CreateArg.create_arg = lambda self, a: (
        a.node if isinstance(a, Proxy) else self.create_arg(a)
    )


@wrong("test_what_generated_code_cannot_print_is_refused", says="generated code cannot print")
def unknown_values_pass(lesson):
    """Takes an unknown value for a plain one."""

    @around(lesson.CreateArg)
    def create_arg(original, self, a):
        try:
            return original(self, a)
        except NotImplementedError:
            return a


@wrong(
    "test_a_value_that_the_model_holds_is_read_from_there",
    says="the value itself was put into the graph",
)
def a_module_is_a_plain_value(lesson):
    """Puts the module itself into the graph, which generated code cannot print."""

    @around(lesson.CreateArg)
    def create_arg(original, self, a):
        return a if isinstance(a, nn.Module) else original(self, a)


@wrong("test_the_conversion_is_your_own", says="handed on to torch's own method: `super()`")
def the_question_is_handed_on(lesson):
    """Asks a second tracer, one of torch's, which has the same root."""

    @around(lesson.CreateArg)
    def create_arg(original, self, a):
        if not isinstance(a, torch.Tensor | nn.Module):
            return original(self, a)
        tracer = torch.fx.Tracer()
        tracer.root, tracer.graph = self.root, self.graph
        tracer.tensor_attrs = lesson.tensor_paths(self.root)
        return tracer.create_arg(a)


@wrong("test_every_use_has_a_node_of_its_own", says="a node was kept and handed out again")
def a_node_is_made_once(lesson):
    """Remembers the node of a parameter, and hands it out again."""

    @around(lesson.CreateArg)
    def create_arg(original, self, a):
        node = original(self, a)
        if not isinstance(a, nn.Parameter):
            return node
        nodes = vars(self).setdefault("nodes", {})
        return nodes.setdefault((self.graph, node.target), node)


@wrong(
    "test_another_root_has_its_own_paths", says="a path below one root was the answer for another"
)
def the_index_is_built_once_and_for_all(lesson):
    """Takes the first root that a tracer sees for its only one."""

    @around(lesson.CreateArg)
    def path_of_value(original, self, value):
        self._graph_of_paths = self.graph if hasattr(self, "_tensor_paths") else None
        return original(self, value)


@wrong(
    "test_a_parameter_that_was_replaced_or_lost_its_owner_is_refused",
    says="a path that leads to another parameter by now",
)
def the_index_never_forgets(lesson):
    """Hands a path out without a look at what it leads to now."""
    known = lesson.core.CreateArg.path_of_value

    @on(lesson.CreateArg)
    def path_of_value(self, value):
        found = (path for path, held in lesson.registered(self.root, value) if held is value)
        return known(self, value) or next(found, None)


@wrong("test_a_constant_is_not_part_of_the_state", says="saved and loaded with the model")
def a_constant_is_registered(lesson):
    """Makes a buffer, which is in every checkpoint from then on."""

    @around(lesson.CreateArg)
    def create_arg(original, self, a):
        if not isinstance(a, torch.Tensor) or id(a) in paths_below(self.root):
            return original(self, a)
        name = free_name(self.root)
        self.root.register_buffer(name, a)
        return read(self, name)


@wrong("test_a_foreign_parameter_is_refused", says="the model doesn't have became a constant")
def a_foreign_parameter_is_a_constant(lesson):
    """Takes every tensor that the model doesn't hold for a constant."""

    @around(lesson.CreateArg)
    def create_arg(original, self, a):
        if not isinstance(a, nn.Parameter) or self.path_of_value(a):
            return original(self, a)
        path = self.get_fresh_qualname("_tensor_constant")
        vars(self.root)[path] = a
        return read(self, path)


@wrong("test_an_attribute_is_found_without_being_read", says="a trace may add a node then")
def an_attribute_is_read_to_find_it(lesson):
    """Asks ``hasattr``, which reads the attribute through the method that a tracer replaces."""
    lesson.has_attribute = hasattr


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def an_index_for_each_value(lesson):
    """Reads the whole model for each value; what needs no model goes to ``super()``."""

    @on(lesson)
    class CreateArg:
        def create_arg(self, a):
            if isinstance(a, tuple) and hasattr(a, "_fields"):
                args = tuple(self.create_arg(element) for element in a)
                return self.create_node("call_function", type(a), args, {})
            if not isinstance(a, torch.Tensor | nn.Module):
                return super().create_arg(a)
            path = paths_below(self.root).get(id(a))
            if path is None and isinstance(a, nn.Module | nn.Parameter):
                raise NameError(f"{type(a).__name__} is not part of {type(self.root).__name__}")
            if path is None:
                path = free_name(self.root)
                setattr(self.root, path, a)
            return read(self, path)


@right(core_only=True)
def each_name_is_counted_from_zero(lesson):
    """Doesn't remember how far it has counted."""

    @on(lesson.CreateArg)
    def get_fresh_qualname(self, prefix):
        names = (f"{prefix}{number}" for number in itertools.count())
        return next(name for name in names if not lesson.has_attribute(self.root, name))


@right(core_only=True)
def a_scan_for_each_value(lesson):
    """Walks the whole model in each lookup."""

    @on(lesson.CreateArg)
    def path_of_value(self, value):
        root = self.root
        for held in (root.named_parameters, root.named_buffers, root.named_modules):
            for path, each in held(remove_duplicate=False):
                if each is value:
                    return path
        for path, module in root.named_modules():
            for name, each in vars(module).items():
                if each is value:
                    return f"{path}.{name}".lstrip(".")
        return None

    lesson.CreateArg._tensor_paths = {}
