"""Answers to ``unflatten``: mistakes that the suite must catch, and other ways to be right."""

from __future__ import annotations

import copy
import dataclasses
import inspect

import torch
from torch import nn
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from tests.suite.answers import right, wrong

# --- the outline


@wrong(fails="test_each_call_of_a_module_is_a_call_of_its_own", says="were taken for one")
def loses_the_number_of_the_call(lesson):
    """Groups by the path alone."""
    levels = lesson._levels
    lesson._levels = lambda entries: tuple(each._replace(call=0) for each in levels(entries))


@wrong(
    fails="test_a_node_belongs_to_the_innermost_call_that_it_was_recorded_in",
    says="filed under an outer module",
)
def looks_at_the_outermost_module_only(lesson):
    """Groups once, not level by level."""
    levels = lesson._levels
    lesson._levels = lambda entries: levels(entries)[:1]


@wrong(fails="test_a_node_without_a_stack_is_refused", says="RuntimeError that names relu")
def files_what_has_no_stack_under_the_root(lesson):
    """Takes an empty stack for the root's."""
    with_stacks = lesson._with_stacks

    def tolerant(nodes):
        nodes = list(nodes)
        for node in nodes:
            node.meta.setdefault("nn_module_stack", {"root": ("", "Root")})
        return with_stacks(nodes)

    lesson._with_stacks = tolerant


@wrong(fails="test_a_path_that_leads_elsewhere_ends_the_stack", says="so the stack ends there")
def trusts_every_path(lesson):
    """Makes a level of every entry."""

    def levels(entries):
        found = [(key, name.partition("@")[0], ty) for key, (name, ty) in entries.items()]
        return tuple(
            lesson.Level(path, int(key.rpartition("@")[2]) if "@" in key else 0, ty)
            for key, path, ty in found
            if path
        )

    lesson._levels = levels


@wrong(fails="test_a_call_that_is_interrupted_becomes_two", says="both parts of the call")
def gives_both_parts_of_a_call_one_name(lesson):
    """Trusts that a call is never interrupted."""
    lesson.outline = lesson.graphs.core.outline


@wrong(
    fails="test_the_second_part_of_a_call_isnt_taken_for_the_next_call",
    says="the number that export gave to the second call",
)
def gives_a_second_part_the_next_number(lesson):
    """Counts on, though the number may be that of another call."""

    def outline(graph):
        root, seen = lesson.graphs.core.outline(graph), {}
        for call in root.walk():
            key = call.path, call.index
            call.index += seen.get(key, 0)
            seen[key] = seen.get(key, 0) + 1
        return root

    lesson.outline = outline


# --- inputs and outputs


@wrong(
    fails="test_inputs_are_found_wherever_they_stand_among_the_arguments",
    says="was overlooked",
)
def overlooks_keywords(lesson):
    """Looks for nodes among the positional arguments."""

    def values_used(call):
        for item in call.body:
            found = []
            if not isinstance(item, lesson.ModuleCall):
                map_arg(item.args, found.append)
            yield from getattr(item, "inputs", found)

    lesson._values_used = values_used


@wrong(fails="test_a_module_reads_all_state_below_it", says="what a child owns was handed in")
def reads_only_what_is_registered_on_the_module_itself(lesson):
    """Leaves the parameters of children to the children."""
    is_below = lesson.is_below

    def directly(path, ancestor):
        rest = path.removeprefix(f"{ancestor}.")
        return is_below(path, ancestor) and (not ancestor or "." not in rest)

    lesson.is_below = directly


@wrong(fails="test_a_name_that_only_begins_alike_isnt_below", says="path and a dot")
def sinks_a_parameter_into_a_module_with_a_like_name(lesson):
    """Compares names without the dot."""
    lesson.is_below = lambda path, ancestor: bool(path) and path.startswith(ancestor)


@wrong(
    fails="test_all_names_of_a_tensor_are_known",
    says="what has the same identity is one tensor",
)
def forgets_the_alias(lesson):
    """Knows the name that export lifted the tensor by."""
    state_names = lesson.state_names
    lesson.state_names = lambda program: {
        placeholder: names[:1] for placeholder, names in state_names(program).items()
    }


