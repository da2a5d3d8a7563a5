"""Answers to ``unflatten``: mistakes that the suite must catch, and other ways to be right."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import types

import torch
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from tests.suite.answers import right, wrong


def replace(lesson, name: str, value) -> None:
    """Put ``value`` wherever the package's modules look ``name`` up."""
    modules = [each for each in vars(lesson).values() if isinstance(each, types.ModuleType)]
    for module in [lesson, *modules]:
        if name in vars(module):
            setattr(module, name, value)


# --- outline


@wrong(fails="test_each_call_of_a_module_is_a_call_of_its_own", says="were taken for one")
def loses_the_number_of_the_call(lesson):
    """Groups by the path alone."""
    levels = lesson.outlines._levels

    def without_numbers(entries):
        return tuple(level._replace(call=0) for level in levels(entries))

    lesson.outlines._levels = without_numbers


@wrong(
    fails="test_a_node_belongs_to_the_innermost_call_that_it_was_recorded_in",
    says="filed under an outer module",
)
def looks_at_the_outermost_module_only(lesson):
    """Groups once, not level by level."""
    levels = lesson.outlines._levels
    lesson.outlines._levels = lambda entries: levels(entries)[:1]


@wrong(fails="test_a_node_without_a_stack_is_refused", says="RuntimeError that names relu")
def files_what_has_no_stack_under_the_root(lesson):
    """Takes an empty stack for the root's."""
    with_stacks = lesson.outlines._with_stacks

    def tolerant(nodes):
        for node in nodes:
            node.meta.setdefault("nn_module_stack", {"root": ("", "Root")})
        return with_stacks(nodes)

    lesson.outlines._with_stacks = tolerant


@wrong(fails="test_a_call_that_is_interrupted_becomes_two", says="both parts of the call")
def gives_both_parts_of_a_call_one_name(lesson):
    """Trusts that a call is never interrupted."""
    lesson.outlines._number_reopened_calls = lambda root: None


@wrong(fails="test_a_call_has_the_number_that_export_gave_it", says="only a digit was read")
def reads_one_digit(lesson):
    """Takes the key's last character for the number of the call."""
    levels = lesson.outlines._levels

    def last_digits(entries):
        return tuple(level._replace(call=level.call % 10) for level in levels(entries))

    lesson.outlines._levels = last_digits


@wrong(
    fails="test_the_second_part_of_a_call_isnt_taken_for_the_next_call",
    says="the number that export gave to the second call",
)
def gives_a_second_part_the_next_number(lesson):
    """Counts on, though the number may be that of another call."""

    def count_on(root):
        seen = {}
        for call in root.walk():
            key = call.path, call.index
            call.index += seen.get(key, 0)
            seen[key] = seen.get(key, 0) + 1

    lesson.outlines._number_reopened_calls = count_on


# --- settle inputs


@wrong(
    fails="test_inputs_are_found_wherever_they_stand_among_the_arguments",
    says="or no keywords",
)
def overlooks_keywords(lesson):
    """Looks for nodes among the positional arguments."""

    def values_used(call):
        for item in call.body:
            if isinstance(item, lesson.ModuleCall):
                yield from item.inputs + item.arguments
            else:
                found = []
                map_arg(item.args, found.append)
                yield from found
        yield from call.results

    lesson.inputs._values_used = values_used


@wrong(fails="test_a_module_reads_all_state_below_it", says="or what a child owns")
def reads_only_what_is_registered_on_the_module_itself(lesson):
    """Leaves the parameters of children to the children."""
    name_below = lesson.inputs._name_below

    def own_name(path, names):
        found = name_below(path, names)
        return found if not path or (found and "." not in found) else None

    lesson.inputs._name_below = own_name


@wrong(fails="test_a_name_that_only_begins_alike_isnt_below", says="path and a dot")
def sinks_a_parameter_into_a_module_with_a_like_name(lesson):
    """Compares names without the dot."""
    replace(lesson, "is_below", lambda path, ancestor: bool(path) and path.startswith(ancestor))


@wrong(
    fails="test_a_tied_parameter_is_read_under_the_name_that_the_module_knows",
    says="go through all names",
)
def forgets_the_alias(lesson):
    """Looks at the name that export lifted the tensor by."""
    settle_inputs = lesson.settle_inputs

    def first_name_only(root, names):
        settle_inputs(root, {placeholder: found[:1] for placeholder, found in names.items()})

    replace(lesson, "settle_inputs", first_name_only)


