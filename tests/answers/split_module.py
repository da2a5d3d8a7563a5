"""Answers to ``split_module``: mistakes that the suite must explain, and other ways to be right."""

import copy
from operator import attrgetter, getitem

from torch import SymInt
from torch.fx import Graph, GraphModule
from torch.fx.node import map_arg
from torch.fx.passes.split_module import split_module

from tests.suite.answers import right, wrong


@wrong(fails="test_the_callback_is_asked_once_about_each_call", says="asked again")
def the_callback_is_asked_twice(lesson):
    """Asks once to find the partitions, and again to fill them."""
    assign_nodes = lesson.assign_nodes

    def ask_twice(graph, split_callback, partition_affix=None):
        assign_nodes(graph, split_callback, partition_affix)
        return assign_nodes(graph, split_callback, partition_affix)

    lesson.assign_nodes = ask_twice


@wrong(
    fails="test_partitions_come_in_the_order_in_which_the_graph_reaches_them",
    says="sorted by number",
)
def partitions_are_sorted_by_number(lesson):
    """Takes the callback's numbers for the order of the pipeline."""
    assign_nodes = lesson.assign_nodes

    def sort(*arguments):
        return sorted(assign_nodes(*arguments), key=lambda partition: partition.number)

    lesson.assign_nodes = sort


@wrong(fails="test_nothing_is_left_on_the_nodes", says="noted on the node itself")
def the_node_remembers_its_partition(lesson):
    """Writes the partition on the caller's nodes, and leaves it there."""
    assign_nodes = lesson.assign_nodes

    def leave_marks(*arguments):
        partitions = assign_nodes(*arguments)
        for partition in partitions:
            for node in partition.nodes:
                node.partition = partition.name
        return partitions

    lesson.assign_nodes = leave_marks


@wrong(
    fails="test_answers_are_the_same_if_their_text_is_the_same",
    says="the text of the answer is the key",
)
def answers_are_compared_as_they_come(lesson):
    """Keeps a dict from answers to partitions, in which True is 1."""

    def assign_nodes(graph, split_callback, partition_affix=None):
        partitions = {}
        for node in graph.nodes:
            if node.op.startswith("call_"):
                number = split_callback(node)
                partitions.setdefault(number, lesson.Partition(str(number), number))
                partitions[number].nodes.append(node)
        return list(partitions.values())

    lesson.assign_nodes = assign_nodes


@wrong(fails="test_the_original_is_left_as_it_was", says="a note was left in node.meta")
def the_partition_is_noted_in_meta(lesson):
    """Uses the caller's meta as a notebook."""
    assign_nodes = lesson.assign_nodes

    def leave_notes(*arguments):
        partitions = assign_nodes(*arguments)
        for partition in partitions:
            for node in partition.nodes:
                node.meta["partition"] = partition.name
        return partitions

    lesson.assign_nodes = leave_notes


def after_collecting(lesson, change):
    """Let ``change`` spoil what the reference has collected."""
    collect_crossings = lesson.collect_crossings

    def collect_and_change(m, partitions):
        collect_crossings(m, partitions)
        for partition in partitions:
            change(m, partition)

    lesson.collect_crossings = collect_and_change


@wrong(
    fails="test_an_output_knows_every_partition_that_uses_it_and_no_other_user",
    says="a partition that takes the value is missing",
)
def one_user_is_enough(lesson):
    """Notes the first partition that uses a value, and takes the rest for granted."""

    def keep_the_first(m, partition):
        partition.outputs = {value: users[:1] for value, users in partition.outputs.items()}

    after_collecting(lesson, keep_the_first)


@wrong(
    fails="test_a_parameter_is_an_input",
    says="a get_attr of a tensor is passed in like a placeholder",
)
def parameters_are_read_inside(lesson):
    """Lets every partition read the parameters for itself."""

    def take_in(m, partition):
        reads = [value for value in partition.inputs if value.op == "get_attr"]
        for value in reads:
            partition.attributes[value] = partition.inputs.pop(value)

    after_collecting(lesson, take_in)


@wrong(
    fails="test_a_value_used_elsewhere_is_an_output_here_and_an_input_there",
    says="a value was passed that stays inside",
)
def everything_is_passed_to_everybody(lesson):
    """Gives each partition all inputs of the model: the numbers are right."""

    def pass_all(m, partition):
        for node in m.graph.nodes:
            if node.op in {"placeholder", "get_attr"}:
                partition.inputs.setdefault(node, None)

    after_collecting(lesson, pass_all)


