"""Answers to ``split_module``: mistakes that the suite must explain, and other ways to be right."""

import copy

from torch import SymInt

from tests.suite.answers import right, wrong
from tests.suite.engine import map_arg


@wrong(fails="test_the_callback_is_asked_once_about_each_call", says="asked again")
def the_callback_is_asked_twice(lesson):
    """Asks once to find the partitions, and again to fill them."""
    assign_nodes = lesson.assign_nodes

    def ask_twice(graph, split_callback):
        assign_nodes(graph, split_callback)
        return assign_nodes(graph, split_callback)

    lesson.assign_nodes = ask_twice


@wrong(
    fails="test_partitions_come_in_the_order_in_which_the_graph_reaches_them",
    says="sorted by number",
)
def partitions_are_sorted_by_number(lesson):
    """Takes the callback's numbers for the order of the pipeline."""
    assign_nodes = lesson.assign_nodes

    def sort(*arguments):
        return sorted(assign_nodes(*arguments), key=lambda partition: int(partition.name))

    lesson.assign_nodes = sort


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
    fails="test_a_parameter_is_an_input",
    says="the get_attr node of a parameter was left out",
)
def parameters_are_read_inside(lesson):
    """Lets every partition read the parameters for itself."""
    lesson.collect_crossings = collect_with(
        lambda node: [value for value in node.all_input_nodes if value.op != "get_attr"]
    )


@wrong(
    fails="test_a_tensor_brings_the_first_holder_of_each_of_its_sizes",
    says="got: args (x, a, b_again)",
)
def the_last_holder_of_a_size_comes_in(lesson):
    """Overwrites who holds a symbol whenever somebody else does."""

    def bind(node, binders):
        value = node.meta.get("example_value")
        if isinstance(value, SymInt) and value.node.expr.is_Symbol:
            binders[value.node.expr] = node

    lesson._bind_symbol = bind


def found_in(argument):
    """The nodes in an argument of any depth."""
    found = []
    map_arg(argument, found.append)
    return found


@wrong(fails="test_a_value_crosses_wherever_it_stands_in_an_argument", says="only node.args was searched")
def crossings_in_kwargs_are_forgotten(lesson):
    """Looks for values in the positional arguments only."""
    lesson.collect_crossings = collect_with(lambda node: found_in(node.args))


@wrong(
    fails="test_a_value_used_by_the_output_alone_goes_out",
    says="the graph's output is a user too",
)
def the_output_uses_nothing(lesson):
    """Looks at the uses in other partitions only."""
    lesson.collect_crossings = collect_with(
        lambda node: [] if node.op == "output" else node.all_input_nodes
    )


def copy_with(lesson, make):
    """Let the build step copy nodes by ``make(node, graph, environment, target, name)``."""

    def copy_node(node, graph, environment, target, name=None):
        environment[node] = make(node, graph, environment, target, name)

    lesson.copy_node = copy_node


@wrong(fails="test_keyword_arguments_are_copied", says="without node.kwargs")
def kwargs_are_not_copied(lesson):
    """Creates the copy from the positional arguments only."""

    def make(node, graph, environment, target, name):
        arguments = map_arg(node.args, environment.__getitem__)
        return graph.create_node(node.op, target, arguments, {}, name, node.type)

    copy_with(lesson, make)


@wrong(fails="test_copies_use_the_nodes_of_their_own_graph", says="one is a node of the original")
def arguments_are_not_mapped(lesson):
    """Hands the original's arguments to the copy."""

    def make(node, graph, environment, target, name):
        return graph.create_node(node.op, target, node.args, node.kwargs, name)

    copy_with(lesson, make)


@wrong(fails="test_the_meta_of_a_copy_is_a_copy", says="original and copy share one dict")
def meta_is_shared(lesson):
    """Gives the copy the original's own meta."""

    def make(node, graph, environment, target, name):
        arguments = map_arg((node.args, node.kwargs), environment.__getitem__)
        new = graph.create_node(node.op, target, *arguments, name, node.type)
        new.meta = node.meta
        return new

    copy_with(lesson, make)


@wrong(
    fails="test_one_value_is_returned_as_it_is_and_none_or_several_as_a_tuple",
    says="a single value is wrapped in a tuple",
)
def every_submodule_returns_a_tuple(lesson):
    """Wraps a single value too, and unpacks it again outside."""
    lesson.Partition.returns_single = False


def after_stitching(lesson, change):
    """Let ``change`` spoil the module that the reference has stitched."""
    stitch_graph = lesson.stitch_graph

    def stitch_and_change(m, *arguments):
        split = stitch_graph(m, *arguments)
        change(split, m)
        return split

    lesson.stitch_graph = stitch_and_change


@wrong(
    fails="test_the_result_computes_with_its_submodules",
    says="no submodule ran",
)
def the_model_itself_is_run(lesson):
    """Shows a graph of submodules, and computes with the model that was given."""
    after_stitching(lesson, lambda split, m: setattr(split, "forward", m.forward))


