"""Answers to ``unflatten``: mistakes that the suite must catch, and other ways to be right."""

from __future__ import annotations

import copy
from itertools import groupby

from torch.utils import _pytree as pytree

from tests.suite.answers import around, on, right, wrong

# --- which call?


@wrong("test_two_calls_of_a_module_stay_separate", says="were taken for one")
def loses_the_number_of_the_call(lesson):
    """Groups by the path alone."""

    @around(lesson)
    def stacks_of(original, graph):
        return {
            node: tuple(level._replace(call=0) for level in stack)
            for node, stack in original(graph).items()
        }


@wrong(
    "test_the_nodes_of_a_call_are_those_that_were_recorded_in_it",
    says="the nodes of a callee were left out",
)
def groups_by_the_whole_stack(lesson):
    """Leaves the nodes of callees out of a call."""

    @on(lesson.Outliner)
    def calls_at(self, depth):
        nodes = (node for node in self.graph.nodes if node in self.stacks)
        return [
            lesson.ModuleCall(stack[-1].path, list(group), level=stack[-1])
            for stack, group in groupby(nodes, self.stacks.__getitem__)
            if len(stack) == depth + 1
        ]


@wrong("test_a_call_that_is_interrupted_is_two_calls", says="the halves were joined")
def joins_the_halves_of_an_interrupted_call(lesson):
    """Collects a call's nodes by name, whatever is between them."""

    @on(lesson.Outliner)
    def calls_at(self, depth):
        calls = {}
        for node in self.graph.nodes:
            stack = self.stacks.get(node, ())[: depth + 1]
            if len(stack) > depth:
                call = lesson.ModuleCall(stack[-1].path, level=stack[-1])
                calls.setdefault(stack, call).nodes.append(node)
        return list(calls.values())


# --- borders and state


@wrong(
    "test_several_outputs_are_in_the_order_in_which_they_were_made",
    says="no other node uses is an output",
)
def returns_every_value(lesson):
    """Takes each value that a call computes for an output."""

    @around(lesson)
    def find_borders(original, call):
        original(call)
        call.outputs = dict.fromkeys(call.nodes)


@wrong("test_a_module_reads_all_state_below_it", says="a value that a child owns was passed in")
def reads_only_what_is_registered_on_the_module_itself(lesson):
    """Leaves the parameters of children to the children."""

    @around(lesson)
    def is_below(original, path, ancestor):
        rest = path.removeprefix(f"{ancestor}.")
        return original(path, ancestor) and (not ancestor or "." not in rest)


@wrong(
    "test_a_tied_parameter_is_read_under_the_name_that_the_module_knows",
    says="only one name was looked at",
)
def knows_one_name_of_a_tensor(lesson):
    """Looks at the name that the graph reads, and at no other."""
    lesson.all_names = lambda state: {name: [name] for name in state}


# --- one node


@wrong("test_one_node_takes_the_place_of_a_calls_nodes", says="still in the graph")
def leaves_the_nodes_of_the_call_in_the_graph(lesson):
    """Lets later nodes use the call, and doesn't erase what it replaces."""

    @around(lesson.Outliner)
    def replace(original, self, call, name):
        kept, self.graph.erase_node = self.graph.erase_node, lambda node: None
        try:
            return original(self, call, name)
        finally:
            self.graph.erase_node = kept


@wrong("test_the_new_nodes_belong_to_the_calls_around", says="belongs to the call that it makes")
def records_the_call_node_in_its_own_call(lesson):
    """Gives the new node the stack of the nodes that it replaces."""

    @around(lesson.Outliner)
    def replace(original, self, call, name):
        stack = self.stacks[call.nodes[0]]
        node = original(self, call, name)
        self.stacks[node] = stack
        return node


# --- sharing


@wrong("test_equal_graphs_have_equal_keys", says="replace nodes with numbers")
def compares_by_name(lesson):
    """Takes the text of a graph for what it does."""
    lesson.graph_key = str


# --- modules and state


@wrong("test_the_root_flattens_its_arguments", says="order of `in_spec` before you flatten")
def flattens_keywords_in_the_order_of_the_call(lesson):
    """Takes keywords in the order of the call."""

    @on(lesson.UnflattenedModule)
    def input_leaves(self, args, kwargs):
        return pytree.tree_flatten_with_path((args, kwargs))[0]


@wrong("test_two_names_of_one_tensor_hold_one_copy", says="a separate copy")
def copies_every_name(lesson):
    """Clones the tensor of each name separately."""
    lesson.copied = lambda state: {name: copy.deepcopy(each) for name, each in state.items()}


@wrong("test_the_copies_share_no_memory_with_the_program", says="training the tree would change it")
def registers_the_programs_own_tensors(lesson):
    """Doesn't copy."""
    lesson.copied = dict


# --- right


@right
def walks_the_stacks_like_brackets(lesson):
    """Opens a call where a stack grows, and closes it where a stack shrinks."""

    @on(lesson.Outliner)
    def calls_at(self, depth):
        calls, around = [], ()
        for node in self.graph.nodes:
            if node in self.stacks:
                stack = self.stacks[node][: depth + 1]
                if len(stack) > depth:
                    if stack != around:
                        calls.append(lesson.ModuleCall(stack[-1].path, level=stack[-1]))
                    calls[-1].nodes.append(node)
                around = stack
        return calls


@right
def numbers_the_nodes(lesson):
    """Decides by position what was made before a call, and what is used after it."""

    @on(lesson)
    def find_borders(call):
        position = {node: at for at, node in enumerate(call.nodes[0].graph.nodes)}
        first, last = position[call.nodes[0]], position[call.nodes[-1]]
        for node in call.nodes:
            for value in node.all_input_nodes:
                if position[value] < first:
                    call.inputs[value] = None
        call.outputs = {
            node: None for node in call.nodes if any(position[user] > last for user in node.users)
        }


@right(core_only=True)
def replaces_before_the_first_node(lesson):
    """Puts the call before the nodes that it replaces, and updates each user."""

    @on(lesson.Outliner)
    def replace(self, call, name):
        with self.graph.inserting_before(call.nodes[0]):
            node = self.graph.call_module(name, tuple(call.inputs))
            values = lesson.values_of(node, call)
        around = self.stacks[call.nodes[0]][:-1]
        for new in {node, *values.values()}:
            self.stacks[new] = around
        for value, new in values.items():
            for user in list(value.users):
                user.replace_input_with(value, new)
        while call.nodes:
            self.graph.erase_node(call.nodes.pop())
        return node