@wrong(
    fails="test_what_a_callee_reads_isnt_handed_through_its_callers",
    says="the callers hold the parameters",
)
def reads_all_state_at_the_root(lesson):
    """Hands every parameter from the root through all calls."""

    def at_the_root(root, names):
        for call in root.walk():
            needed = [
                value
                for item in call.body
                for value in getattr(item, "inputs", None) or getattr(item, "all_input_nodes", [])
                if value < call.first
            ]
            for value in dict.fromkeys(needed):
                if call is root and value.name in names:
                    call.state[value] = names[value.name][0]
                elif call is not root:
                    call.inputs.append(value)
        placeholders = root.first.graph.find_nodes(op="placeholder")
        root.inputs = [node for node in placeholders if node.name not in names]

    replace(lesson, "settle_inputs", at_the_root)


@wrong(fails="test_the_root_takes_all_inputs_of_the_program", says="an input that nobody uses")
def leaves_out_unused_inputs(lesson):
    """Gives the root what it needs, like any other call."""
    settle_inputs = lesson.settle_inputs

    def without_unused(root, names):
        settle_inputs(root, names)
        root.inputs = [value for value in root.inputs if value.users]

    replace(lesson, "settle_inputs", without_unused)


# --- settle outputs


@wrong(
    fails="test_several_values_are_returned_in_the_order_they_were_made",
    says="expected: ['add', 'tanh']",
)
def returns_the_last_value(lesson):
    """Takes a module's last node for its result."""

    def last_value(root):
        for call in root.walk():
            call.outputs = [] if call is root else [call.last]

    replace(lesson, "settle_outputs", last_value)


@wrong(
    fails="test_several_values_are_returned_in_the_order_they_were_made",
    says="the order is that of use",
)
def returns_in_the_order_of_use(lesson):
    """Sorts the results by their first use."""
    settle_outputs = lesson.settle_outputs

    def by_use(root):
        settle_outputs(root)
        for call in root.walk():
            call.outputs.sort(key=lambda value: min(user for user in value.users))

    replace(lesson, "settle_outputs", by_use)


@wrong(fails="test_a_call_returns_what_is_needed_after_it", says="only the call itself uses")
def returns_every_value(lesson):
    """Returns whatever the module computed."""

    def every_value(root):
        for call in root.walk():
            made = [item.outputs if hasattr(item, "outputs") else [item] for item in call.body]
            call.outputs = [] if call is root else [value for values in made for value in values]

    replace(lesson, "settle_outputs", every_value)


# --- restore state


@wrong(fails="test_two_names_of_one_tensor_hold_one_copy", says="a copy of its own")
def copies_every_name(lesson):
    """Clones each tensor as it comes."""
    restore_state = lesson.restore_state

    def one_by_one(program):
        return {
            name: dataclasses.replace(item, value=copy.deepcopy(item.value))
            for name, item in restore_state(program).items()
        }

    replace(lesson, "restore_state", one_by_one)


@wrong(
    fails="test_the_copies_share_no_memory_with_the_program",
    says="training the tree would change it",
)
def registers_the_programs_own_tensors(lesson):
    """Doesn't copy."""
    restore_state, values_by_name = lesson.restore_state, lesson.state.values_by_name

    def originals(program):
        values = values_by_name(program)
        return {
            name: dataclasses.replace(item, value=values[name])
            for name, item in restore_state(program).items()
        }

    replace(lesson, "restore_state", originals)


@wrong(fails="test_requires_grad_and_persistence_are_restored", says="wants gradients unless")
def wants_gradients_of_everything(lesson):
    """Makes a new nn.Parameter and forgets the flag."""
    restore_state = lesson.restore_state

    def trainable(program):
        state = restore_state(program)
        for item in state.values():
            if item.kind.value == "parameter":
                item.value.requires_grad_(True)
        return state

    replace(lesson, "restore_state", trainable)


@wrong(
    fails="test_one_memory_that_is_read_differently_stays_so",
    says="one copy stands for all",
)
def makes_a_parameter_of_a_buffer(lesson):
    """Has one copy for a parameter and for a buffer that looks at its memory."""
    state = lesson.state
    state._Copies._key = staticmethod(lambda original: state.identity(original.value))


