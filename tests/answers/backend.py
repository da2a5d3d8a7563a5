"""Answers to ``backend``."""

from __future__ import annotations

from tests.suite.answers import around, on, right, wrong


def move_forwards(graph, loops):
    """Move nodes into the loop of their users, from the first node to the last."""
    for node in graph.nodes:
        users = {loops[user] for user in node.users}
        if loops[node].shape and len(users) == 1:
            (loop,) = users
            if loop[::2] == loops[node][::2]:
                loops[node] = loop


# --- wrong: which nodes fit -----------------------------------------------------------------------


@wrong("test_an_operand_is_read_at_its_place", says="neither one number per row")
def broadcasts_by_the_last_size_alone(lesson):
    """Takes every operand whose last size is the loop's for a column."""

    @around(lesson)
    def place(original, shape, operand):
        return original(shape, operand) or ("column" if operand[-1] == shape[-1] else None)


@wrong("test_any_other_node_does_not_fit", says="expected: False")
def asks_for_the_operator_alone(lesson):
    """Looks up the operator, and ignores its arguments."""

    @on(lesson)
    def fits(node):
        return node.target in lesson.POINTWISE or node.target in lesson.REDUCTIONS


# --- wrong: kernels -------------------------------------------------------------------------------


@wrong(
    "test_a_value_that_leaves_does_not_come_back_to_its_kernel",
    says="cycle exists between partitions",
)
def groups_by_shape(lesson):
    """Puts all nodes of a shape into one kernel."""

    @around(lesson)
    def loops_of(original, graph):
        return {node: loop._replace(level=0) for node, loop in original(graph).items()}


@wrong("test_a_reduction_runs_over_the_shape_of_its_input", says="each element of the input")
def runs_a_reduction_over_its_result(lesson):
    """Gives a reduction the loop of its result."""

    @around(lesson)
    def loop_shape(original, node, loops):
        is_reduction = node.target in lesson.REDUCTIONS and lesson.fits(node)
        return lesson.shape_of(node) if is_reduction else original(node, loops)


@wrong("test_an_input_adds_to_the_level_only_if_its_own_loop_is_another", says="0 + 1 < 3")
def counts_the_highest_input_up(lesson):
    """Adds one to the highest level if any input has another loop."""

    @on(lesson)
    def loops_of(graph):
        loops, epoch = {}, 0
        for node in graph.nodes:
            shape = lesson.loop_shape(node, loops)
            inputs = [loops[each] for each in node.all_input_nodes]
            highest = max((each.level for each in inputs), default=0)
            epoch += lesson.is_barrier(node)
            changes = any(each.shape != shape for each in inputs)
            loops[node] = lesson.Loop(epoch, highest + changes, shape)
        return loops


@wrong("test_two_kernels_stay_apart", says="both sides of the write")
def moves_past_writes(lesson):
    """Forgets the barriers."""

    @around(lesson)
    def loops_of(original, graph):
        return {node: loop._replace(epoch=0) for node, loop in original(graph).items()}


@wrong("test_a_node_joins_the_loop_of_its_users", says="from the last node to the first")
def moves_the_first_nodes_first(lesson):
    """Goes through the graph from its first node to its last."""
    lesson.join_users = move_forwards


@wrong("test_each_partition_comes_after_those_that_it_needs", says="`add` needs `mm`")
def keeps_the_order_of_the_first_nodes(lesson):
    """Returns the partitions as ``assign_nodes`` does."""
    lesson.order_partitions = lambda partitions: partitions


# --- wrong: passes and C --------------------------------------------------------------------------


@wrong("test_a_node_that_uses_a_row_waits_for_the_next_pass", says="before the pass has computed")
def makes_one_pass(lesson):
    """Runs everything in one pass over a row."""
    lesson.phases = lambda kernel: [list(kernel.nodes)]


@wrong("test_a_value_per_column_is_kept_for_a_later_pass", says="gone at the next column")
def keeps_nothing(lesson):
    """Believes that a variable lives until the last pass."""

    @on(lesson.CWriter)
    def is_kept(self, node):
        return False


@wrong("test_printed_c_computes_what_eager_does", says="the numbers that the eager model returns")
def prints_six_digits(lesson):
    """Prints numbers with a fixed number of digits."""
    lesson.constant = lambda argument: (
        {None: "NAN"}.get(argument)
        or (argument if isinstance(argument, str) else f"{argument:f}f")
        .replace("inff", "INFINITY")
        .replace("-INFINITY", "(-INFINITY)")
    )


# --- wrong: the graph that calls the kernels ------------------------------------------------------


@wrong("test_inputs_may_have_strides", says="a contiguous tensor")
def checks_and_passes_on_the_original(lesson):
    """Calls ``checked``, and ignores what it returns."""

    @around(lesson)
    def checked(original, node, tensor):
        original(node, tensor)
        return tensor


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def moves_until_nothing_moves(lesson):
    """Goes through the graph from its first node to its last, again and again."""

    @on(lesson)
    def join_users(graph, loops):
        before = None
        while before != loops:
            before = dict(loops)
            move_forwards(graph, loops)


@right(core_only=True)
def peels_phases_off(lesson):
    """Takes away the nodes that can run, again and again."""

    @on(lesson)
    def phases(kernel):
        left, groups = list(kernel.nodes), []
        while left:
            now, waiting = [], set()
            for node in left:
                in_loop = node.target in lesson.REDUCTIONS or not lesson.is_per_row(kernel, node)
                rows = {each for each in now if lesson.is_per_row(kernel, each)}
                used = set(node.all_input_nodes)
                if used & waiting or (in_loop and used & rows):
                    waiting.add(node)
                else:
                    now.append(node)
            groups.append(now)
            left = [node for node in left if node in waiting]
        return groups


@right(core_only=True)
def lists_the_outputs_in_a_tuple(lesson):
    """Returns several outputs as a tuple, and makes them like an empty tensor of the graph."""

    @on(lesson)
    def launcher(kernel, run):
        function = lesson.taking_tensors(run, kernel.shape, kernel.columns)

        def kernel_call(*inputs):
            ready = list(map(lesson.checked, kernel.inputs, inputs))
            empty = lesson.torch.tensor([], dtype=lesson.torch.float32, device="cpu")
            outputs = tuple(empty.new_empty(lesson.shape_of(node)) for node in kernel.outputs)
            function(*ready, *outputs)
            return outputs[0] if kernel.returns_single else outputs

        kernel_call.__name__ = "kernel"
        return kernel_call
