"""Answers to ``rewriting``."""

from __future__ import annotations

import copy
from collections import Counter
from functools import partial

import torch

from tests.suite.answers import around, on, right, wrong
from tests.suite.engine import graph_module, is_node, map_arg

# --- wrong: one node ------------------------------------------------------------------------------


@wrong("test_a_pattern_does_not_match_what_differs", says="only share a name")
def calls_are_compared_by_name(lesson):
    """Takes ``F.relu`` for ``torch.relu``."""

    @around(lesson.Matcher)
    def call_of(original, self, node):
        op, target, *arguments = original(self, node)
        return [op, getattr(target, "__name__", target), *arguments]


@wrong("test_a_pattern_matches", says="['tanh', 'b']")
def arguments_that_are_nodes_match(lesson):
    """Compares literals, and takes any node for any other below the anchor."""

    @around(lesson.Matcher)
    def match_value(original, self, expected, actual, nodes_map):
        if is_node(expected):
            nodes_map[expected] = actual
            return True
        return original(self, expected, actual, nodes_map)


@wrong("test_a_pattern_does_not_match_what_differs", says="no match: the graph's list is longer")
def lists_are_compared_up_to_the_end_of_the_shorter(lesson):
    """Compares the items of two lists in pairs, and not their lengths."""

    @around(lesson.Matcher)
    def match_value(original, self, expected, actual, nodes_map):
        if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
            pairs = zip(expected, actual)
            return all(self.match_value(one, other, nodes_map) for one, other in pairs)
        return original(self, expected, actual, nodes_map)


@wrong("test_a_pattern_does_not_match_what_differs", says="no match: `x` matches `a` and `b`")
def an_input_that_comes_twice_matches_two_values(lesson):
    """Compares a node of the pattern afresh each time it meets it."""

    @around(lesson.Matcher)
    def match_node(original, self, expected, actual, nodes_map):
        nodes_map.pop(expected, None)
        return original(self, expected, actual, nodes_map)


# --- wrong: places --------------------------------------------------------------------------------


@wrong("test_a_value_that_escapes_prevents_a_match", says="`mul` uses `add`")
def escaping_values_are_not_noticed(lesson):
    """Replaces a match whose inner value is used elsewhere."""
    lesson.is_contained = lambda inside: True


@wrong("test_inputs_and_result_of_a_match_may_be_used_anywhere", says="got:")
def the_result_must_not_be_used_outside_either(lesson):
    """Treats the anchor like the nodes before it."""

    @on(lesson)
    def is_contained(inside):
        *_, result = inside
        hidden_users = [user for node in inside for user in node.users]
        return all(user in inside for user in hidden_users) or not len(result.users) > 1


def occurrences(lesson, pattern, graph):
    """Return every place where a pattern occurs and could be replaced; they may overlap."""
    (anchor,) = lesson.symbolic_trace(pattern).graph.output_node().all_input_nodes
    matches = []
    for node in graph.nodes:
        found = lesson.Match(anchor, {})
        if lesson.Matcher().match_node(anchor, node, found.nodes_map):
            if lesson.is_contained(lesson.nodes_inside(found)):
                matches.append(found)
    return matches


@wrong("test_of_two_places_that_overlap_the_first_counts", says="places that overlap were kept")
def overlaps_are_kept(lesson):
    """Returns every place, also those that share nodes."""
    lesson.match = partial(occurrences, lesson)


# --- wrong: replacing -----------------------------------------------------------------------------


@wrong(
    "test_a_match_whose_input_is_another_match",
    says="a node that was erased with an earlier match is an input of a later one",
)
def inputs_that_were_replaced_are_used(lesson):
    """Replaces the first match first, and then uses its erased result as an input."""

    @on(lesson)
    def replace_pattern(gm, pattern, replacement):
        matches, new = lesson.match(pattern, gm.graph), lesson.symbolic_trace(replacement).graph
        for found in matches:
            lesson.replace_match(found, new)
        gm.recompile()
        return matches


@wrong("test_a_pattern_is_replaced", says="each input of the replacement gets")
def inputs_are_passed_in_the_order_of_nodes_map(lesson):
    """Takes the placeholders from ``nodes_map``, where they are in the order of the match."""

    @around(lesson)
    def replace_match(original, found, replacement):
        pairs = found.nodes_map.items()
        inputs = [value for node, value in pairs if node.op == "placeholder"]
        placeholders = found.anchor.graph.find_nodes(op="placeholder")
        found.nodes_map.update(zip(placeholders, inputs, strict=True))
        original(found, replacement)