@wrong(fails="test_a_copy_lies_in_memory_as_the_original_does", says="the copy is contiguous")
def copies_row_by_row(lesson):
    """Makes every copy contiguous."""
    restore_state = lesson.restore_state

    def contiguous(program):
        state = restore_state(program)
        for item in state.values():
            item.value.data = item.value.data.contiguous()
        return state

    replace(lesson, "restore_state", contiguous)


# --- mutations and tokens


@wrong(fails="test_without_its_token_an_operation_does_the_same", says="keywords were dropped")
def drops_keywords_with_the_token(lesson):
    """Calls the operation with its positional arguments."""
    call_directly = lesson.tokens._call_directly

    def without_keywords(node):
        node.kwargs = {}
        call_directly(node)

    lesson.tokens._call_directly = without_keywords


@wrong(fails="test_the_program_stays_as_it_was", says="the program's graph was edited")
def edits_the_programs_graph(lesson):
    """Doesn't copy the graph before it prepares it."""
    lesson.copy = types.SimpleNamespace(deepcopy=lambda graph: graph)


@wrong(
    fails="test_every_tree_of_a_program_is_one_of_its_own",
    says="the one that was made before",
)
def remembers_the_tree(lesson):
    """Makes one tree a program, and hands it out again."""
    unflatten, made = lesson.unflatten, {}

    def remembering(module, flat_args_adapter=None):
        if module not in made:
            made[module] = unflatten(module, flat_args_adapter)
        return made[module]

    lesson.unflatten = remembering


@wrong(fails="test_a_mutated_buffer_crosses_submodules", says="mutated in a copy")
def drops_the_mutation_of_a_buffer(lesson):
    """Takes the mutated values off the outputs and forgets them."""
    user_output = lesson.mutations.OutputKind.USER_OUTPUT

    def drop(graph, signature):
        output = graph.output_node()
        values = zip(signature.output_specs, output.args[0])
        output.args = (tuple(value for spec, value in values if spec.kind is user_output),)
        return {}

    replace(lesson, "restore_mutations", drop)


# --- attach, share, dispatch


@wrong(
    fails="test_nested_modules_run_and_are_named_like_the_eager_ones",
    says="the order is that of the calls",
)
def registers_in_the_order_of_the_calls(lesson):
    """Registers a module when it is first called."""
    attach = lesson.attach

    def in_order_of_calls(module, root, state, paths, subgraphs):
        return attach(module, root, state, [], subgraphs)

    replace(lesson, "attach", in_order_of_calls)


@wrong(
    fails="test_bodies_that_call_other_children_differ",
    says="a value was lost, read from elsewhere",
)
def shares_bodies_that_differ(lesson):
    """Compares operations and arguments, but not which child is called."""
    doing = lesson.sharing._doing

    def without_children(node, results):
        operation, target, arguments = doing(node, results)
        return operation, None if operation == "call_module" else target, arguments

    lesson.sharing._doing = without_children


@wrong(
    fails="test_calls_with_other_shapes_share_a_module_if_they_do_the_same",
    says="a body is what it does",
)
def compares_the_shapes_too(lesson):
    """Takes metadata for part of what a body does."""
    doing = lesson.sharing._doing

    def with_shape(node, results):
        return doing(node, results), str(getattr(node.meta.get("val"), "shape", None))

    lesson.sharing._doing = with_shape


@wrong(fails="test_bodies_that_differ_in_a_detail_differ", says="though an argument differs")
def shares_bodies_with_other_constants(lesson):
    """Compares which values go into an operation, and nothing else."""

    def doing(node, results):
        target = None if node.op == "placeholder" else node.target
        return node.op, target, tuple(results[value] for value in node.all_input_nodes)

    lesson.sharing._doing = doing


@wrong(fails="test_bodies_that_differ_in_a_detail_differ", says="or its type")
def takes_equal_numbers_for_the_same(lesson):
    """Compares arguments with ``==``, so that 1 is 1.0 is True."""

    def doing(node, results):
        arguments = map_arg((node.args, dict(node.kwargs)), results.__getitem__)
        leaves, structure = pytree.tree_flatten(arguments)
        target = None if node.op == "placeholder" else node.target
        return node.op, target, tuple(leaves), str(structure)

    lesson.sharing._doing = doing