@wrong(
    fails="test_what_a_callee_reads_isnt_handed_through_its_callers",
    says="the callers hold the parameters",
)
def reads_all_state_at_the_root(lesson):
    """Hands every parameter from the root through all calls."""

    def at_the_root(root, names):
        for call in root.walk():
            used = dict.fromkeys(lesson._values_used(call))
            for value in [value for value in used if value < call.first]:
                if call is root and value.name in names:
                    call.state[value] = names[value.name][0]
                elif call is not root:
                    call.inputs.append(value)
        placeholders = root.first.graph.find_nodes(op="placeholder")
        root.inputs = [node for node in placeholders if node.name not in names]

    lesson.infer_inputs = at_the_root


@wrong(fails="test_the_root_takes_all_inputs_of_the_program", says="an input that nobody uses")
def leaves_out_unused_inputs(lesson):
    """Gives the root what it needs, like any other call."""
    infer_inputs = lesson.infer_inputs

    def without_unused(root, names):
        infer_inputs(root, names)
        root.inputs = [value for value in root.inputs if value.users]

    lesson.infer_inputs = without_unused


@wrong(
    fails="test_several_values_are_returned_in_the_order_they_were_made",
    says="expected: ['add', 'tanh']",
)
def returns_the_last_value(lesson):
    """Takes a module's last node for its result."""

    def last_value(root):
        for call in root.walk():
            call.outputs = [] if call is root else [call.last]

    lesson.infer_outputs = last_value


@wrong(
    fails="test_several_values_are_returned_in_the_order_they_were_made",
    says="the order is that of use",
)
def returns_in_the_order_of_use(lesson):
    """Sorts the results by their first use."""
    infer_outputs = lesson.infer_outputs

    def by_use(root):
        infer_outputs(root)
        for call in root.walk():
            call.outputs.sort(key=lambda value: min(user for user in value.users))

    lesson.infer_outputs = by_use


# --- the graph of a call


@wrong(fails="test_a_graph_takes_its_inputs_and_reads_its_state", says="has the `meta` of")
def forgets_the_metadata(lesson):
    """Makes new nodes, and leaves them without a shape."""
    add_inputs = lesson.CallGraph.add_inputs

    def without_meta(self):
        add_inputs(self)
        for node in self.copies.values():
            node.meta = {"val": torch.empty(0)}

    lesson.CallGraph.add_inputs = without_meta


@wrong(fails="test_a_call_in_the_body_becomes_one_node", says="name below the caller")
def calls_by_the_full_name(lesson):
    """Takes the callee's path for the name that its caller knows."""
    add_call = lesson.CallGraph.add_call

    def by_the_full_name(self, callee):
        add_call(self, callee)
        callee.call_node.target = callee.path

    lesson.CallGraph.add_call = by_the_full_name


@wrong(fails="test_several_results_travel_as_a_list", says="takes the items out")
def returns_the_first_of_several(lesson):
    """Returns one value, whatever the number of outputs."""

    def add_output(self):
        self.graph.output([self.value(value) for value in self.call.outputs[:1]])

    lesson.CallGraph.add_output = add_output


# --- state


@wrong(fails="test_two_names_of_one_tensor_hold_one_copy", says="a copy of its own")
def copies_every_name(lesson):
    """Clones each tensor as it comes."""
    lesson.restore_state = lambda program: lesson.as_registered(
        program, {name: copy.deepcopy(each) for name, each in lesson.state_values(program).items()}
    )


@wrong(
    fails="test_the_copies_share_no_memory_with_the_program",
    says="training the tree would change it",
)
def registers_the_programs_own_tensors(lesson):
    """Doesn't copy."""
    lesson.restore_state = lambda program: lesson.as_registered(
        program, lesson.state_values(program)
    )


@wrong(fails="test_requires_grad_and_persistence_are_restored", says="wants gradients unless")
def wants_gradients_of_everything(lesson):
    """Makes a new nn.Parameter and forgets the flag."""
    restore_state = lesson.restore_state

    def trainable(program):
        state = restore_state(program)
        for item in state.values():
            if isinstance(item.value, nn.Parameter):
                item.value.requires_grad_(True)
        return state

    lesson.restore_state = trainable


