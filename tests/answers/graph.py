"""Answers to ``graph``."""

from __future__ import annotations

import itertools
import re

from tests.suite.answers import around, on, right, wrong

# --- wrong: arguments and users -------------------------------------------------------------------


@wrong(
    "test_an_argument_that_is_removed_loses_its_user",
    says="the node is still a user of its old arguments",
)
def users_are_only_added(lesson):
    """Becomes a user of the new inputs, and stays a user of the old ones."""

    @on(lesson.Node)
    def set_arguments(self, args, kwargs):
        self._args, self._kwargs = lesson.map_arg((args, kwargs), lambda node: node)
        for each in self.all_input_nodes:
            each.users[self] = None


@wrong(
    "test_a_list_that_changes_later_does_not_change_the_node",
    says="the node holds the caller's own list",
)
def arguments_are_kept_as_they_come(lesson):
    """Finds the inputs, but keeps the caller's containers."""

    @around(lesson.Node)
    def set_arguments(original, self, args, kwargs):
        original(self, args, kwargs)
        self._args, self._kwargs = args, kwargs


@wrong("test_an_input_is_replaced_wherever_it_is_by_any_argument", says="'key': (x,)")
def only_positional_arguments_are_replaced(lesson):
    """Leaves the old input in the keyword arguments."""

    @on(lesson.Node)
    def replace_input_with(self, old_input, new_input):
        swap = {old_input: new_input}
        self.args = lesson.map_arg(self.args, lambda node: swap.get(node, node))


@wrong("test_all_users_use_the_new_node", says="dictionary changed size during iteration")
def the_users_change_while_they_are_counted(lesson):
    """Loops over ``self.users``, which shrinks with each user that changes."""

    @on(lesson.Node)
    def replace_all_uses_with(self, replace_with):
        return [user.replace_input_with(self, replace_with) or user for user in self.users]


# --- wrong: the list ------------------------------------------------------------------------------


@wrong("test_a_node_moves_next_to_another", says="its old neighbours become neighbours")
def a_node_that_moves_stays_where_it_was(lesson):
    """Links the node into its new place, but its old neighbours still refer to it."""

    @on(lesson.Node)
    def prepend(self, x):
        if x is not self:
            x.prev, x.next = self.prev, self
            x.prev.next = x.next.prev = x


@wrong("test_a_node_moves_next_to_another", says="an iteration visits each node once")
def a_node_is_its_own_neighbour(lesson):
    """Takes the node out of the list, and then links it to itself."""

    @on(lesson.Node)
    def prepend(self, x):
        x.prev.next, x.next.prev = x.next, x.prev
        x.prev, x.next = self.prev, self
        x.prev.next = x.next.prev = x


@wrong("test_an_iteration_continues_from_where_the_current_node_is", says="choose the next node")
def iteration_goes_over_a_copy(lesson):
    """Makes a list first: nodes that are added during the iteration aren't seen."""
    walk = lesson.NodeList.__iter__
    lesson.NodeList.__iter__ = lambda self: iter(list(walk(self)))


@wrong("test_new_nodes_go_to_the_insertion_point", says="so the last comes first")
def new_nodes_go_after_the_previous_one(lesson):
    """Puts each new node after the previous one."""
    lesson.Graph.inserting_after = lambda self, n: self.inserting_before(n.next)


# --- wrong: names ---------------------------------------------------------------------------------


@wrong("test_names_are_legal_and_unique", says="'list_1' for 'list'")
def names_of_python_are_allowed(lesson):
    """Accepts reserved names, so the code hides ``list``, or can't be compiled."""
    lesson.RESERVED.clear()


# --- wrong: creating, erasing, copying ------------------------------------------------------------


@wrong("test_a_graph_is_copied_to_the_insertion_point_of_another", says="the names, in order")
def given_nodes_are_copied_too(lesson):
    """Also copies the nodes for which the caller gave values."""

    @on(lesson.Graph)
    def graph_copy(self, g, val_map):
        for node in g.nodes:
            if node.op == "output":
                return lesson.map_arg(node.args[0], val_map.get)
            val_map[node] = self.node_copy(node, val_map.get)
        return None


@wrong("test_a_deep_copy_has_the_same_nodes", says="copy the output, too")
def a_deep_copy_has_no_output(lesson):
    """Uses ``graph_copy``, which leaves the output to its caller."""

    @on(lesson.Graph)
    def __deepcopy__(self, memo):
        result = type(self)()
        result.graph_copy(self, {})
        return result


# --- wrong: checking and iterating ----------------------------------------------------------------


@wrong("test_lint_finds_what_cannot_run", says="it was not found")
def lint_goes_by_names(lesson):
    """Looks for a node of that name, not for this node."""

    @on(lesson.Graph)
    def lint(self):
        seen = set()
        for node in self.nodes:
            if node.name in seen or not {each.name for each in node.all_input_nodes} <= seen:
                raise RuntimeError(f"{node} is wrong")
            seen.add(node.name)


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def names_taken_apart_at_the_last_underscore(lesson):
    """Splits a name with ``rpartition``, and tries the numbers from 1."""

    @on(lesson.Namespace)
    def create_name(self, candidate):
        name = "".join(each if each.isalnum() and each.isascii() else "_" for each in candidate)
        name = re.sub("_+", "_", name) if name != candidate else name
        name = f"_{name}" if name[0].isdigit() else name
        base, _, digits = name.rpartition("_")
        base = base if base and digits.isdecimal() else name
        numbered = (f"{base}_{number}" for number in itertools.count(1))
        candidates = itertools.chain([name], numbered)
        name = next(each for each in candidates if each not in self.used)
        self.used.add(name)
        return name


@right(core_only=True)
def iteration_in_one_loop(lesson):
    """Has one function for both directions, which moves before it looks."""

    def walk(self, direction):
        node = self.root
        while (node := getattr(node, direction)) is not self.root:
            if node.prev.next is node:
                yield node

    lesson.NodeList.__iter__ = lambda self: walk(self, "next")
    lesson.NodeList.__reversed__ = lambda self: walk(self, "prev")


@right
def dead_code_by_a_list_of_candidates(lesson):
    """Erases nodes without users, then looks at their inputs."""

    def eliminate_dead_code(self, is_impure_node=None):
        self.lint()
        is_impure = is_impure_node or (lambda node: node.is_impure())
        dead = [node for node in self.nodes if not node.users and not is_impure(node)]
        changed = bool(dead)
        while dead:
            node = dead.pop()
            inputs = node.all_input_nodes
            self.erase_node(node)
            dead += [each for each in inputs if not each.users and not is_impure(each)]
        return changed

    (base,) = [each for each in lesson.Graph.__mro__ if each.__base__ is object]
    base.eliminate_dead_code = eliminate_dead_code
