"""Answers to ``interpreter``."""

from __future__ import annotations

import copy
import functools
import time

import torch

from tests.suite.answers import around, on, right, wrong

# --- wrong: one node ------------------------------------------------------------------------------


@wrong("test_nodes_become_values_wherever_they_are", says="a node stayed in the argument")
def nodes_in_containers_are_not_found(lesson):
    """Looks at the arguments themselves only."""

    @on(lesson.Interpreter)
    def fetch_args_kwargs_from_env(self, n):
        def value_of(arg):
            return self.env[arg] if isinstance(arg, torch.fx.Node) else arg

        return tuple(map(value_of, n.args)), {k: value_of(arg) for k, arg in n.kwargs.items()}


@wrong("test_a_function_is_called", says="the keyword arguments were dropped")
def keyword_arguments_are_dropped(lesson):
    """Calls functions with the positional arguments alone."""
    lesson.Interpreter.call_function = lambda self, target, args, kwargs: target(*args)


@wrong(
    "test_an_argument_that_is_missing_and_has_no_default_is_named",
    says="RuntimeError that names key",
)
def a_missing_argument_ends_the_iteration(lesson):
    """Leaves it to ``next`` to say that there is no argument."""

    @on(lesson.Interpreter)
    def placeholder(self, target, args, kwargs):
        return next(self.args_iter, *args)


@wrong("test_a_placeholder_is_the_next_argument_or_its_default", says="the default won")
def the_default_comes_first(lesson):
    """Takes the default of a placeholder wherever there is one."""
    placeholder = lesson.Interpreter.placeholder
    lesson.Interpreter.placeholder = lambda self, target, args, kwargs: (
        args[0] if args else placeholder(self, target, args, kwargs)
    )


@wrong("test_the_output_is_its_argument", says="all arguments were returned")
def the_output_is_the_tuple_of_arguments(lesson):
    """Returns ``args`` of the output, a tuple of one."""
    lesson.Interpreter.output = lambda self, target, args, kwargs: args


@wrong("test_a_node_is_run_by_the_method_of_its_opcode", says="was called: use `self`")
def opcodes_are_told_apart_inside_run_node(lesson):
    """Does the work in ``run_node``: a subclass that overrides a method isn't asked."""

    @on(lesson.Interpreter)
    def run_node(self, n):
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(lesson.Interpreter, n.op)(self, n.target, args, kwargs)


# --- wrong: the graph -----------------------------------------------------------------------------


@wrong("test_a_value_is_kept_until_its_last_use", says="x was freed before its last use")
def inputs_are_freed_at_once(lesson):
    """Frees the inputs of each node, whether or not a later node takes them."""
    lesson.last_uses = lambda graph: {node: node.all_input_nodes for node in graph.nodes}


@wrong("test_a_value_is_freed_after_its_last_use", says="is freed after tanh")
def nothing_is_freed(lesson):
    """Keeps the values."""
    lesson.last_uses = lambda graph: {}


@wrong("test_the_run_ends_at_the_output", says="a node after the output was run")
def the_run_goes_on_after_the_output(lesson):
    """Runs all nodes of the graph, and then looks for the value of the output."""

    @on(lesson.Interpreter)
    def run_nodes(self):
        for node in self.graph.nodes:
            self.execute(node)
        return self.env[self.graph.output_node()]


@wrong("test_an_error_keeps_its_type_and_names_its_node", says="the same error that")
def an_error_becomes_another_one(lesson):
    """Raises an error of its own, which names the node; the caller can't catch the first one."""

    @around(lesson.Interpreter)
    def execute(original, self, n):
        try:
            original(self, n)
        except Exception as error:
            raise RuntimeError(f"{n.format_node()} failed: {error}") from error


# --- wrong: Transformer, ShapeProp, Profiler ------------------------------------------------------


@wrong("test_a_subclass_rewrites_the_graph", says="the old graph was changed")
def a_transformer_records_into_the_old_graph(lesson):
    """Appends to the graph that it reads."""

    @on(lesson.Transformer)
    def transform(self):
        self.tracer.graph, self.graph = self.graph, copy.deepcopy(self.graph)
        self.last_uses = {}
        self.tracer.graph.output(self.tracer.create_arg(self.run_nodes()))
        return torch.fx.GraphModule(self.module, self.graph)


@wrong("test_the_time_of_a_node_is_its_own", says="the time runs on")
def the_time_is_that_since_the_start(lesson):
    """Looks at one clock for the whole run."""

    @around(lesson.Profiler)
    def run_node(original, self, n):
        if n.op == "placeholder":
            self.start = time.perf_counter()
        value = original(self, n)
        n.meta["seconds"] = time.perf_counter() - self.start
        return value


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def opcodes_in_a_table(lesson):
    """Has a dict from opcodes to methods."""

    @on(lesson.Interpreter)
    def run_node(self, n):
        methods = {
            "placeholder": self.placeholder,
            "get_attr": self.get_attr,
            "call_function": self.call_function,
            "call_method": self.call_method,
            "call_module": self.call_module,
            "output": self.output,
        }
        return methods[n.op](n.target, *self.fetch_args_kwargs_from_env(n))


@right(core_only=True)
def a_loop_without_execute(lesson):
    """Does everything in one loop, and puts the node into the message."""

    @on(lesson.Interpreter)
    def run_nodes(self):
        value = None
        for node in self.graph.nodes:
            try:
                value = self.env[node] = self.run_node(node)
            except Exception as error:
                error.args = (f"{error}, in {node.format_node()}",)
                raise
            for dead in self.last_uses.get(node, ()):
                if dead is not node:
                    self.env.pop(dead)
            if node.op == "output":
                break
        return value


@right(core_only=True)
def a_transformer_that_writes_nodes_itself(lesson):
    """Lets the tracer convert arguments, create nodes, and make their proxies, one by one."""

    def record(self, op, target, args, kwargs):
        plain = self.tracer.create_arg(args), self.tracer.create_arg(kwargs)
        return self.tracer.proxy(self.tracer.create_node(op, target, *plain))

    for op in ("placeholder", "get_attr", "call_function", "call_module"):
        setattr(lesson.Transformer, op, functools.partialmethod(record, op))