@wrong(fails="test_an_attribute_is_registered_as_what_it_is", says="register_buffer with")
def saves_every_buffer(lesson):
    """Registers a buffer without a look at ``persistent``."""
    register = lesson.Attribute.register
    lesson.Attribute.register = lambda self, module, name: register(
        dataclasses.replace(self, persistent=True), module, name
    )


@wrong(
    fails="test_one_memory_that_is_read_differently_stays_so",
    says="a parameter is a tensor of its own",
)
def makes_a_parameter_of_a_buffer(lesson):
    """Has one copy for a parameter and for a buffer that looks at its memory."""
    lesson.state._key = lesson.state.identity


@wrong(fails="test_a_copy_lies_in_memory_as_the_original_does", says="the copy is contiguous")
def copies_row_by_row(lesson):
    """Makes every copy contiguous."""
    restore_state = lesson.restore_state

    def contiguous(program):
        state = restore_state(program)
        for item in state.values():
            item.value.data = item.value.data.contiguous()
        return state

    lesson.restore_state = contiguous


# --- modules


@wrong(fails="test_a_module_runs_its_graph", says="whatever the order of the call")
def appends_the_keywords(lesson):
    """Puts the values of the keywords behind the positional arguments."""
    forward = lesson.InterpreterModule.forward
    lesson.InterpreterModule.forward = lambda self, *args, **kwargs: forward(
        self, *args, *kwargs.values()
    )


@wrong(fails="test_a_module_reads_from_its_owner", says="interpret the graph in")
def leaves_the_graph_to_itself(lesson):
    """Lints the graph against the module that has it, not the one it reads from."""
    finalize = lesson.InterpreterModule.finalize

    def to_itself(self):
        finalize(self)
        self.graph.owning_module = self

    lesson.InterpreterModule.finalize = to_itself


@wrong(fails="test_the_root_takes_its_arguments_apart", says="order of in_spec before flattening")
def flattens_as_it_comes(lesson):
    """Takes keywords in the order of the call."""

    def flatten(self, args, kwargs):
        return pytree.tree_flatten_with_path((args, kwargs))[0]

    lesson.UnflattenedModule.input_leaves = flatten


@wrong(fails="test_every_call_has_a_module", says="to the later ones as `owner`")
def lets_every_call_own_its_state(lesson):
    """Makes each module as if it were the first."""

    def make_modules(root, tree):
        for call in root.walk():
            call.module = lesson.InterpreterModule(lesson.CallGraph(call).graph, call.type_name)
        tree.graph, root.module = root.module.graph, tree

    lesson.make_modules = make_modules


@wrong(
    fails="test_it_runs_like_the_eager_model",
    says="every path of the module call graph, in its order",
)
def registers_in_the_order_of_the_calls(lesson):
    """Registers a module when it is first called."""
    attach = lesson.attach
    lesson.attach = lambda root, state, paths: attach(root, state, [])


@wrong(
    fails="test_the_first_call_in_the_graph_gets_the_number_0",
    says="its index becomes 0",
)
def keeps_the_number_of_the_first_call(lesson):
    """Leaves the numbers of calls as export wrote them."""
    make_modules = lesson.make_modules

    def keeping(root, tree):
        numbers = {call: call.index for call in root.walk()}
        make_modules(root, tree)
        for call, number in numbers.items():
            call.index = number

    lesson.make_modules = keeping


# --- sharing


@wrong(fails="test_equal_graphs_have_equal_keys", says="write nodes by their number")
def compares_by_name(lesson):
    """Takes the text of a graph for what it does."""
    lesson.graph_key = str


@wrong(
    fails="test_calls_that_do_the_same_are_done_by_one_module",
    says="every call kept a module of its own",
)
def shares_callers_before_callees(lesson):
    """Begins with the outer modules, whose targets still differ."""
    share, walk = lesson.share_equal_bodies, lesson.ModuleCall.walk

    def callers_first(root):
        calls = sorted(walk(root), key=lambda call: call.path.count("."))
        lesson.ModuleCall.walk = lambda self: iter(calls)
        share(root)
        lesson.ModuleCall.walk = walk

    lesson.share_equal_bodies = callers_first