@wrong(
    fails="test_calls_that_do_something_else_keep_their_bodies",
    says="not just the first or the last",
)
def compares_with_the_first_body_only(lesson):
    """Gives a body that differs from the first one up."""

    def share_equal_bodies(root, bodies):
        first = {}
        for body in bodies:
            twin = first.setdefault(body.call.path, body)
            same = do_the_same(body.module.graph, twin.module.graph)
            if twin is not body and same:
                parent, _, name = body.name.rpartition(".")
                delattr(root.get_submodule(parent), name)
                body.module = twin.module
                body.redirect(twin.name)

    replace(lesson, "share_equal_bodies", share_equal_bodies)


@wrong(
    fails="test_an_interpreter_module_takes_arguments_by_name",
    says="keywords were taken in the order of the call",
)
def appends_the_keywords(lesson):
    """Puts the values of the keywords behind the positional arguments."""
    lesson.InterpreterModule._bind = lambda self, args, kwargs: [*args, *kwargs.values()]


@wrong(
    fails="test_a_child_of_a_dispatched_module_can_be_swapped",
    says="and the bodies call another one",
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
    says="and no plain attributes",
)
def dispatches_without_constants(lesson):
    """Has no names of constants for the dispatcher."""
    lesson.dispatching._constants_of = lambda path, state: set()


@wrong(
    fails="test_calls_of_a_preserved_module_that_do_the_same_are_done_by_one",
    says="behind the other children",
)
def registers_the_dispatcher_anew(lesson):
    """Deletes all bodies, then adds the dispatcher."""

    def put_last(root, bodies, dispatcher):
        path = bodies[0].call.path
        owner, _, field = path.rpartition(".")
        parent = root.get_submodule(owner)
        for name in {body.name for body in bodies}:
            delattr(parent, name.rpartition(".")[2])
        parent.add_module(field, dispatcher)
        for body in bodies:
            body.redirect(path)

    lesson.dispatching._replace = put_last


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
    replace(lesson, "dispatch", lambda root, bodies, state: None)


# --- right


@right
def outlines_with_a_stack(lesson):
    """One pass with a stack of open calls, no groups."""
    outlines = lesson.outlines

    def outline(graph):
        nodes = [node for node in graph.nodes if node.op != "placeholder"]
        stacked = outlines._with_stacks(nodes)
        root = lesson.ModuleCall("", 0, outlines._root_type(stacked), nodes[0], [])
        open_calls, open_levels = [root], []
        for node, stack in stacked:
            common = 0
            for ours, theirs in zip(stack, open_levels):
                if ours != theirs:
                    break
                common += 1
            del open_calls[common + 1 :], open_levels[common:]
            for level in stack[common:]:
                call = lesson.ModuleCall(*level, node, [])
                open_calls[-1].body.append(call)
                open_calls.append(call)
                open_levels.append(level)
            open_calls[-1].body.append(node)
        outlines._number_reopened_calls(root)
        return root

    replace(lesson, "outline", outline)


def numbered(root) -> dict:
    return {node: position for position, node in enumerate(root.first.graph.nodes)}


def settle_inputs_of(call, number, names) -> list:
    """Settles what is inside first; returns what the call is missing."""
    wanted = dict.fromkeys(call.results)
    for item in reversed(call.body):
        inner = hasattr(item, "body")
        uses = settle_inputs_of(item, number, names) + item.arguments if inner else []
        wanted = dict.fromkeys(uses or ([] if inner else item.all_input_nodes)) | wanted
    prefix = f"{call.path}." if call.path else ""
    for value in wanted:
        if number[value] < number[call.first] and value not in call.arguments:
            own = [name for name in names.get(value.name, ()) if name.startswith(prefix)]
            if own:
                call.state[value] = own[0].removeprefix(prefix)
            else:
                call.inputs.append(value)
    return call.inputs


def settle_outputs_of(call, number, last_use, returned=()) -> list:
    """Settles what is inside first; returns what the caller has after the call."""
    made, in_it = {}, {*returned, *call.results}
    for item in call.body:
        inner = hasattr(item, "body")
        made |= dict.fromkeys(settle_outputs_of(item, number, last_use, in_it) if inner else [item])
    inside = range(number[call.first], number[call.last] + 1)
    here = [value for value in made if number[value] in inside]
    call.outputs = [value for value in here if last_use[value] >= inside.stop or value in returned]
    return call.outputs + call.results


