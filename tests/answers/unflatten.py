"""Answers to ``unflatten``: mistakes that the suite must catch, and other ways to be right."""

from __future__ import annotations

import copy
import dataclasses

from torch import nn
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from tests.suite.answers import around, on, right, wrong

# --- the outline


@wrong("test_two_calls_of_a_module_stay_separate", says="were taken for one")
def loses_the_number_of_the_call(lesson):
    """Groups by the path alone."""
    levels = lesson._levels
    lesson._levels = lambda entries: tuple(each._replace(call=0) for each in levels(entries))


@wrong(
    "test_a_node_belongs_to_the_innermost_call_that_it_was_recorded_in",
    says="put into the call of an outer module",
)
def looks_at_the_outermost_module_only(lesson):
    """Groups once, not level by level."""
    levels = lesson._levels
    lesson._levels = lambda entries: levels(entries)[:1]


# --- inputs and outputs


@wrong("test_a_module_reads_all_state_below_it", says="a value that a child owns was passed in")
def reads_only_what_is_registered_on_the_module_itself(lesson):
    """Leaves the parameters of children to the children."""

    @around(lesson)
    def is_below(original, path, ancestor):
        rest = path.removeprefix(f"{ancestor}.")
        return original(path, ancestor) and (not ancestor or "." not in rest)


@wrong("test_a_name_that_only_begins_like_the_path_isnt_below_it", says="path and a dot")
def reads_a_parameter_of_a_module_with_a_similar_name(lesson):
    """Compares names without the dot."""
    lesson.is_below = lambda path, ancestor: bool(path) and path.startswith(ancestor)


# --- the graph of a call


@wrong("test_several_results_are_returned_as_a_list", says="the caller picks its items")
def returns_the_first_of_several(lesson):
    """Returns one value, whatever the number of outputs."""

    @on(lesson.CallGraph)
    def add_output(self):
        self.graph.output([self.value(value) for value in self.call.outputs[:1]])


# --- state


@wrong("test_two_names_of_one_tensor_hold_one_copy", says="a separate copy")
def copies_every_name(lesson):
    """Clones the tensor of each name separately."""
    lesson.restore_state = lambda program: lesson.as_registered(
        program, {name: copy.deepcopy(each) for name, each in lesson.state_values(program).items()}
    )


@wrong("test_the_copies_share_no_memory_with_the_program", says="training the tree would change it")
def registers_the_programs_own_tensors(lesson):
    """Doesn't copy."""
    lesson.restore_state = lambda program: lesson.as_registered(
        program, lesson.state_values(program)
    )


@wrong("test_an_attribute_is_registered_as_its_kind", says="register_buffer with")
def saves_every_buffer(lesson):
    """Registers a buffer without looking at ``persistent``."""
    register = lesson.Attribute.register
    lesson.Attribute.register = lambda self, module, name: register(
        dataclasses.replace(self, persistent=True), module, name
    )


# --- modules


@wrong("test_a_module_runs_its_graph", says="to placeholders by name, in any order")
def appends_the_keywords(lesson):
    """Puts the values of the keywords after the positional arguments."""
    forward = lesson.InterpreterModule.forward
    lesson.InterpreterModule.forward = lambda self, *args, **kwargs: forward(
        self, *args, *kwargs.values()
    )


@wrong("test_the_root_flattens_its_arguments", says="order of `in_spec` before you flatten")
def flattens_keywords_in_the_order_of_the_call(lesson):
    """Takes keywords in the order of the call."""

    @on(lesson.UnflattenedModule)
    def input_leaves(self, args, kwargs):
        return pytree.tree_flatten_with_path((args, kwargs))[0]


@wrong(
    "test_it_runs_like_the_eager_model", says="every path of the module call graph, in its order"
)
def registers_in_the_order_of_the_calls(lesson):
    """Registers a module when it is first called."""
    attach = lesson.attach
    lesson.attach = lambda root, state, paths: attach(root, state, [])


# --- sharing


@wrong("test_equal_graphs_have_equal_keys", says="replace nodes with numbers")
def compares_by_name(lesson):
    """Takes the text of a graph for what it does."""
    lesson.graph_key = str


# --- mutations


@wrong("test_a_functional_program_does_the_same", says="the program's graph was edited")
def edits_the_programs_graph(lesson):
    """Doesn't copy the graph before it prepares it."""
    lesson._copied = lambda graph: graph


# --- right


@right(core_only=True)
def copies_by_identity(lesson):
    """Keeps a table from the ``id`` of each original to its copy."""

    @on(lesson)
    def restore_state(program):
        copies = {}
        for value in lesson.state_values(program).values():
            if id(value) not in copies:
                data = value.detach().clone()
                if isinstance(value, nn.Parameter):
                    data = nn.Parameter(data)
                copies[id(value)] = data.requires_grad_(value.requires_grad)
        values = lesson.state_values(program)
        return lesson.as_registered(
            program, {name: copies[id(value)] for name, value in values.items()}
        )


def do_the_same(one, other) -> bool:
    """Compares the graphs of two calls node for node."""
    left, right = one.module.graph, other.module.graph
    ours, theirs = {}, {}
    for number, (mine, its) in enumerate(zip(left.nodes, right.nodes)):
        ours[mine] = theirs[its] = f"result {number}"
        named = mine.op not in ("placeholder", "output")
        if mine.op != its.op or (named and mine.target != its.target):
            return False
        if arguments(mine, ours) != arguments(its, theirs):
            return False
    return len(left.nodes) == len(right.nodes)


def arguments(node, results) -> str:
    return repr(map_arg((node.args, node.kwargs), results.__getitem__))


def join(root, call, earliest) -> None:
    """Lets the earlier module of two run both calls."""
    parent, _, name = call.name.rpartition(".")
    delattr(root.module.get_submodule(parent), name)
    call.module = earliest.module
    call.redirect(earliest.index)


@right
def shares_after_comparing_pairs(lesson):
    """Compares each body with those before it."""

    @on(lesson)
    def share_equal_bodies(root):
        calls = list(root.walk())
        for position, call in enumerate(calls):
            for earlier in calls[:position]:
                another = earlier.path == call.path and earlier.module is not call.module
                if another and do_the_same(call, earlier):
                    join(root, call, earlier)
                    break


@right
def runs_generated_code(lesson):
    """Runs the code of a body's graph, compiling or not."""

    @on(lesson.InterpreterModule)
    def forward(self, *args, **kwargs):
        named = [kwargs[name] for name in self.arg_names[len(args) :]]
        self._generate()
        return type(self.graph_module).forward(self._owner, *args, *named)
