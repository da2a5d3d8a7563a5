"""Answers to ``unflatten``: mistakes that the suite must catch, and other ways to be right."""

from __future__ import annotations

from itertools import groupby

from torch.utils import _pytree as pytree

from given.unflatten import NO_MODULE, levels_of
from tests.suite.answers import around, on, right, wrong

# --- which call?


@wrong("test_two_calls_of_a_module_stay_separate", says="were taken for one")
def loses_the_number_of_the_call(lesson):
    """Groups by the path alone."""

    @around(lesson)
    def stacks_of(original, graph):
        return {
            node: tuple(level._replace(call=0) for level in stack)
            for node, stack in original(graph).items()
        }


@wrong(
    "test_a_node_that_a_pass_inserted_joins_the_calls_before_it",
    says="has the stack of the call before it",
)
def believes_every_stack(lesson):
    """Reads the stack of an inserted node as if it had been recorded in a call."""

    @on(lesson)
    def stacks_of(graph):
        stacks = {}
        for node in graph.nodes:
            if node.op.startswith("call_"):
                if not node.meta.get("nn_module_stack"):
                    raise RuntimeError(f"{node.name} has no nn_module_stack")
                stacks[node] = levels_of(node.meta["nn_module_stack"])
        return stacks


@wrong(
    "test_a_node_that_a_pass_inserted_joins_the_calls_before_it",
    says="has the stack of the call before it",
)
def follows_the_first_input(lesson):
    """Puts an inserted node into the call that made its first input."""

    @around(lesson)
    def stacks_of(original, graph):
        stacks = original(graph)
        for node in stacks:
            maker = next(iter(node.all_input_nodes), None)
            if NO_MODULE in node.meta["nn_module_stack"] and maker in stacks:
                stacks[node] = stacks[maker]
        return stacks


@wrong(
    "test_the_nodes_of_a_call_are_those_that_were_recorded_in_it",
    says="the nodes of a callee were left out",
)
def groups_by_the_whole_stack(lesson):
    """Leaves the nodes of callees out of a call."""

    @on(lesson.Outliner)
    def calls_at(self, depth):
        nodes = (node for node in self.graph.nodes if node in self.stacks)
        return [
            lesson.ModuleCall(stack[-1].path, list(group), level=stack[-1])
            for stack, group in groupby(nodes, self.stacks.__getitem__)
            if len(stack) == depth + 1
        ]


@wrong("test_a_call_that_is_interrupted_is_two_calls", says="the halves were joined")
def joins_the_halves_of_an_interrupted_call(lesson):
    """Collects a call's nodes by name, whatever is between them."""

    @on(lesson.Outliner)
    def calls_at(self, depth):
        calls = {}
        for node in self.graph.nodes:
            stack = self.stacks.get(node, ())[: depth + 1]
            if len(stack) > depth:
                call = lesson.ModuleCall(stack[-1].path, level=stack[-1])
                calls.setdefault(stack, call).nodes.append(node)
        return list(calls.values())


# --- borders and state


@wrong(
    "test_several_outputs_are_in_the_order_in_which_they_were_made",
    says="no other node uses is an output",
)
def returns_every_value(lesson):
    """Takes each value that a call computes for an output."""

    @around(lesson)
    def find_borders(original, call):
        original(call)
        call.outputs = dict.fromkeys(call.nodes)


@wrong(
    "test_several_outputs_are_in_the_order_in_which_they_were_made",
    says="go through the call's nodes in order",
)
def orders_outputs_by_their_use(lesson):
    """Goes through the nodes after the call, and collects what they use of it."""

    @around(lesson)
    def find_borders(original, call):
        original(call)
        own, graph = set(call.nodes), call.nodes[0].graph
        used = [each for node in graph.nodes if node not in own for each in node.all_input_nodes]
        call.outputs = dict.fromkeys(value for value in used if value in own)


