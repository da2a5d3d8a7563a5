"""Answers to ``backend``."""

from __future__ import annotations

from tests.suite.answers import around, on, right, wrong

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


@wrong("test_any_other_node_does_not_fit", says="a keyword argument is nan")
def reads_positional_arguments_alone(lesson):
    """Goes through the node's ``args``, and not its ``kwargs``."""

    @on(lesson)
    def arguments(node):
        return dict(enumerate(node.args))


@wrong("test_a_node_of_torch_fits_too", says="use `is_node`")
def knows_only_its_own_nodes(lesson):
    """Asks for the class of its own nodes."""
    lesson.is_node = lambda value: isinstance(value, lesson.Node)


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


@wrong(
    "test_a_node_with_one_number_per_row_runs_in_the_loop_of_an_input",
    says="the higher level decides",
)
def joins_the_first_loop_with_its_rows(lesson):
    """Takes the first of the inputs' loops, whatever their levels."""

    @on(lesson)
    def loop_shape(node, loops):
        if not lesson.fits(node):
            return None
        if node.target in lesson.REDUCTIONS:
            return lesson.shape_of(node.args[0])
        own = lesson.shape_of(node)
        shapes = [loops[each].shape for each in node.all_input_nodes]
        return next((each for each in shapes if each and lesson.row_shape(each) == own), own)


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


@wrong("test_nodes_after_a_reduction_stay_in_its_loop", says="one number per row")
def leaves_rows_to_loops_of_their_own(lesson):
    """Gives each node its own shape."""

    @on(lesson)
    def loop_shape(node, loops):
        if not lesson.fits(node):
            return None
        source = node.args[0] if node.target in lesson.REDUCTIONS else node
        return lesson.shape_of(source)


@wrong("test_nothing_moves_past_a_write", says="both sides of the write")
def moves_past_writes(lesson):
    """Forgets the barriers."""

    @around(lesson)
    def loops_of(original, graph):
        return {node: loop._replace(epoch=0) for node, loop in original(graph).items()}


@wrong("test_a_node_joins_the_loop_of_its_only_user", says="from the last node to the first")
def moves_the_first_nodes_first(lesson):
    """Goes through the graph from its first node to its last."""

    @on(lesson)
    def join_users(graph, loops):
        for node in graph.nodes:
            users = {loops[user] for user in node.users}
            if loops[node].shape and len(users) == 1:
                (loop,) = users
                if loop[::2] == loops[node][::2]:
                    loops[node] = loop


@wrong("test_a_value_from_before_a_write_is_computed_before_it", says="compare the epochs too")
def joins_users_in_a_later_epoch(lesson):
    """Compares the shapes of two loops, and not their epochs."""

    @on(lesson)
    def join_users(graph, loops):
        for node in reversed(list(graph.nodes)):
            users = {loops[user] for user in node.users}
            if loops[node].shape and len(users) == 1:
                (loop,) = users
                if loop.shape == loops[node].shape:
                    loops[node] = loop


@wrong("test_a_node_of_another_shape_than_its_user_stays", says="its user over (4, 3)")
def joins_users_of_another_shape(lesson):
    """Compares the epochs of two loops, and not their shapes."""

    @on(lesson)
    def join_users(graph, loops):
        for node in reversed(list(graph.nodes)):
            users = {loops[user] for user in node.users}
            if loops[node].shape and len(users) == 1:
                (loop,) = users
                if loop.shape and loop.epoch == loops[node].epoch:
                    loops[node] = loop


@wrong("test_each_partition_comes_after_those_that_it_needs", says="`join_users` moves it there")
def leaves_all_nodes_in_their_loops(lesson):
    """Forgets to call ``join_users``."""
    lesson.join_users = lambda graph, loops: None


@wrong("test_a_single_node_is_a_partition_that_is_not_fused", says="a partition of its own")
def groups_what_no_loop_can_run(lesson):
    """Takes equal loops for one kernel, also those without a shape."""

    @on(lesson)
    def kernels(gm):
        loops = lesson.loops_of(gm.graph)
        lesson.join_users(gm.graph, loops)
        levels = {node: (loop.shape, loop.shape and loop.level) for node, loop in loops.items()}
        partitions = lesson.assign_nodes(gm.graph, levels.__getitem__, lesson.Kernel)
        for kernel in partitions:
            kernel.shape = loops[kernel.nodes[0]].shape or ()
        lesson.collect_crossings(gm, partitions)
        return lesson.order_partitions(partitions)


@wrong("test_each_partition_comes_after_those_that_it_needs", says="`add` needs `mm`")
def keeps_the_order_of_the_first_nodes(lesson):
    """Returns the partitions as ``assign_nodes`` does."""
    lesson.order_partitions = lambda partitions: partitions


# --- wrong: passes and C --------------------------------------------------------------------------


@wrong("test_a_node_that_uses_a_row_waits_for_the_next_pass", says="before the pass has computed")
def makes_one_pass(lesson):
    """Runs everything in one pass over a row."""
    lesson.phases = lambda kernel: [list(kernel.nodes)]