@wrong(fails="test_graphs_that_differ_in_a_detail_have_different_keys", says="compare all")
def compares_the_last_name_of_a_target(lesson):
    """Takes two children of the same name below different modules for one."""
    node_key = lesson._node_key

    def without_prefix(node, results):
        operation, target, arguments = node_key(node, results)
        return operation, str(target).rpartition(".")[2], arguments

    lesson._node_key = without_prefix


@wrong(
    fails="test_bodies_that_call_other_children_differ",
    says="what the model returns differs",
)
def shares_bodies_that_differ(lesson):
    """Compares operations and arguments, but not which child is called."""
    node_key = lesson.graphs.core._node_key

    def without_children(node, results):
        operation, target, arguments = node_key(node, results)
        return operation, None if operation == "call_module" else target, arguments

    lesson.graphs.core._node_key = without_children


@wrong(
    fails="test_calls_with_other_shapes_share_a_module_if_they_do_the_same",
    says="a body is what it does",
)
def compares_the_shapes_too(lesson):
    """Takes metadata for part of what a body does."""
    node_key = lesson.graphs.core._node_key

    def with_shape(node, results):
        return node_key(node, results), str(getattr(node.meta.get("val"), "shape", None))

    lesson.graphs.core._node_key = with_shape


@wrong(fails="test_graphs_that_differ_in_a_detail_have_different_keys", says="compare all")
def shares_bodies_with_other_constants(lesson):
    """Compares which values go into an operation, and nothing else."""

    def node_key(node, results):
        target = None if node.op == "placeholder" else node.target
        return node.op, target, tuple(results[value] for value in node.all_input_nodes)

    lesson._node_key = node_key


@wrong(fails="test_graphs_that_differ_in_a_detail_have_different_keys", says="1 == 1.0")
def takes_equal_numbers_for_the_same(lesson):
    """Compares arguments with ``==``, so that 1 is 1.0 is True."""

    def node_key(node, results):
        arguments = map_arg((node.args, dict(node.kwargs)), results.__getitem__)
        leaves, structure = pytree.tree_flatten(arguments)
        target = None if node.op == "placeholder" else node.target
        return node.op, target, tuple(leaves), str(structure)

    lesson._node_key = node_key


@wrong(
    fails="test_calls_that_do_something_else_keep_their_bodies",
    says="not just the first or the last",
)
def compares_with_the_first_body_only(lesson):
    """Gives a body that differs from the first one up."""

    def share_equal_bodies(root):
        first = {}
        for call in root.walk():
            earliest = first.setdefault(call.path, call)
            if earliest is not call and do_the_same(call, earliest):
                join(root, call, earliest)

    lesson.share_equal_bodies = share_equal_bodies


@wrong(
    fails="test_a_hook_on_a_module_with_two_names_fires_for_both",
    says="there are two modules, and the hook stands on one",
)
def shares_by_the_name(lesson):
    """Takes another name for another module."""
    lesson.share_equal_bodies = lesson.graphs.core.share_equal_bodies


@wrong(fails="test_a_branch_of_cond_finds_a_free_name", says="overwrote the attribute")
def overwrites_the_child(lesson):
    """Puts a branch where export says, whatever stands there."""

    def freed(owner, name):
        if hasattr(owner, name):
            delattr(owner, name)
        return name

    lesson.graphs._free_name = freed


# --- mutations, tokens, signatures


@wrong(
    fails="test_without_its_token_an_operation_does_the_same", says="several results move up by one"
)
def drops_keywords_with_the_token(lesson):
    """Calls the operation with its positional arguments."""
    call_directly = lesson.tokens._call_directly

    def without_keywords(node):
        node.kwargs = {}
        call_directly(node)

    lesson.tokens._call_directly = without_keywords


@wrong(fails="test_a_functional_program_does_the_same", says="the program's graph was edited")
def edits_the_programs_graph(lesson):
    """Doesn't copy the graph before it prepares it."""
    lesson._copied = lambda graph: graph


@wrong(fails="test_a_functional_program_does_the_same", says="the state differs")
def drops_the_mutation_of_a_buffer(lesson):
    """Takes the mutated values off the outputs and forgets them."""

    def drop(graph, signature):
        output = graph.output_node()
        mutations = len(output.args[0]) - len(signature.user_outputs)
        output.args = (output.args[0][mutations:],)
        return {}

    lesson.restore_mutations = drop