@wrong("test_a_module_reads_all_state_below_it", says="a child's parameter was passed in")
def reads_only_what_is_registered_on_the_module_itself(lesson):
    """Leaves the parameters of children to the children."""

    @around(lesson.Outliner)
    def read_state(original, self, call):
        names = self.names
        self.names = {
            name: [each for each in same if each.rpartition(".")[0] == call.level.path]
            for name, same in names.items()
        }
        original(self, call)
        self.names = names


@wrong("test_a_module_reads_all_state_below_it", says="is the first name of this parameter")
def reads_a_tensor_by_its_last_name(lesson):
    """Lets a later name win, as a dict does."""

    @around(lesson.Outliner)
    def read_state(original, self, call):
        names = self.names
        self.names = {name: same[::-1] for name, same in names.items()}
        original(self, call)
        self.names = names


@wrong("test_a_module_reads_all_state_below_it", says="add them after all placeholders")
def reads_state_before_the_arguments_come(lesson):
    """Adds the nodes at the beginning of the graph."""

    @around(lesson.Outliner)
    def read_state(original, self, call):
        original(self, call)
        for node in reversed(call.graph.find_nodes(op="get_attr")):
            next(iter(call.graph.nodes)).prepend(node)


@wrong(
    "test_a_tied_parameter_is_read_under_the_name_that_the_module_knows",
    says="only one name was looked at",
)
def knows_one_name_of_a_tensor(lesson):
    """Looks at the name that the graph reads, and at no other."""

    @around(lesson.Outliner)
    def read_state(original, self, call):
        self.names = {name: [name] for name in self.names}
        original(self, call)


# --- one node


@wrong("test_one_node_takes_the_place_of_a_calls_nodes", says="still in the graph")
def leaves_the_nodes_of_the_call_in_the_graph(lesson):
    """Lets later nodes use the call, and doesn't erase what it replaces."""

    @around(lesson.Outliner)
    def replace(original, self, call, name):
        kept, self.graph.erase_node = self.graph.erase_node, lambda node: None
        try:
            return original(self, call, name)
        finally:
            self.graph.erase_node = kept


@wrong("test_the_new_nodes_belong_to_the_calls_around", says="belongs to the call that it makes")
def records_the_call_node_in_its_own_call(lesson):
    """Gives the new node the stack of the nodes that it replaces."""

    @around(lesson.Outliner)
    def replace(original, self, call, name):
        stack = self.stacks[call.nodes[0]]
        node = original(self, call, name)
        self.stacks[node] = stack
        return node


@wrong("test_calls_that_do_the_same_share_a_module", says="calls the module at the call's path")
def calls_the_module_at_the_path(lesson):
    """Takes the name of the call for that of the module that runs it."""

    @around(lesson.Outliner)
    def replace(original, self, call, name):
        return original(self, call, call.name)


# --- modules that run a graph


@wrong("test_a_module_reads_from_its_owner", says="with `self._owner` as its root")
def reads_from_itself(lesson):
    """Takes the module that runs a graph for the one that owns what the graph reads."""

    @on(lesson.InterpreterModule)
    def forward(self, *args, **kwargs):
        inputs = self._signature.bind(*args, **kwargs).args
        return lesson.Interpreter(self, graph=self.graph).run(*inputs)


@wrong("test_a_module_runs_its_graph", says="match keyword arguments to placeholders by name")
def takes_keywords_in_the_order_of_the_call(lesson):
    """Appends the keyword arguments to the positional ones."""

    @on(lesson.InterpreterModule)
    def forward(self, *args, **kwargs):
        inputs = self._signature.bind(*args, *kwargs.values()).args
        return lesson.Interpreter(self._owner, graph=self.graph).run(*inputs)


@wrong("test_arguments_of_another_structure_are_refused", says="another structure were accepted")
def flattens_whatever_comes(lesson):
    """Takes the leaves of any arguments."""

    @on(lesson.UnflattenedModule)
    def forward(self, *args, **kwargs):
        leaves = pytree.tree_leaves((args, kwargs))
        result = lesson.InterpreterModule.forward(self, *leaves)
        return pytree.tree_unflatten(result, self.out_spec)