@wrong(
    fails="test_a_tensor_brings_the_first_holder_of_each_of_its_sizes",
    says="the first node that is one",
)
def the_last_holder_of_a_size_comes_in(lesson):
    """Overwrites who holds a symbol whenever somebody else does."""

    def bind(node, binders):
        value = node.meta.get("example_value")
        if isinstance(value, SymInt) and value.node.expr.is_Symbol:
            binders[value.node.expr] = node

    lesson.crossings._bind_symbol = bind


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
                    users = maker.outputs.setdefault(value, [])
                    users.extend([user] if user not in [None, *users] else [])

    return collect_crossings


def found_in(argument):
    """The nodes in an argument of any depth."""
    found = []
    map_arg(argument, found.append)
    return found


@wrong(fails="test_a_keyword_argument_crosses_too", says="only node.args was searched")
def crossings_in_kwargs_are_forgotten(lesson):
    """Looks for values in the positional arguments only."""
    lesson.collect_crossings = collect_with(lambda node: found_in(node.args))


@wrong(fails="test_a_value_deep_in_an_argument_crosses_too", says="looks at any depth")
def only_plain_arguments_cross(lesson):
    """Takes an argument for a value only if it is a node itself."""
    lesson.collect_crossings = collect_with(
        lambda node: [value for value in node.args if type(value) is type(node)]
    )


@wrong(
    fails="test_a_value_used_by_the_output_alone_goes_out",
    says="the graph's output is a user too",
)
def the_output_uses_nothing(lesson):
    """Looks at the uses in other partitions only."""
    lesson.collect_crossings = collect_with(
        lambda node: [] if node.op == "output" else node.all_input_nodes
    )


@wrong(fails="test_a_placeholder_is_an_input_that_nobody_makes", says="the model's own input")
def only_calls_make_inputs(lesson):
    """Forgets that the model's own inputs have to be passed on."""
    lesson.collect_crossings = collect_with(
        lambda node: [value for value in node.all_input_nodes if value.op.startswith("call")]
    )


@wrong(
    fails="test_of_several_ready_partitions_the_first_in_the_graph_runs_first",
    says="take the one that stands first",
)
def the_last_ready_goes_first(lesson):
    """Takes the partition that became ready last, as torch does."""

    def order_partitions(partitions, keep_original_order=False):
        waiting, ordered = list(partitions), []
        while waiting:
            done = {partition.name for partition in ordered}
            ready = [p for p in waiting if not set(p.dependencies) - done]
            ordered.append(ready[-1])
            waiting.remove(ready[-1])
        return ordered

    lesson.order_partitions = order_partitions


@wrong(
    fails="test_of_several_ready_partitions_the_first_in_the_graph_runs_first",
    says="became ready in another order",
)
def depth_first(lesson):
    """Puts each partition right behind what it needs: sorted, but the last may come first."""

    def order_partitions(partitions, keep_original_order=False):
        ordered = []

        def visit(partition):
            if partition not in ordered:
                for maker in partition.inputs.values():
                    visit(maker)
                ordered.append(partition)

        for partition in partitions:
            visit(partition)
        return ordered

    lesson.order_partitions = order_partitions


@wrong(fails="test_a_cycle_may_lead_through_many_partitions", says="only pairs")
def only_pairs_are_cycles(lesson):
    """Looks for two partitions that wait for each other, and not for three."""

    def order_partitions(partitions, keep_original_order=False):
        for one in partitions:
            for two in partitions:
                if one.name in two.dependencies and two.name in one.dependencies:
                    raise RuntimeError(f"cycle: {one.submod_name} and {two.submod_name}")
        return partitions

    lesson.order_partitions = order_partitions


@wrong(
    fails="test_a_cycle_is_refused_with_its_partitions_and_one_value",
    says="likely cause: the cycle was not found",
)
def a_cycle_is_left_as_it_is(lesson):
    """Returns the partitions unsorted where they cannot be sorted."""
    order_partitions = lesson.order_partitions

    def never_refuse(partitions, keep_original_order=False):
        try:
            return order_partitions(partitions, keep_original_order)
        except RuntimeError:
            return partitions

    lesson.order_partitions = never_refuse


@wrong(
    fails="test_a_partition_outside_the_cycle_is_not_accused",
    says="everything that was left over when the sort got stuck was named",
)
def everybody_is_accused_of_the_cycle(lesson):
    """Names everything that is left when the sort gets stuck."""
    order_partitions = lesson.order_partitions

    def accuse_all(partitions, keep_original_order=False):
        try:
            return order_partitions(partitions, keep_original_order)
        except RuntimeError:
            names = ", ".join(partition.submod_name for partition in partitions)
            raise RuntimeError(f"cycle between {names}") from None

    lesson.order_partitions = accuse_all


def copy_with(lesson, make):
    """Let the build step copy nodes by ``make(partition, node, target, name)``."""

    def copy_node(partition, node, target=None, name=None):
        partition.environment[node] = make(partition, node, target or node.target, name)

    lesson.build._copy = copy_node


