"""Answers to ``split_module``: mistakes that the suite must explain, and other ways to be right."""

import copy
from graphlib import CycleError, TopologicalSorter

from torch import SymInt

from tests.suite.answers import around, on, right, wrong
from tests.suite.engine import map_arg


@wrong("test_qualname_map_has_the_old_path_of_each_module", says="the new path lacks the prefix")
def new_paths_lack_the_submodule(lesson):
    """Maps the paths that the modules have inside their submodules."""

    @around(lesson)
    def split_module(original, m, root_m, callback, qualname_map=None, **options):
        split = original(m, root_m, callback, paths := {}, **options)
        if qualname_map is not None:
            qualname_map.update({path.partition(".")[2]: old for path, old in paths.items()})
        return split


@wrong("test_the_callback_is_called_once_for_each_call", says="called again")
def the_callback_is_asked_twice(lesson):
    """Asks once to find the partitions, and again to fill them."""

    @around(lesson)
    def assign_nodes(original, *arguments):
        original(*arguments)
        return original(*arguments)


@wrong("test_partitions_are_in_the_order_in_which_the_graph_reaches_them", says="sorted by number")
def partitions_are_sorted_by_number(lesson):
    """Takes the callback's numbers for the order in which the partitions run."""

    @around(lesson)
    def assign_nodes(original, *arguments):
        return sorted(original(*arguments), key=lambda partition: int(partition.name))


@wrong("test_the_partitions_are_of_the_class_that_is_asked_for", says="of the class Partition")
def every_group_is_a_plain_partition(lesson):
    """Ignores the class that is asked for."""

    @around(lesson)
    def assign_nodes(original, graph, split_callback, kind=None):
        return original(graph, split_callback)


def collect_with(values_of):
    """``collect_crossings`` that finds the values of a node in its own way."""

    def collect_crossings(m, partitions):
        home = {node: partition for partition in partitions for node in partition.nodes}
        for node in m.graph.nodes:
            user = home.get(node)
            for value in values_of(node):
                maker = home.get(value)
                if user is not None and maker is not user:
                    user.inputs[value] = maker
                if maker is not None and maker is not user:
                    maker.outputs[value] = None

    return collect_crossings


@wrong("test_a_parameter_is_an_input", says="the get_attr node of a parameter was left out")
def parameters_are_read_inside(lesson):
    """Lets each partition read the parameters itself."""
    lesson.collect_crossings = collect_with(
        lambda node: [value for value in node.all_input_nodes if value.op != "get_attr"]
    )


@wrong(
    "test_a_tensor_comes_with_the_first_holder_of_each_of_its_sizes",
    says="got: args (x, a, b_again)",
)
def the_last_holder_of_a_size_comes_in(lesson):
    """Overwrites the holder of a symbol with each later one."""

    @on(lesson)
    def _bind_symbol(node, binders):
        value = node.meta.get("example_value")
        if isinstance(value, SymInt) and value.node.expr.is_Symbol:
            binders[value.node.expr] = node


def found_in(argument):
    """The nodes in an argument of any depth."""
    found = []
    map_arg(argument, found.append)
    return found


@wrong("test_a_value_crosses_even_if_it_is_deep_in_an_argument", says="only node.args was searched")
def crossings_in_kwargs_are_forgotten(lesson):
    """Looks for values in the positional arguments only."""
    lesson.collect_crossings = collect_with(lambda node: found_in(node.args))


@wrong(
    "test_a_value_that_only_the_output_uses_is_an_output", says="the graph's output is a user too"
)
def the_output_uses_nothing(lesson):
    """Looks at the uses in other partitions only."""
    lesson.collect_crossings = collect_with(
        lambda node: [] if node.op == "output" else node.all_input_nodes
    )


@wrong("test_a_cycle_is_refused_and_its_partitions_are_named", says="isn't their submod_name")
def the_error_shows_the_partitions_themselves(lesson):
    """Makes a message of the error that the sorter raised."""

    @on(lesson)
    def order_partitions(partitions):
        try:
            return [
                *TopologicalSorter({each: each.dependencies for each in partitions}).static_order()
            ]
        except CycleError as error:
            raise RuntimeError(str(error)) from None


def copy_with(lesson, make):
    """Let copies be made by ``make(node, graph, environment, name)``."""

    @on(lesson)
    def copy_nodes(nodes, graph, environment, keep_original_node_name=False):
        for node in nodes:
            name = node.name if keep_original_node_name else None
            environment[node] = make(node, graph, environment, name)


@wrong("test_copies_use_the_nodes_of_their_own_graph", says="an argument is a node of the original")
def arguments_are_not_mapped(lesson):
    """Passes the original's arguments to the copy."""

    def make(node, graph, environment, name):
        return graph.create_node(node.op, node.target, node.args, node.kwargs, name)

    copy_with(lesson, make)


