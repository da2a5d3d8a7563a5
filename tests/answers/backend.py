"""Answers to ``backend``."""

from __future__ import annotations

import math

from tests.suite.answers import around, on, right, wrong

# --- wrong: which nodes fit -----------------------------------------------------------------------


@wrong("test_an_operand_is_read_at_its_place", says="expected: None")
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
    says="kernels that each can run before what needs them",
)
def groups_by_shape(lesson):
    """Puts all nodes of a shape into one kernel."""

    @around(lesson)
    def loops_of(original, graph):
        return {node: loop._replace(level=0) for node, loop in original(graph).items()}


@wrong("test_a_single_node_is_not_a_kernel", says="got: [1, 1]")
def makes_kernels_of_single_nodes(lesson):
    """Keeps groups of one node."""

    @on(lesson)
    def kernels(graph):
        found = {}
        for node, loop in lesson.loops_of(graph).items():
            if loop.shape:
                found.setdefault(loop, lesson.Kernel(loop.shape)).nodes.append(node)
        return list(found.values())


@wrong("test_nodes_after_a_reduction_stay_in_its_loop", says="one number per row")
def leaves_rows_to_loops_of_their_own(lesson):
    """Gives each node its own shape."""

    @on(lesson)
    def loop_shape(node, loops):
        if not lesson.fits(node):
            return None
        source = node.args[0] if node.target in lesson.REDUCTIONS else node
        return lesson.shape_of(source)


@wrong("test_nothing_moves_past_a_write", says="got: [4]")
def moves_past_writes(lesson):
    """Forgets the barriers."""

    @around(lesson)
    def loops_of(original, graph):
        return {node: loop._replace(epoch=0) for node, loop in original(graph).items()}


@wrong("test_a_node_follows_its_user_to_a_later_loop", says="from the last node to the first")
def starts_everything_early(lesson):
    """Computes levels, and leaves each node where it could run first."""

    @on(lesson)
    def loops_of(graph):
        loops, epoch = {}, 0
        for node in graph.nodes:
            shape = lesson.loop_shape(node, loops)
            inputs = [loops[each] for each in node.all_input_nodes]
            level = max((each.level + (each.shape != shape) for each in inputs), default=0)
            epoch += lesson.is_barrier(node)
            loops[node] = lesson.Loop(epoch, level, shape)
            epoch += lesson.is_barrier(node)
        return loops


@wrong("test_kernels_are_in_the_order_of_their_first_nodes", says="`relu` is before `neg`")
def orders_kernels_by_level(lesson):
    """Lists the kernels of a lower level first."""

    @around(lesson)
    def kernels(original, graph):
        loops = lesson.loops_of(graph)
        return sorted(original(graph), key=lambda kernel: loops[kernel.nodes[0]].level)


# --- wrong: printing ------------------------------------------------------------------------------


@wrong("test_python_needs_memory_for_only_one_chunk", says="a buffer that every chunk uses again")
def works_on_the_whole_at_once(lesson):
    """Makes one chunk of everything."""

    @around(lesson)
    def python_source(original, kernel):
        before, lesson.CHUNK = lesson.CHUNK, math.prod(kernel.shape)
        try:
            return original(kernel)
        finally:
            lesson.CHUNK = before


@wrong("test_a_node_that_uses_a_row_waits_for_the_next_pass", says="expected: [4, 2]")
def makes_one_pass(lesson):
    """Runs everything in one pass over a row."""
    lesson.phases = lambda kernel: [list(kernel.nodes)]


@wrong("test_a_row_from_outside_is_there_in_the_first_pass", says="got: [0, 2]")
def waits_for_rows_from_outside(lesson):
    """Gives a pass of its own to a value per row that another kernel made."""

    @around(lesson)
    def phases(original, kernel):
        places = [lesson.place(kernel.shape, lesson.shape_of(node)) for node in kernel.inputs]
        return [[]] * ("row" in places) + original(kernel)


@wrong("test_without_a_compiler_there_is_one_warning_and_python_runs", says="C++ compiler")
def ends_without_a_compiler(lesson):
    """Lets the error of the compiler pass."""
    lesson.functions = lambda found: [lesson.cpp_function(each) for each in found]


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def searches_for_a_kernel_to_join(lesson):  # noqa: C901
    """Has no levels: from the end, a node joins the first kernel that doesn't wait for another."""

    def leads_outside_and_back(node, kernel, home):
        waiting = [user for user in node.users if home.get(user) is not kernel]
        while waiting:
            user = waiting.pop()
            unit = home.get(user)
            if unit is kernel:
                return True
            ends = unit.outputs if unit else [user]
            after = [each for end in ends for each in end.users]
            waiting += [each for each in after if unit is None or home.get(each) is not unit]
        return False

    @on(lesson)
    def kernels(graph):
        home, made, loops = {}, [], {}
        for node in graph.nodes:
            loops[node] = lesson.Loop(0, len(loops), lesson.loop_shape(node, loops))
        for node in reversed(list(graph.nodes)):
            shape = loops[node].shape
            if lesson.is_barrier(node):
                made.clear()
            if shape:
                fitting = (kernel for kernel in made if kernel.shape == shape)
                free = (each for each in fitting if not leads_outside_and_back(node, each, home))
                home[node] = kernel = next(free, None) or lesson.Kernel(shape)
                kernel.nodes.insert(0, node)
                if kernel not in made:
                    made.append(kernel)
        found = dict.fromkeys(home[node] for node in graph.nodes if node in home)
        return [each for each in found if len(each.nodes) > 1]


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
def says_that_run_returns_nothing(lesson):
    """Tells ``ctypes`` that the C++ function is ``void``."""

    @around(lesson)
    def compiled(original, source):
        run = original(source)
        run.restype = None
        return run


@wrong("test_the_graphs_of_torch_have_kernels_too", says="use `is_node`")
def knows_only_its_own_nodes(lesson):
    """Asks for the class of its own nodes."""
    lesson.is_node = lambda value: isinstance(value, lesson.Node)
