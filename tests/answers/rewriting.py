"""Answers to ``rewriting``."""

from __future__ import annotations

import copy
from collections import Counter

import torch

from tests.suite.answers import right, wrong
from tests.suite.engine import graph_module, is_node, map_arg

# --- wrong: one node ------------------------------------------------------------------------------


@wrong(
    fails="test_a_pattern_does_not_match_what_differs",
    says="only their name in common",
)
def calls_are_compared_by_name(lesson):
    """Takes ``F.relu`` for ``torch.relu``."""
    call_of = lesson.Matcher.call_of

    def by_name(self, node):
        op, target, *arguments = call_of(self, node)
        return [op, getattr(target, "__name__", target), *arguments]

    lesson.Matcher.call_of = by_name


@wrong(fails="test_a_pattern_matches", says="'x': 'tanh', 'y': 'b'")
def arguments_that_are_nodes_match(lesson):
    """Compares literals, and takes any node for any other below the anchor."""

    def match_value(self, expected, actual, nodes_map):
        if is_node(expected):
            nodes_map[expected] = actual
            return True
        if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
            pairs = zip(expected, actual, strict=False)
            return len(expected) == len(actual) and all(
                match_value(self, *pair, nodes_map) for pair in pairs
            )
        return lesson.same_value(expected, actual)

    lesson.Matcher.match_value = match_value


# --- wrong: places --------------------------------------------------------------------------------


@wrong(fails="test_a_value_that_escapes_is_no_match", says="`mul` uses `add`")
def escaping_values_are_not_noticed(lesson):
    """Replaces a match whose inner value is used elsewhere."""
    lesson.is_contained = lambda inside: True


@wrong(
    fails="test_inputs_and_result_of_a_match_may_be_used_anywhere",
    says="got:",
)
def the_result_must_not_be_used_outside_either(lesson):
    """Treats the anchor like the nodes before it."""

    def is_contained(inside):
        *_, result = inside
        hidden_users = [user for node in inside for user in node.users]
        return all(user in inside for user in hidden_users) or not len(result.users) > 1

    lesson.is_contained = is_contained


@wrong(
    fails="test_of_two_places_that_overlap_the_first_counts",
    says="places that overlap were kept",
)
def overlaps_are_kept(lesson):
    """Returns every place, also those that share nodes."""

    def match(pattern, graph):
        (anchor,) = lesson.symbolic_trace(pattern).graph.output_node().all_input_nodes
        matches = []
        for node in graph.nodes:
            found = lesson.Match(anchor, {})
            if lesson.Matcher().match_node(anchor, node, found.nodes_map):
                if lesson.is_contained(lesson.nodes_inside(found)):
                    matches.append(found)
        return matches

    lesson.match = match


@wrong(fails="test_every_place_is_found_in_order", says="expected")
def the_last_place_comes_first(lesson):
    """Looks from the output backwards."""
    match = lesson.match
    lesson.match = lambda pattern, graph: match(pattern, graph)[::-1]


# --- wrong: replacing -----------------------------------------------------------------------------


@wrong(
    fails="test_a_match_whose_input_is_another_match",
    says="RuntimeError",
)
def inputs_that_were_replaced_are_used(lesson):
    """Replaces the first match first, and then uses its erased result as an input."""

    def replace_pattern(gm, pattern, replacement):
        matches, new = lesson.match(pattern, gm.graph), lesson.symbolic_trace(replacement).graph
        for found in matches:
            lesson.replace_match(found, new)
        gm.recompile()
        return matches

    lesson.replace_pattern = replace_pattern


@wrong(fails="test_a_pattern_is_replaced", says="computes")
def inputs_are_passed_in_the_order_of_nodes_map(lesson):
    """Takes the placeholders from ``nodes_map``, where they were added on the way back."""

    def replace_match(found, replacement):
        *_, old = inside = lesson.nodes_inside(found)
        pairs = found.nodes_map.items()
        inputs = [value for node, value in pairs if node.op == "placeholder"][::-1]
        values = dict(zip(replacement.find_nodes(op="placeholder"), inputs, strict=True))
        with old.graph.inserting_before(old):
            old.replace_all_uses_with(old.graph.graph_copy(replacement, values))
        for node in reversed(inside):
            node.graph.erase_node(node)

    lesson.replace_match = replace_match


@wrong(fails="test_a_diamond_is_erased_whole", says="nodes of the match are still there")
def only_the_anchor_is_erased(lesson):
    """Leaves what the anchor was computed from."""

    def replace_match(found, replacement):
        *_, old = lesson.nodes_inside(found)
        pattern = found.anchor.graph.find_nodes(op="placeholder")
        inputs = [found.nodes_map[each] for each in pattern]
        values = dict(zip(replacement.find_nodes(op="placeholder"), inputs, strict=True))
        with old.graph.inserting_before(old):
            old.replace_all_uses_with(old.graph.graph_copy(replacement, values))
        old.graph.erase_node(old)

    lesson.replace_match = replace_match