@wrong(fails="test_a_parameter_is_shared_wherever_it_is", says="a parameter was copied")
def parameters_are_copied(lesson):
    """Gives the pipeline parameters of its own."""
    after_stitching(lesson, lambda split, m: setattr(split, "scale", copy.deepcopy(split.scale)))


@wrong(
    fails="test_a_partition_reenters_and_exits_early_what_reaches_beyond_it",
    says="the outer one is left first",
)
def the_outermost_region_is_exited_first(lesson):
    """Lists the exits in the order in which they run, which turns them round once too often."""
    propagate_regions = lesson.propagate_regions

    def turn_round(graph, partitions):
        propagate_regions(graph, partitions)
        for partition in partitions:
            partition.exited_early.reverse()

    lesson.propagate_regions = turn_round


@wrong(
    fails="test_autocast_regions_are_reentered_before_gradient_regions",
    says="they are entered in the graph's order",
)
def gradients_are_reentered_before_autocast(lesson):
    """Enters again in the order of the graph, whatever it is."""
    propagate_regions = lesson.propagate_regions

    def sort(graph, partitions):
        propagate_regions(graph, partitions)
        at = {node: number for number, node in enumerate(graph.nodes)}
        for partition in partitions:
            partition.reentered.sort(key=at.__getitem__)

    lesson.propagate_regions = sort


@wrong(fails="test_resnet18_is_cut_as_torch_cuts_it", says="metadata")
def some_metadata_is_kept(lesson):
    """Copies what passes write on nodes, and not what the tracer wrote."""
    copy_node = lesson.copy_node

    def copy_and_forget(node, graph, environment, *names):
        copy_node(node, graph, environment, *names)
        environment[node].meta.pop("nn_module_stack", None)

    lesson.copy_node = copy_and_forget


@right(core_only=True)
def assignment_in_two_loops(lesson):
    """Collects the answers first, and makes the partitions from them."""

    def assign_nodes(graph, split_callback):
        found = [node for node in graph.nodes if node.op.startswith("call_")]
        names = {node: str(split_callback(node)) for node in found}
        return [
            lesson.Partition(name, [node for node in found if names[node] == name])
            for name in dict.fromkeys(names.values())
        ]

    lesson.assign_nodes = assign_nodes


@right(core_only=True)
def crossings_by_walking_through_the_arguments(lesson):
    """Searches args and kwargs for nodes, instead of asking the node for its inputs."""
    lesson.collect_crossings = collect_with(lambda node: found_in((node.args, node.kwargs)))


@right(core_only=True)
def crossings_as_three_comprehensions(lesson):
    """Lists all uses first; inputs and outputs are selections of them."""

    def collect_crossings(m, partitions):
        home = {node: partition for partition in partitions for node in partition.nodes}
        uses = [(home.get(u), value) for u in m.graph.nodes for value in u.all_input_nodes]
        crossing = [(user, home.get(v), v) for user, v in uses if home.get(v) is not user]
        for one in partitions:
            one.inputs |= {v: maker for user, maker, v in crossing if user is one}
            one.outputs |= {v: None for _, maker, v in crossing if maker is one}

    lesson.collect_crossings = collect_crossings


@right
def order_by_recursion(lesson):
    """Takes the first ready partition, and orders the rest the same way."""
    order_partitions = lesson.order_partitions

    def order(waiting, done):
        if not waiting:
            return []
        first = next(each for each in waiting if done.issuperset(each.dependencies))
        rest = [each for each in waiting if each is not first]
        return [first, *order(rest, done | {first})]

    def order_recursively(partitions, keep_original_order=False):
        order_partitions(partitions, keep_original_order)  # refuses a cycle
        return order(partitions, frozenset())

    lesson.order_partitions = order_recursively


def refuse_late_makers(partitions):
    at = {partition: number for number, partition in enumerate(partitions)}
    for user in partitions:
        for maker in user.inputs.values():
            if maker is not None and at[maker] > at[user]:
                raise RuntimeError(f"{user.submod_name} runs before {maker.submod_name}")


def cycle_among(waiting):
    """Go from partition to maker until one comes up again."""
    trail = [waiting[0]]
    while trail.count(trail[-1]) < 2:
        trail.append(next(maker for maker in trail[-1].inputs.values() if maker in waiting))
    circle = trail[trail.index(trail[-1]) :]
    names = ", then ".join(partition.submod_name for partition in circle)
    value = next(value for value, maker in circle[0].inputs.items() if maker is circle[1])
    return RuntimeError(f"these wait for each other: {names}; one waits for {value}")


@right
def order_by_looking_again_and_again(lesson):
    """Picks the first partition whose makers have all run; what is left then is a cycle."""

    def order_partitions(partitions, keep_original_order=False):
        waiting, ordered = list(partitions), []
        while waiting:
            ready = [p for p in waiting if not set(p.dependencies) - set(ordered)]
            if not ready:
                raise cycle_among(waiting)
            ordered.append(ready[0])
            waiting.remove(ready[0])
        if keep_original_order:
            refuse_late_makers(partitions)
        return partitions if keep_original_order else ordered

    lesson.order_partitions = order_partitions