# --- the tree


@wrong("test_every_body_has_a_module", says="the owner of `path@1` is the module at `path`")
def lets_every_body_own_its_state(lesson):
    """Makes the module of a later body as it makes the first."""

    @on(lesson)
    def make_modules(tree, calls):
        made = {
            name: lesson.InterpreterModule(call.graph, call.level.type_name)
            for name, call in calls.items()
        }
        return {"": tree, **made}


@wrong("test_modules_are_where_the_eager_model_has_them", says="in the order of the paths")
def registers_children_in_the_order_of_their_calls(lesson):
    """Begins with the modules that have a graph."""

    @around(lesson)
    def attach(original, modules, state, paths):
        original(modules, state, [*modules, *paths])


@wrong("test_modules_are_where_the_eager_model_has_them", says="was registered in its turn")
def takes_later_calls_for_modules_of_the_model(lesson):
    """Registers every path that the program lists, also one with an `@`."""

    @around(lesson)
    def attach(original, modules, state, paths):
        for path in paths:
            if "@" in path:
                lesson.install(modules[""], path, modules[path])
        original(modules, state, paths)


@wrong("test_modules_are_where_the_eager_model_has_them", says="the buffer is a plain attribute")
def sets_state_as_attributes(lesson):
    """Assigns each value, which registers parameters alone."""

    @around(lesson)
    def attach(original, modules, state, paths):
        owners = [name.rpartition(".")[0] for name in state]
        original(modules, {}, [*paths, *owners])
        for name, attribute in state.items():
            parent, _, field = name.rpartition(".")
            setattr(modules[parent], field, attribute.value)


# --- right


@right
def walks_the_stacks_like_brackets(lesson):
    """Opens a call where a stack grows, and closes it where a stack shrinks."""

    @on(lesson.Outliner)
    def calls_at(self, depth):
        calls, around = [], ()
        for node in self.graph.nodes:
            if node in self.stacks:
                stack = self.stacks[node][: depth + 1]
                if len(stack) > depth:
                    if stack != around:
                        calls.append(lesson.ModuleCall(stack[-1].path, level=stack[-1]))
                    calls[-1].nodes.append(node)
                around = stack
        return calls


@right
def numbers_the_nodes(lesson):
    """Decides by position what was made before a call, and what is used after it."""

    @on(lesson)
    def find_borders(call):
        position = {node: at for at, node in enumerate(call.nodes[0].graph.nodes)}
        first, last = position[call.nodes[0]], position[call.nodes[-1]]
        for node in call.nodes:
            for value in node.all_input_nodes:
                if position[value] < first or value.op == "get_attr":
                    call.inputs[value] = None
        call.outputs = {
            node: None for node in call.nodes if any(position[user] > last for user in node.users)
        }


@wrong(
    "test_a_call_comes_after_an_input_that_is_among_its_nodes",
    says="insert it after the call's last node",
)
def replaces_before_the_first_node(lesson):
    """Puts the call before the nodes that it replaces, and so before one of its inputs."""

    @around(lesson.Outliner)
    def replace(original, self, call, name):
        first, node = call.nodes[0].prev, original(self, call, name)
        first.append(node)
        return node


@right(core_only=True)
def replaces_before_the_last_node(lesson):
    """Puts the call before the last node that it replaces, and updates each user."""

    @on(lesson.Outliner)
    def replace(self, call, name):
        with self.graph.inserting_before(call.nodes[-1]):
            node = self.graph.call_module(name, tuple(call.inputs))
            values = lesson.values_of(node, call)
        stack = self.stacks[call.nodes[0]]
        around = stack[: stack.index(call.level)]
        for new in {node, *values.values()}:
            self.stacks[new] = around
        for value, new in values.items():
            for user in list(value.users):
                user.replace_input_with(value, new)
        while call.nodes:
            self.graph.erase_node(call.nodes.pop())
        return node