# --- wrong: fusing --------------------------------------------------------------------------------


def fusing(lesson, *, copies=True, erases=True):
    """``fuse`` of the reference, but for one of its steps."""

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

    lesson.fuse = fuse


@wrong(fails="test_the_model_is_not_changed", says="the parameters of the model itself")
def the_model_itself_is_fused(lesson):
    """Writes the new weight into the convolution that it was given."""
    fusing(lesson, copies=False)


@wrong(fails="test_resnet18_is_fused", says="relative error")
def the_batch_norm_stays(lesson):
    """Fuses the weights, and normalises once more."""
    fusing(lesson, erases=False)


@wrong(fails="test_what_is_no_pair_stays", says="relative error")
def any_batch_norm_behind_a_convolution_is_fused(lesson):
    """Looks for a convolution anywhere before the batch norm."""

    def fuse(model):
        gm = lesson.symbolic_trace(copy.deepcopy(model))
        conv = None
        for node in gm.graph.find_nodes(op="call_module"):
            module = lesson.module_of(node)
            if isinstance(module, torch.nn.Conv2d):
                conv = node
            if isinstance(module, torch.nn.BatchNorm2d) and conv is not None:
                fused = torch.nn.utils.fuse_conv_bn_eval(lesson.module_of(conv), module)
                gm.set_submodule(conv.target, fused)
                node.replace_all_uses_with(node.args[0])
                gm.graph.erase_node(node)
        return graph_module(gm, gm.graph)

    lesson.fuse = fuse


# --- right ----------------------------------------------------------------------------------------


def pairs_of(matcher, expected, actual, nodes_map):
    """What is left to compare; nothing if these two differ."""
    both = (expected, actual)
    if all(isinstance(each, list | tuple) for each in both) and len(expected) == len(actual):
        return [*zip(expected, actual, strict=True)]
    if not is_node(expected) or expected in nodes_map:
        known = nodes_map[expected] if is_node(expected) else expected
        return [] if type(known) is type(actual) and known == actual else None
    if is_node(actual) and actual in nodes_map.values():
        return None
    nodes_map[expected] = actual
    if expected.op == "placeholder":
        return []
    return [tuple(map(matcher.call_of, both))] if is_node(actual) else None


@right(core_only=True)
def a_stack_of_pairs(lesson):
    """Compares pairs from a list, without recursion."""

    def match_node(self, expected, actual, nodes_map):
        pairs = [(expected, actual)]
        while pairs:
            more = pairs_of(self, *pairs.pop(), nodes_map)
            if more is None:
                return False
            pairs += more[::-1]
        return True

    lesson.Matcher.match_node = match_node


@right(core_only=True)
def users_are_counted(lesson):
    """Counts the uses inside: a value that escapes has more."""

    def is_contained(inside):
        *hidden, _ = inside
        users = Counter(each for node in inside for each in node.all_input_nodes)
        return all(users[node] == len(node.users) for node in hidden)

    lesson.is_contained = is_contained


@right(core_only=True)
def the_first_match_is_replaced_first(lesson):
    """Replaces in the order of the graph, and remembers what took the place of what."""

    def replace_pattern(gm, pattern, replacement):
        new, replaced = lesson.symbolic_trace(replacement).graph, {}
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

    lesson.replace_pattern = replace_pattern


@right(core_only=True)
def fusing_by_hand(lesson):
    """Asks each batch norm what it normalises, and computes the weight itself."""

    def fused_pair(conv, bn):
        conv = copy.deepcopy(conv)
        scale = 1 / torch.sqrt(bn.running_var + bn.eps)
        scale, shift = (scale * bn.weight, bn.bias) if bn.affine else (scale, 0)
        bias = 0 if conv.bias is None else conv.bias
        conv.weight = torch.nn.Parameter(conv.weight * scale[:, None, None, None])
        conv.bias = torch.nn.Parameter((bias - bn.running_mean) * scale + shift)
        return conv

    def fuse(model):
        gm = lesson.symbolic_trace(copy.deepcopy(model))
        modules = dict(gm.named_modules())
        for bn in gm.graph.find_nodes(op="call_module"):
            conv = bn.args[0]
            pair = [modules.get(conv.target), modules[bn.target]]
            types = list(map(type, pair))
            if types == [torch.nn.Conv2d, torch.nn.BatchNorm2d] and len(conv.users) == 1:
                gm.set_submodule(conv.target, fused_pair(*pair))
                bn.replace_all_uses_with(conv)
                gm.graph.erase_node(bn)
        return graph_module(gm, gm.graph)

    lesson.fuse = fuse