@wrong("test_a_copy_has_the_type_and_a_copy_of_the_meta", says="original and copy share one dict")
def meta_is_shared(lesson):
    """Gives the copy the original's own meta."""

    def make(node, graph, environment, name):
        arguments = map_arg((node.args, node.kwargs), environment.__getitem__)
        new = graph.create_node(node.op, node.target, *arguments, name, node.type)
        new.meta = node.meta
        return new

    copy_with(lesson, make)


@wrong("test_copies_get_new_names_unless_they_should_keep_theirs", says="names are kept without")
def copies_keep_their_names(lesson):
    """Copies with ``node_copy``, which keeps the names."""
    copy_with(lesson, lambda node, graph, copies, _: graph.node_copy(node, copies.__getitem__))


@wrong(
    "test_placeholders_have_types_and_a_meta_of_their_own",
    says="the placeholder shares the meta of its value",
)
def placeholders_share_the_meta_of_their_values(lesson):
    """Lets a placeholder have the very meta of the value that enters."""

    @around(lesson)
    def build_graph(original, partition, *options):
        graph = original(partition, *options)
        for value in partition.inputs:
            partition.environment[value].meta = value.meta
        return graph


@wrong("test_a_call_takes_the_values_of_the_new_graph", says="they are nodes of the old graph")
def calls_take_the_old_nodes(lesson):
    """Passes a partition's inputs to the call as they are."""

    @around(lesson)
    def with_calls(original, graph, partitions, call):
        return original(
            graph,
            partitions,
            lambda new, partition, _: call(new, partition, tuple(partition.inputs)),
        )


@wrong("test_a_call_replaces_the_nodes_of_its_partition", says="the nodes were copied nevertheless")
def a_call_is_added_to_the_nodes(lesson):
    """Keeps the nodes, beside the call that computes the same."""

    @around(lesson)
    def with_calls(original, graph, partitions, call):
        def call_too(new, partition, inputs):
            call(new, partition, inputs)

        return original(graph, partitions, call_too)


@wrong("test_several_outputs_are_taken_from_the_tuple", says="they are in another order")
def outputs_are_taken_in_the_order_of_the_graph(lesson):
    """Sorts the outputs by their places in the graph."""

    @around(lesson)
    def values_of(original, call, partition):
        places = {node: at for at, node in enumerate(next(iter(partition.outputs)).graph.nodes)}
        partition.outputs = dict.fromkeys(sorted(partition.outputs, key=places.__getitem__))
        return original(call, partition)


@wrong(
    "test_a_single_value_is_returned_as_it_is_and_otherwise_a_tuple",
    says="a single value is wrapped in a tuple",
)
def every_submodule_returns_a_tuple(lesson):
    """Wraps a single value too, and unpacks it again outside."""
    lesson.Partition.returns_single = False


def after_stitching(lesson, change):
    """Let ``change`` spoil the module that the reference returns."""

    @around(lesson)
    def stitch_graph(original, m, *arguments):
        split = original(m, *arguments)
        change(split, m)
        return split


@wrong("test_the_result_computes_with_its_submodules", says="no submodule ran")
def the_model_itself_is_run(lesson):
    """Shows a graph of submodules, and computes with the model that was given."""
    after_stitching(lesson, lambda split, m: setattr(split, "forward", m.forward))


@wrong("test_parameters_at_any_depth_are_shared_not_copied", says="a parameter was copied")
def parameters_are_copied(lesson):
    """Gives the split model parameters of its own."""
    after_stitching(lesson, lambda split, m: setattr(split, "scale", copy.deepcopy(split.scale)))


@wrong("test_regions_are_cut_as_torch_cuts_them", says="got: args (_enter_autocast,)")
def the_outermost_region_is_exited_first(lesson):
    """Lists the exits in the order in which they run, so they are reversed once too often."""

    @around(lesson)
    def propagate_regions(original, graph, partitions):
        original(graph, partitions)
        for partition in partitions:
            partition.exited_early.reverse()


@right(core_only=True)
def assignment_in_two_loops(lesson):
    """Collects the answers first, and makes the partitions from them."""

    @on(lesson)
    def assign_nodes(graph, split_callback, kind=lesson.Partition):
        found = [node for node in graph.nodes if node.op.startswith("call_")]
        names = {node: str(split_callback(node)) for node in found}
        return [
            kind(name, [node for node in found if names[node] == name])
            for name in dict.fromkeys(names.values())
        ]


@right(core_only=True)
def crossings_by_walking_through_the_arguments(lesson):
    """Searches args and kwargs for nodes, instead of asking the node for its inputs."""
    lesson.collect_crossings = collect_with(lambda node: found_in((node.args, node.kwargs)))


@right
def order_by_recursion(lesson):
    """Takes the first ready partition, and orders the rest the same way."""

    def order(waiting, done):
        if not waiting:
            return []
        first = next(each for each in waiting if done.issuperset(each.dependencies))
        rest = [each for each in waiting if each is not first]
        return [first, *order(rest, done | {first})]

    @around(lesson)
    def order_partitions(original, partitions):
        original(partitions)  # refuses a cycle
        return order(partitions, frozenset())