@wrong(
    fails="test_every_tree_of_a_program_is_one_of_its_own",
    says="make everything anew",
)
def remembers_the_tree(lesson):
    """Makes one tree per program, and hands it out again."""
    unflatten, made = lesson.unflatten, {}

    def remembering(module, flat_args_adapter=None):
        if module not in made:
            made[module] = unflatten(module, flat_args_adapter)
        return made[module]

    lesson.unflatten = remembering


@wrong(
    fails="test_a_child_of_a_dispatched_module_can_be_swapped",
    says="share the first body's registries",
)
def copies_the_registries(lesson):
    """Gives the dispatcher registries of its own, with the same things in them."""
    dispatcher = lesson.InterpreterModuleDispatcher
    init = dispatcher.__init__

    def copying(self, attrs, call_modules):
        init(self, attrs, call_modules)
        for name in ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules"):
            self.__dict__[name] = copy.copy(self.__dict__[name])

    dispatcher.__init__ = copying


@wrong(
    fails="test_a_dispatched_module_has_the_constants_of_the_eager_one",
    says="the dispatcher takes them over",
)
def dispatches_without_constants(lesson):
    """Has no names of constants for the dispatcher."""
    dispatcher = lesson.InterpreterModuleDispatcher
    init = dispatcher.__init__
    dispatcher.__init__ = lambda self, attrs, call_modules: init(self, set(), call_modules)


@wrong(fails="test_a_dispatcher_begins_anew_after_an_exception", says="begins in the middle")
def goes_on_after_an_exception(lesson):
    """Counts calls, whatever becomes of them."""

    def forward(self, *args, **kwargs):
        modules, turn = self.call_modules(), self._turn
        self._turn = 0 if turn + 1 == len(modules) else turn + 1
        return modules[turn](*args, **kwargs)

    lesson.InterpreterModuleDispatcher.forward = forward


@wrong(
    fails="test_the_calls_of_a_preserved_module_take_turns",
    says="the later calls stayed beside the first",
)
def dispatches_nothing(lesson):
    """Leaves each call its own module, though the signature is preserved."""
    lesson.dispatch = lambda root, paths: None


# --- right


@right
def outlines_with_a_stack(lesson):
    """One pass with a stack of open calls, no groups."""
    core = lesson.graphs.core

    def outline(graph):
        nodes = [node for node in graph.nodes if node.op != "placeholder"]
        root = core.ModuleCall("", 0, core._root_type(graph), nodes[0], [])
        open_calls, open_levels = [root], []
        for node, stack in core._with_stacks(nodes):
            pairs = enumerate(zip(stack, open_levels))
            agreed = min(len(stack), len(open_levels))
            common = next((depth for depth, (ours, theirs) in pairs if ours != theirs), agreed)
            del open_calls[common + 1 :], open_levels[common:]
            for level in stack[common:]:
                call = core.ModuleCall(*level, node, [])
                open_calls[-1].body.append(call)
                open_calls.append(call)
                open_levels.append(level)
            open_calls[-1].body.append(node)
        return root

    core.outline = outline


def numbered(root) -> dict:
    return {node: position for position, node in enumerate(root.first.graph.nodes)}


def infer_inputs_of(call, number, names) -> list:
    """Looks at what is inside first; returns what the call is missing."""
    wanted = {}
    for item in reversed(call.body):
        inner = hasattr(item, "body")
        uses = infer_inputs_of(item, number, names) if inner else item.all_input_nodes
        wanted = dict.fromkeys(uses) | wanted
    prefix = f"{call.path}." if call.path else ""
    for value in [value for value in wanted if number[value] < number[call.first]]:
        own = [name for name in names.get(value.name, ()) if name.startswith(prefix)]
        if own:
            call.state[value] = own[0].removeprefix(prefix)
        else:
            call.inputs.append(value)
    return call.inputs


@right
def infers_by_number_and_recursion(lesson):
    """Numbers the nodes, and asks each call for what it is missing and what it has."""

    def infer_inputs(root, names):
        number = numbered(root)
        infer_inputs_of(root, number, names)
        placeholders = [node for node in number if node.op == "placeholder"]
        root.inputs = [node for node in placeholders if node.name not in names]

    def infer_outputs(root):
        number = numbered(root)
        last_use = {node: max(map(number.get, node.users), default=-1) for node in number}
        for call in root.walk():
            made = [getattr(item, "outputs", [item]) for item in call.body]
            end = number[call.last]
            call.outputs = [each for some in made for each in some if last_use[each] > end]

    lesson.infer_inputs, lesson.infer_outputs = infer_inputs, infer_outputs