@wrong(fails="test_keyword_arguments_are_copied", says="without node.kwargs")
def kwargs_are_not_copied(lesson):
    """Creates the copy from the positional arguments only."""

    def make(partition, node, target, name):
        arguments = map_arg(node.args, partition.environment.__getitem__)
        return partition.graph.create_node(node.op, target, arguments, {}, name, node.type)

    copy_with(lesson, make)


@wrong(fails="test_copies_use_the_nodes_of_their_own_graph", says="still are the original's nodes")
def arguments_are_not_mapped(lesson):
    """Hands the original's arguments to the copy."""

    def make(partition, node, target, name):
        return partition.graph.create_node(node.op, target, node.args, node.kwargs, name)

    copy_with(lesson, make)


@wrong(fails="test_the_meta_of_a_copy_is_a_copy", says="original and copy share one dict")
def meta_is_shared(lesson):
    """Gives the copy the original's own meta."""

    def make(partition, node, target, name):
        arguments = map_arg((node.args, node.kwargs), partition.environment.__getitem__)
        new = partition.graph.create_node(node.op, target, *arguments, name, node.type)
        new.meta = node.meta
        return new

    copy_with(lesson, make)


@wrong(fails="test_one_value_travels_bare_and_several_as_a_tuple", says="ask returns_bare")
def every_submodule_returns_a_tuple(lesson):
    """Wraps a single value too, and unpacks it again outside."""
    lesson.build.returns_bare = lesson.stitch.returns_bare = lambda *arguments: False


@wrong(
    fails="test_defaults_are_not_copied_into_a_submodule",
    says="the default that it has in the model",
)
def defaults_travel_along(lesson):
    """Copies the model's placeholders as they are."""

    def add_placeholders(partition, keep_original_input_name):
        for value in partition.inputs:
            arguments = value.args if value.op == "placeholder" else ()
            new = partition.graph.create_node("placeholder", value.name, arguments)
            partition.environment[value] = new

    lesson.build._add_placeholders = add_placeholders


def after_building(lesson, change):
    """Let ``change`` spoil the submodules that the reference has built."""
    build_submodule = lesson.build_submodule

    def build_and_change(partition, m, *options):
        submodule = build_submodule(partition, m, *options)
        change(submodule, m)
        return submodule

    lesson.build_submodule = build_and_change


@wrong(
    fails="test_layers_stay_in_the_mode_in_which_they_are",
    says="put into training or evaluation",
)
def submodules_are_put_into_evaluation(lesson):
    """Prepares the pipeline for inference, and the user's own layers with it."""
    after_building(lesson, lambda submodule, m: submodule.eval())


@wrong(
    fails="test_the_example_has_the_modules_as_printed",
    says="holds more than its nodes call",
)
def every_submodule_holds_the_whole_model(lesson):
    """Gives each submodule all modules: every stage of the pipeline has all parameters."""

    def add_all(submodule, m):
        for name, child in m.named_children():
            submodule.add_module(name, child)

    after_building(lesson, add_all)


@wrong(
    fails="test_one_value_travels_bare_and_several_as_a_tuple",
    says="ask returns_bare",
)
def torch_builds_the_submodule(lesson):
    """Lets torch cut the partition out, and doesn't look at what is to go out of it."""

    def build_submodule(partition, m, *options):
        others = {node: f"other_{node.name}" for node in m.graph.nodes}
        numbers = others | dict.fromkeys(partition.nodes, "this")
        return split_module(m, m, numbers.get).submod_this

    lesson.build_submodule = build_submodule


def after_stitching(lesson, change):
    """Let ``change`` spoil the module that the reference has stitched."""
    stitch_graph = lesson.stitch_graph

    def stitch_and_change(m, *arguments):
        split = stitch_graph(m, *arguments)
        change(split, m)
        return split

    lesson.stitch_graph = stitch_and_change


@wrong(fails="test_the_meta_of_the_outer_graph_is_its_own", says="was not carried over")
def the_outer_graph_has_no_meta(lesson):
    """Carries meta over into the submodules only."""

    def forget(split, m):
        for node in split.graph.nodes:
            node.meta.clear()

    after_stitching(lesson, forget)


@wrong(
    fails="test_the_result_computes_with_its_submodules",
    says="the model itself was run",
)
def the_model_itself_is_run(lesson):
    """Shows a graph of submodules, and computes with the model that was given."""
    after_stitching(lesson, lambda split, m: setattr(split, "forward", m.forward))


@wrong(fails="test_parameters_are_shared_and_not_copied", says="the parameter was copied")
def parameters_are_copied(lesson):
    """Gives the pipeline parameters of its own."""
    attribute_of = lesson.stitch.attribute_of
    lesson.stitch.attribute_of = lambda *arguments: copy.deepcopy(attribute_of(*arguments))


