"""Answers to ``split_module``: mistakes that the suite must explain, and other ways to be right."""

import copy

from tests.suite.answers import around, on, right, wrong
from tests.suite.engine import map_arg


@wrong("test_the_callback_is_called_once_for_each_call", says="called again")
def the_callback_is_asked_twice(lesson):
    """Asks once to find the partitions, and again to fill them."""

    @around(lesson)
    def assign_nodes(original, *arguments):
        original(*arguments)
        return original(*arguments)


@wrong("test_each_call_goes_to_the_partition_that_the_callback_names", says="they were sorted")
def partitions_are_sorted_by_number(lesson):
    """Takes the callback's numbers for the order in which the partitions run."""

    @around(lesson)
    def assign_nodes(original, *arguments):
        return sorted(original(*arguments), key=lambda partition: int(partition.name))


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


@wrong(
    "test_the_values_that_cross_are_outputs_here_and_inputs_there",
    says="the get_attr node of a parameter enters too",
)
def parameters_are_read_inside(lesson):
    """Lets each partition read the parameters itself."""
    lesson.collect_crossings = collect_with(
        lambda node: [value for value in node.all_input_nodes if value.op != "get_attr"]
    )


def found_in(argument):
    """The nodes in an argument of any depth."""
    found = []
    map_arg(argument, found.append)
    return found


@wrong("test_the_values_that_cross_are_outputs_here_and_inputs_there", says="a keyword argument")
def crossings_in_kwargs_are_forgotten(lesson):
    """Looks for values in the positional arguments only."""
    lesson.collect_crossings = collect_with(lambda node: found_in(node.args))


@wrong(
    "test_the_values_that_cross_are_outputs_here_and_inputs_there",
    says="the graph's output is a user too",
)
def the_output_uses_nothing(lesson):
    """Looks at the uses in other partitions only."""
    lesson.collect_crossings = collect_with(
        lambda node: [] if node.op == "output" else node.all_input_nodes
    )


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


@wrong("test_a_call_replaces_the_nodes_of_its_partition", says="they are nodes of the old graph")
def calls_take_the_old_nodes(lesson):
    """Passes a partition's inputs to the call as they are."""

    @around(lesson)
    def with_calls(original, graph, partitions, call):
        return original(
            graph,
            partitions,
            lambda new, partition, _: call(new, partition, tuple(partition.inputs)),
        )


@wrong(
    "test_a_submodule_is_built_without_a_change_of_the_model",
    says="a module was added to the model that is cut",
)
def submodules_are_built_from_the_model_itself(lesson):
    """Gives the flat names to the model, and lets each submodule take its modules from there."""

    @around(lesson)
    def build_submodule(original, partition, m, *options):
        submodule = original(partition, m, *options)
        for name, module in submodule.named_children():
            m.add_module(name, module)
        return submodule


@wrong(
    "test_a_submodule_is_built_without_a_change_of_the_model",
    says="nodes of the model's own graph were changed",
)
def targets_are_flattened_in_the_original(lesson):
    """Removes the dots before it copies the nodes."""

    @around(lesson)
    def build_submodule(original, partition, m, *options):
        submodule = original(partition, m, *options)
        for node in partition.nodes:
            node.target = partition.environment[node].target
        return submodule


@wrong(
    "test_a_single_value_is_returned_as_it_is_and_otherwise_a_tuple",
    says="a single value is wrapped in a tuple",
)
def every_submodule_returns_a_tuple(lesson):
    """Wraps a single value too, and unpacks it again outside."""
    lesson.Partition.returns_single = False


@wrong("test_parameters_at_any_depth_are_shared_not_copied", says="a parameter was copied")
def parameters_are_copied(lesson):
    """Gives the split model parameters of its own."""

    @around(lesson)
    def stitch_graph(original, m, *arguments):
        split = original(m, *arguments)
        owner = split.get_submodule("0")
        owner.scale = copy.deepcopy(owner.scale)
        return split


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