@wrong("test_a_node_that_uses_a_row_waits_for_the_next_pass", says="the latest of a node's inputs")
def follows_the_last_argument(lesson):
    """Puts a node into the pass of its last input."""

    @on(lesson)
    def phases(kernel):
        phase = {}
        for node in kernel.nodes:
            inside = [each for each in node.all_input_nodes if each in phase]
            is_per_column = not lesson.is_per_row(kernel, node)
            waits = [phase[n] + (is_per_column and lesson.is_per_row(kernel, n)) for n in inside]
            phase[node] = waits[-1] if waits else 0
        count = max(phase.values()) + 1
        return [[node for node in phase if phase[node] == number] for number in range(count)]


@wrong("test_a_row_from_outside_is_there_in_the_first_pass", says="known before the first pass")
def waits_for_rows_from_outside(lesson):
    """Gives a pass of its own to a value per row that another kernel made."""

    @around(lesson)
    def phases(original, kernel):
        places = [lesson.place(kernel.shape, lesson.shape_of(node)) for node in kernel.inputs]
        return [[]] * ("row" in places) + original(kernel)


@wrong(
    "test_an_operand_is_an_input_a_constant_a_variable_or_in_a_buffer",
    says="a value per row has no buffer",
)
def reads_rows_from_buffers(lesson):
    """Takes everything from an earlier pass out of a buffer."""

    @around(lesson.CWriter)
    def operand(original, self, node, argument):
        if self.phase.get(argument, 9) < self.phase[node]:
            return f"b_{argument.name}[j]"
        return original(self, node, argument)


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


@wrong("test_printed_c_computes_what_eager_does", says="C that compiles")
def forgets_the_semicolon(lesson):
    """Prints a statement as Python has it; the compiler's words have the printed line."""

    @around(lesson.CWriter)
    def after_loop(original, self, node):
        return [line.removesuffix(";") for line in original(self, node)]


# --- wrong: the graph that calls the kernels ------------------------------------------------------


@wrong(
    "test_the_outputs_are_float32_on_the_cpu_whatever_is_the_default",
    says="made with the default dtype and device",
)
def allocates_what_is_the_default(lesson):
    """Makes outputs of the default dtype, on the default device."""

    @on(lesson)
    def launcher(kernel, run):
        function = lesson.taking_tensors(run, kernel.shape, kernel.columns)

        def call(*inputs):
            pairs = zip(kernel.inputs, inputs, strict=True)
            ready = [lesson.checked(node, each) for node, each in pairs]
            outputs = [lesson.torch.empty(lesson.shape_of(node)) for node in kernel.outputs]
            function(*ready, *outputs)
            return outputs[0] if kernel.returns_single else outputs

        call.__name__ = "kernel"
        return call


@wrong("test_inputs_may_have_strides", says="a contiguous tensor")
def checks_and_passes_on_the_original(lesson):
    """Calls ``checked``, and ignores what it returns."""

    @around(lesson)
    def checked(original, node, tensor):
        original(node, tensor)
        return tensor


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def searches_for_a_kernel_to_join(lesson):  # noqa: C901
    """Has no levels: from the end, a node joins the first kernel that doesn't wait for another."""

    def leads_outside_and_back(node, group, home):
        waiting = [user for user in node.users if home.get(user) is not group]
        while waiting:
            user = waiting.pop()
            unit = home.get(user)
            if unit is group:
                return True
            inside = unit[1] if unit else [user]
            waiting += [each for one in inside for each in one.users if each not in inside]
        return False

    @on(lesson)
    def kernels(gm):
        home, made, loops = {}, [], {}
        for node in gm.graph.nodes:
            loops[node] = lesson.Loop(0, len(loops), lesson.loop_shape(node, loops))
        for node in reversed(list(gm.graph.nodes)):
            shape = loops[node].shape
            if lesson.is_barrier(node):
                made.clear()
            if shape:
                fitting = (group for group in made if group[0] == shape)
                free = (each for each in fitting if not leads_outside_and_back(node, each, home))
                home[node] = group = next(free, None) or (shape, [])
                group[1].insert(0, node)
                if not any(group is each for each in made):
                    made.append(group)
        names = {node: id(home.get(node, node)) for node in gm.graph.nodes}
        partitions = lesson.assign_nodes(gm.graph, names.__getitem__, lesson.Kernel)
        for kernel in partitions:
            kernel.shape = loops[kernel.nodes[0]].shape or ()
        lesson.collect_crossings(gm, partitions)
        return lesson.order_partitions(partitions)


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
def stores_before_it_keeps(lesson):
    """Writes an output first, and its buffer second; names no result of its own twice."""

    @on(lesson.CWriter)
    def in_loop(self, node):
        name = node.name
        if node.target in lesson.REDUCTIONS:
            (x,) = node.all_input_nodes
            step = lesson.REDUCTIONS[node.target].step
            return [f"{step};".format(s=f"s_{name}", x=self.operand(node, x))]
        if lesson.is_per_row(self.kernel, node):
            return []
        lines = [f"const float v_{name} = ({self.expression(node)});", *self.store(node, "whole")]
        return [*lines, *[f"b_{name}[j] = v_{name};"] * self.is_kept(node)]


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