@right(core_only=True)
def copies_by_identity(lesson):
    """Keeps a table from the identity of the original to its copy."""

    def restore_state(program):
        copies = {}
        for value in lesson.state_values(program).values():
            if id(value) not in copies:
                data = value.detach().clone()
                if isinstance(value, nn.Parameter):
                    data = nn.Parameter(data)
                copies[id(value)] = data.requires_grad_(value.requires_grad)
        values = lesson.state_values(program)
        return lesson.as_registered(
            program, {name: copies[id(value)] for name, value in values.items()}
        )

    lesson.restore_state = restore_state


def do_the_same(one, other) -> bool:
    """Compares the graphs of two calls node for node."""
    left, right = one.module.graph, other.module.graph
    ours, theirs = {}, {}
    for number, (mine, its) in enumerate(zip(left.nodes, right.nodes)):
        ours[mine] = theirs[its] = f"result {number}"
        named = mine.op not in ("placeholder", "output")
        if mine.op != its.op or (named and mine.target != its.target):
            return False
        if arguments(mine, ours) != arguments(its, theirs):
            return False
    return len(left.nodes) == len(right.nodes)


def arguments(node, results) -> str:
    return repr(map_arg((node.args, node.kwargs), results.__getitem__))


def join(root, call, earliest) -> None:
    """Lets the earliest module of two do both calls."""
    parent, _, name = call.name.rpartition(".")
    delattr(root.module.get_submodule(parent), name)
    call.module = earliest.module
    call.redirect(earliest.index)


@right
def shares_after_comparing_pairs(lesson):
    """Compares each body with those before it."""

    def share_equal_bodies(root):
        calls = list(root.walk())
        for position, call in enumerate(calls):
            for earlier in calls[:position]:
                another = earlier.path == call.path and earlier.module is not call.module
                if another and do_the_same(call, earlier):
                    join(root, call, earlier)
                    break

    lesson.graphs.core.share_equal_bodies = share_equal_bodies


@right(core_only=True)
def binds_like_a_function(lesson):
    """Lets ``inspect`` bind the arguments."""

    def forward(self, *args, **kwargs):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(name, kind) for name in self.arg_names]
        bound = inspect.Signature(parameters).bind(*args, **kwargs).args
        return torch.fx.Interpreter(self._owner, graph=self.graph).run(*bound)

    lesson.InterpreterModule.forward = forward


@right
def runs_generated_code(lesson):
    """Runs the code of a body's graph, compiling or not."""

    def forward(self, *args, **kwargs):
        self._check_names(args, kwargs)
        named = [kwargs[name] for name in self.arg_names[len(args) :]]
        self._generate()
        return type(self.graph_module).forward(self._owner, *args, *named)

    lesson.InterpreterModule.forward = forward


@right
def takes_turns_from_a_list(lesson):
    """Keeps the modules whose turn is still to come."""
    dispatcher = lesson.InterpreterModuleDispatcher

    def reset(self):
        self._waiting = []

    def forward(self, *args, **kwargs):
        module, *self._waiting = getattr(self, "_waiting", None) or self._call_modules
        try:
            return module(*args, **kwargs)
        except Exception:
            self.reset()
            raise

    dispatcher.reset, dispatcher.forward = reset, forward


@right
def removes_tokens_from_the_front(lesson):
    """Hands the token on from one operation to the next before it goes."""
    tokens = lesson.tokens

    def remove_tokens(graph, signature):
        token = tokens.InputKind.TOKEN
        names = {spec.arg.name for spec in signature.input_specs if spec.kind is token}
        first = [node for node in graph.find_nodes(op="placeholder") if node.name in names]
        for node in graph.find_nodes(op="call_function", target=tokens.with_effects):
            for item in node.users:
                if item.args[1] == 0:
                    item.replace_all_uses_with(node.args[0])
            tokens._call_directly(node)
        for node in first:
            graph.erase_node(node)

    lesson.remove_tokens = remove_tokens