@right
def settles_by_number_and_recursion(lesson):
    """Numbers the nodes, and asks each call for what it is missing and what it has."""

    def settle_inputs(root, names):
        number = numbered(root)
        settle_inputs_of(root, number, names)
        placeholders = [node for node in number if node.op == "placeholder"]
        root.inputs = [node for node in placeholders if node.name not in names]

    def settle_outputs(root):
        number = numbered(root)
        last_use = {node: max(map(number.get, node.users), default=-1) for node in number}
        for call in root.walk():
            for value in call.arguments:
                last_use[value] = max(last_use[value], number[call.first])
        settle_outputs_of(root, number, last_use)

    replace(lesson, "settle_inputs", settle_inputs)
    replace(lesson, "settle_outputs", settle_outputs)


def do_the_same(left, right) -> bool:
    """Compares two graphs node for node."""
    ours, theirs = {}, {}
    for number, (mine, other) in enumerate(zip(left.nodes, right.nodes)):
        ours[mine] = theirs[other] = f"result {number}"
        named = mine.op not in ("placeholder", "output")
        if mine.op != other.op or (named and mine.target != other.target):
            return False
        if arguments(mine, ours) != arguments(other, theirs):
            return False
    return len(left.nodes) == len(right.nodes)


def arguments(node, results) -> str:
    return repr(map_arg((node.args, node.kwargs), results.__getitem__))


@right
def shares_after_comparing_pairs(lesson):
    """Compares each body with those before it."""

    def share_equal_bodies(root, bodies):
        for position, body in enumerate(bodies):
            for twin in bodies[:position]:
                another = twin.call.path == body.call.path and twin.module is not body.module
                if another and do_the_same(twin.module.graph, body.module.graph):
                    parent, _, name = body.name.rpartition(".")
                    delattr(root.get_submodule(parent), name)
                    body.module = twin.module
                    body.redirect(twin.name)
                    break

    replace(lesson, "share_equal_bodies", share_equal_bodies)


@right(core_only=True)  # a buffer that looks at a parameter's memory becomes the parameter
def copies_all_state_at_once(lesson):
    """Lets one deepcopy find out what is shared."""
    state = lesson.state

    def restore_state(program):
        values = state.values_by_name(program)
        listed = state.state_inputs(program.graph_signature)
        first = {state.identity(value): value for value in reversed(values.values())}
        owned = {name: first[state.identity(value)] for name, value in values.items()}
        objects = {id(each): each for each in owned.values() if not isinstance(each, torch.Tensor)}
        copies = copy.deepcopy(owned, objects)
        return {
            name: dataclasses.replace(
                state._as_registered(value, listed.get(name), name in program.state_dict),
                value=copies[name],
            )
            for name, value in values.items()
        }

    replace(lesson, "restore_state", restore_state)


@right
def binds_like_a_function(lesson):
    """Lets ``inspect`` bind the arguments."""

    def bind(self, args, kwargs):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(name, kind) for name in self.arg_names]
        return list(inspect.Signature(parameters).bind(*args, **kwargs).args)

    lesson.InterpreterModule._bind = bind


@right
def runs_generated_code(lesson):
    """Runs the code of a body's graph, compiling or not."""

    def forward(self, *args, **kwargs):
        self._check_finalized()
        return type(self.graph_module).forward(self._owner, *self._bind(args, kwargs))

    lesson.InterpreterModule.forward = forward


@right
def takes_turns_from_a_list(lesson):
    """Keeps the modules whose turn is still to come, and dispatches by the order of the graph."""
    dispatcher, dispatch = lesson.InterpreterModuleDispatcher, lesson.dispatch

    def reset(self):
        self._waiting = []

    def forward(self, *args, **kwargs):
        module, *self._waiting = getattr(self, "_waiting", None) or self._call_modules
        try:
            return module(*args, **kwargs)
        except Exception:
            self.reset()
            raise

    def by_the_graph(root, bodies, state):
        dispatch(root, sorted(bodies, key=lambda body: body.call.first), state)

    dispatcher.reset, dispatcher.forward = reset, forward
    replace(lesson, "dispatch", by_the_graph)


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

    replace(lesson, "remove_tokens", remove_tokens)