@wrong(
    "test_the_copy_is_inserted_before_the_last_node_of_the_match",
    says="the copy uses `tanh`, which is computed after it",
)
def the_copy_is_inserted_where_the_match_begins(lesson):
    """Inserts the copy before the first node of the match."""

    @on(lesson)
    def replace_match(found, replacement):
        first, *_, old = inside = lesson.nodes_inside(found)
        inputs = map(found.nodes_map.get, found.anchor.graph.find_nodes(op="placeholder"))
        values = dict(zip(replacement.find_nodes(op="placeholder"), inputs, strict=True))
        with first.graph.inserting_before(first):
            old.replace_all_uses_with(first.graph.graph_copy(replacement, values))
        for node in reversed(inside):
            node.graph.erase_node(node)


@wrong("test_a_diamond_is_erased_whole", says="calls of the pattern are still there")
def only_the_anchor_is_erased(lesson):
    """Leaves the nodes that the anchor was computed from."""
    nodes_inside = lesson.nodes_inside

    @around(lesson)
    def replace_match(original, found, replacement):
        lesson.nodes_inside = lambda found: nodes_inside(found)[-1:]
        original(found, replacement)
        lesson.nodes_inside = nodes_inside


# --- wrong: fusing --------------------------------------------------------------------------------


def fusing(lesson, *, copies=True, erases=True):
    """``fuse`` of the reference, except for one of its steps."""

    @on(lesson)
    def fuse(model):
        gm = lesson.symbolic_trace(copy.deepcopy(model) if copies else model)
        for found in lesson.match(lesson.CONV_BN, gm.graph):
            conv, bn = lesson.nodes_inside(found)
            convolution, norm = lesson.module_of(conv), lesson.module_of(bn)
            fused = torch.nn.utils.fuse_conv_bn_eval(convolution, norm)
            if copies:
                gm.set_submodule(conv.target, fused)
            else:
                convolution.weight, convolution.bias = fused.weight, fused.bias
            if erases:
                bn.replace_all_uses_with(conv)
                gm.graph.erase_node(bn)
        return graph_module(gm, gm.graph)


@wrong(
    "test_the_model_is_not_changed_and_shares_no_parameters",
    says="the parameters of the model itself",
)
def the_model_itself_is_fused(lesson):
    """Writes the new weight into the convolution that it was given."""
    fusing(lesson, copies=False)


@wrong("test_resnet18_is_fused", says="relative error")
def the_batch_norm_stays(lesson):
    """Fuses the weights, and normalises once more."""
    fusing(lesson, erases=False)


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def overlaps_are_removed_at_the_end(lesson):
    """Finds every place first, and compares it with those that it has kept."""

    @on(lesson)
    def match(pattern, graph):
        kept = []
        for found in occurrences(lesson, pattern, graph):
            inside = set(lesson.nodes_inside(found))
            if all(inside.isdisjoint(lesson.nodes_inside(other)) for other in kept):
                kept.append(found)
        return kept


@right(core_only=True)
def users_are_counted(lesson):
    """Counts the uses inside: a value that escapes has more."""

    @on(lesson)
    def is_contained(inside):
        *hidden, _ = inside
        users = Counter(each for node in inside for each in node.all_input_nodes)
        return all(users[node] == len(node.users) for node in hidden)


@right(core_only=True)
def the_first_match_is_replaced_first(lesson):
    """Replaces in the order of the graph, and remembers what took the place of what."""

    @on(lesson)
    def replace_pattern(gm, pattern, replacement):
        new, replaced = lesson.traced_like(gm.graph, replacement), {}
        matches = lesson.match(pattern, gm.graph)
        for found in matches:
            for node, value in found.nodes_map.items():
                found.nodes_map[node] = map_arg(value, lambda each: replaced.get(each, each))
            *_, old = inside = lesson.nodes_inside(found)
            inputs = map(found.nodes_map.get, found.anchor.graph.find_nodes(op="placeholder"))
            values = dict(zip(new.find_nodes(op="placeholder"), inputs, strict=True))
            with gm.graph.inserting_before(old):
                replaced[old] = gm.graph.graph_copy(new, values)
            old.replace_all_uses_with(replaced[old])
            for node in reversed(inside):
                gm.graph.erase_node(node)
        gm.recompile()
        return matches