@wrong(fails="test_the_outer_graph_calls_the_submodules_in_turn", says="its inputs, is missing")
def submodules_get_no_inputs(lesson):
    """Calls every submodule without arguments."""

    def call(self, partition, tuple_return):
        new = self.graph.call_module(partition.submod_name)
        self.values.update(dict.fromkeys(partition.outputs, new))

    lesson.stitch._Frame.call = call


@wrong(
    fails="test_a_partition_resumes_and_suspends_what_reaches_beyond_it",
    says="stands in the wrong order",
)
def the_innermost_region_is_suspended_first(lesson):
    """Lists the exits in the order in which they run, which turns them round once too often."""
    follow_regions = lesson.follow_regions

    def turn_round(graph, partitions):
        follow_regions(graph, partitions)
        for partition in partitions:
            partition.suspended.reverse()

    lesson.follow_regions = turn_round


@wrong(
    fails="test_an_exit_leaves_the_autocast_that_it_names",
    says="an exit has its enter as argument",
)
def an_exit_leaves_what_was_entered_last(lesson):
    """Keeps a stack of open regions, and doesn't ask the exit which one it means."""

    def close(leave, inside):
        inside.popitem()[1].leave = leave

    lesson.regions._close = close


@right(core_only=True)
def assignment_in_two_loops(lesson):
    """Collects the answers first, and makes the partitions from them."""

    def assign_nodes(graph, split_callback, partition_affix=None):
        found = [node for node in graph.nodes if node.op.startswith("call_")]
        numbers = {node: split_callback(node) for node in found}
        prefix = "" if partition_affix is None else partition_affix + "_"
        return [
            lesson.Partition(
                f"{prefix}{number}", number, [node for node in found if numbers[node] == number]
            )
            for number in dict.fromkeys(numbers.values())
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
            one.outputs |= {v: [] for _, maker, v in crossing if maker is one}
        for user, maker, v in dict.fromkeys(crossing):
            if maker and user:
                maker.outputs[v].append(user)

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
        return [first, *order(rest, done | {first.name})]

    def order_recursively(partitions, keep_original_order=False):
        order_partitions(partitions, keep_original_order)  # refuses what has no order
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
    names = " needs ".join(partition.submod_name for partition in circle)
    value = next(value for value, maker in circle[0].inputs.items() if maker is circle[1])
    return RuntimeError(f"cycle: {names}; one of the values is `{value}`")


@right
def order_by_looking_again_and_again(lesson):
    """Picks the first partition whose makers have all run; what is left then is a cycle."""

    def order_partitions(partitions, keep_original_order=False):
        waiting, ordered = list(partitions), []
        while waiting:
            done = {partition.name for partition in ordered}
            ready = [p for p in waiting if not set(p.dependencies) - done]
            if not ready:
                raise cycle_among(waiting)
            ordered.append(ready[0])
            waiting.remove(ready[0])
        if keep_original_order:
            refuse_late_makers(partitions)
        return partitions if keep_original_order else ordered

    lesson.order_partitions = order_partitions


def outputs_of(graph, call, values):
    """The new node of each value that a call returns."""
    if len(values) == 1:
        return dict.fromkeys(values, call)
    return {value: graph.call_function(getitem, (call, at)) for at, value in enumerate(values)}


@right(core_only=True)
def one_frame_for_everything(lesson):
    """Stitches in one plain loop, and lets the outer module compile its children again."""

    def stitch_graph(
        m,
        submodules,
        keep_original_order=False,
        keep_original_node_name=False,
        tuple_return=False,
    ):
        graph, values, parts = Graph(), {}, {}

        def bring(nodes):
            for node in nodes:
                if node.op in {"placeholder", "get_attr"} and node not in values:
                    values[node] = graph.node_copy(node)
                if node.op == "placeholder" and keep_original_node_name:
                    values[node].target = node.name
                if node.op == "get_attr":
                    parts[node.target] = attrgetter(node.target)(m)
            return tuple(values.get(node) for node in nodes)

        late = {"get_attr"} if keep_original_order else set()
        bring([node for node in m.graph.nodes if node.op not in late])
        for partition, submodule in submodules.items():
            parts[partition.submod_name] = submodule
            call = graph.call_module(partition.submod_name, bring(partition.inputs))
            values |= outputs_of(graph, call, partition.outputs)
        output = m.graph.output_node()
        bring(output.all_input_nodes)
        graph.output(map_arg(output.args[0], values.__getitem__))
        split = GraphModule(parts, graph)
        split.meta["partition_names"] = {partition.submod_name for partition in submodules}
        return split

    lesson.stitch_graph = stitch_graph
