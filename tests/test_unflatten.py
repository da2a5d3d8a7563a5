"""``unflatten``: first the steps one by one, then the whole, judged by the eager model."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from tests.models.unflatten import (
    ALIASES,
    BATCH,
    DIFFERENT,
    PREPARED,
    QUICK,
    REAL,
    Aliased,
    Around,
    Block,
    CalledAlikeInTheEnd,
    CalledDifferently,
    CalledTwice,
    CountedTwice,
    Counter,
    Grown,
    HandsItsParameterDown,
    Keywords,
    LooksLikeTheOwner,
    Mutates,
    Nested,
    Owner,
    Passing,
    Scale,
    Structures,
    Subtract,
    SubtractsBoth,
    Tied,
    TwoInputs,
    TwoNames,
    UsesSeveral,
    UsesSizes,
    block_and_tanh,
    fixed_norms,
    hands_on_to_finds,
    hands_on_to_joins,
    like_eager,
    names,
    one_block,
    one_tanh,
    outlined,
    owns_everything,
    returned,
    settled,
    shown_state,
    shown_values,
    structures,
    subtraction,
    three_deep,
    training_norms,
    x,
)
from tests.suite import equal, holds, refuses, same_numbers
from tests.suite.programs import export, exported, program_of


def test_a_node_belongs_to_the_innermost_call_that_it_was_recorded_in(lesson):
    program = program_of(block_and_tanh, x())
    equal(
        outlined(lesson.outline(program.graph)),
        [
            ("0", ["mul", ("0.linear", ["linear"]), "relu"]),
            ("1", ["tanh"]),
            "output",
        ],
        cause="a node was filed under an outer module, or a call was torn apart",
        hint="group neighbours by their stack's entry at depth 1, each group again at depth 2, …",
    )


def test_each_call_of_a_module_is_a_call_of_its_own(lesson):
    program = program_of(CalledTwice, x())
    equal(
        [(call.path, call.index, call.name) for call in lesson.outline(program.graph).walk()],
        [
            ("block.linear", 0, "block.linear"),
            ("block", 0, "block"),
            ("block.linear", 1, "block.linear@1"),
            ("block", 1, "block@1"),
            ("", 0, ""),
        ],
        cause="two calls of one module, one right after the other, were taken for one",
        hint="the key of a stack's entry ends in @1, @2, … for later calls: compare it, too",
    )


def test_a_list_of_modules_is_no_call(lesson):
    program = program_of(Nested, x())
    equal(
        [call.name for call in lesson.outline(program.graph).calls],
        ["first", "second", "layers.0", "layers.1"],
        cause="a container that is never called got a call, or a name was cut at its dot",
        hint="a path may have dots though its owner isn't on the stack; keep it whole",
    )


def test_the_class_of_the_eager_module_is_kept(lesson):
    root = lesson.outline(export(nn.Sequential(nn.Tanh()), x()).graph)
    equal(
        [call.type_name for call in root.walk()],
        ["torch.nn.modules.activation.Tanh", "torch.nn.modules.container.Sequential"],
        cause="the second half of a stack's entry was dropped",
        hint="an entry is (path, class name); the root has one, too",
    )


def test_a_node_without_a_stack_is_refused(lesson):
    program = program_of(Block, x())
    next(node for node in program.graph.nodes if node.name == "relu").meta.clear()
    with refuses(
        RuntimeError,
        "relu",
        "nn_module_stack",
        cause="the node was filed somewhere, or the error doesn't name it",
        hint="name the node and what it lacks",
    ):
        lesson.outline(program.graph)


def test_a_module_reads_its_own_parameters(lesson):
    calls = settled(lesson, program_of(one_block, x()))
    equal(
        shown_state(calls["0.linear"]),
        {"p_0_linear_weight": "weight", "p_0_linear_bias": "bias"},
        cause="the parameter is an input, or its name isn't relative to the module",
        hint="a value is state of a call if one of its names lies below the call's path",
    )


def test_what_a_callee_reads_isnt_handed_through_its_callers(lesson):
    calls = settled(lesson, program_of(one_block, x()))
    equal(
        [shown_state(calls["0"]), shown_values(calls["0"].inputs), shown_state(calls[""])],
        [{}, ["x"], {}],
        cause="the callers hold the parameters of the module below them",
        hint="a call needs what its nodes use and what its callees get as inputs, no more",
    )


def test_a_value_from_outside_is_handed_in_by_every_caller(lesson):
    calls = settled(lesson, program_of(three_deep, x()))
    equal(
        [shown_values(calls[name].inputs) for name in ("0", "0.0", "0.0.0")],
        [["x"]] * 3,
        cause="a call in the middle doesn't get what only a call inside it uses",
        hint="settle the callees first: their inputs are values that the caller needs",
    )


@pytest.mark.parametrize(
    "make", [hands_on_to_joins, hands_on_to_finds], ids=["in a list", "by keyword"]
)
def test_inputs_are_found_wherever_they_stand_among_the_arguments(lesson, make):
    calls = settled(lesson, program_of(make, x(3), x(3).argsort()))
    equal(
        shown_values(calls["inner"].inputs),
        ["x", "y"],
        cause="only those arguments were looked at that are nodes themselves, or no keywords",
        hint="Node.all_input_nodes has what stands in lists and keywords, too",
    )


def test_a_module_reads_all_state_below_it(lesson):
    call = settled(lesson, program_of(owns_everything, x()))["0"]
    equal(
        [shown_values(call.inputs), list(call.state.values())],
        [["x"], ["weight", "buffer", "constant", "child.bias"]],
        cause="a kind of state is handed in, or what a child owns",
        hint="below the call's path lies what its children own; no matter what kind it is",
    )


def test_of_several_names_a_module_reads_the_first(lesson):
    root = lesson.outline(program_of(Block, x()).graph)
    weight = ["elsewhere.weight", "linear.weight", "linear.other"]
    lesson.infer_inputs(root, {"p_linear_weight": weight, "p_linear_bias": ["linear.bias"]})
    equal(
        list(root.calls[0].state.values()),
        ["weight", "bias"],
        cause="another name of the tensor was taken",
        hint="the names come in an order: take the first that lies below the call",
    )


def test_inputs_stand_once_in_the_order_of_first_use(lesson):
    calls = settled(lesson, program_of(TwoInputs, x(3), x(3), x(3)))
    equal(
        shown_values(calls["inner"].inputs),
        ["y", "x"],
        cause="a value that is used twice is there twice, or the order is another one",
        hint="collect in a dict: it keeps the order and the first of each",
    )


def test_the_root_takes_all_inputs_of_the_program(lesson):
    calls = settled(lesson, program_of(TwoInputs, x(3), x(3), x(3)))
    equal(
        shown_values(calls[""].inputs),
        ["x", "y", "unused"],
        cause="an input that nobody uses was left out, or the order of first use was taken",
        hint="the root's inputs are the placeholders that aren't state, in the graph's order",
    )


def test_a_tied_parameter_is_read_under_the_name_that_the_module_knows(lesson):
    calls = settled(lesson, program_of(Tied, x()))
    equal(
        [list(calls["encoder"].state.values()), list(calls["decoder.0"].state.values())],
        [["weight", "bias"], ["weight"]],
        cause="only one name of the tied parameter was looked at, so one module doesn't own it",
        hint="go through all names of a value and take one that lies below the call's path",
    )


def test_a_parameter_of_another_module_is_handed_in(lesson):
    calls = settled(lesson, program_of(HandsItsParameterDown, x()))
    equal(
        [shown_values(calls["scale"].inputs), shown_state(calls["scale"]), shown_state(calls[""])],
        [["x", "p_weight"], {}, {"p_weight": "weight"}],
        cause="the module was taken for the owner of a parameter that lies above it",
        hint="what isn't below the call is an input; the first caller that owns it reads it",
    )


def test_a_name_that_only_begins_alike_isnt_below(lesson):
    calls = settled(lesson, program_of(LooksLikeTheOwner, x()))
    equal(
        [shown_values(calls["low"].inputs), shown_state(calls[""])],
        [["x", "p_lower_weight"], {"p_lower_weight": "lower.weight"}],
        cause="`lower.weight` was taken for something below `low`",
        hint="compare up to the dot: the name must begin with the path and a dot",
    )


def test_a_call_that_lacks_a_value_is_refused(lesson):
    program = program_of(one_tanh, x())
    root = lesson.outline(program.graph)
    with refuses(
        RuntimeError,
        "'0'",
        "'x'",
        cause="the graph was built without the value",
        hint="name the call and the value: whoever infers inputs wants to know",
    ):
        lesson.CallGraph(root.calls[0])


@pytest.mark.parametrize(
    "model",
    [Block, Nested, one_tanh, HandsItsParameterDown],
    ids=lambda model: model.__name__,
)
def test_after_two_steps_a_plain_model_runs(lesson, model):
    eager, program = exported(model, x())
    plain = lesson.unflatten_plain(program)
    same_numbers(
        plain(x()),
        (eager(x()),),
        cause="a call got another value than the one its nodes used in the flat graph",
        hint="print `call.inputs` and `call.state` of every call that `outline` finds",
    )


def test_a_call_returns_what_is_needed_after_it(lesson):
    equal(
        returned(lesson, program_of(block_and_tanh, x())),
        {"0.linear": ["linear"], "0": ["relu"], "1": ["tanh"], "": []},
        cause="a value that only the call itself uses is returned, or a needed one isn't",
        hint="return what a node after the call's last node uses; mind the nodes in other calls",
    )


def test_several_values_are_returned_in_the_order_they_were_made(lesson):
    equal(
        returned(lesson, program_of(UsesSeveral, x()))["several"],
        ["add", "tanh"],
        cause="an unused value is returned, or the order is that of use",
        hint="go through the body in order; a call inside offers its own outputs",
    )


def test_a_call_may_return_nothing(lesson):
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.counter = Counter()

        def forward(self, x):
            self.counter(x)
            return x + 1

    equal(
        returned(lesson, export(Idle(), x()))["counter"],
        [],
        cause="the last value was returned though nobody needs it",
        hint="no user after the call: no output",
    )


@pytest.mark.parametrize("names", ALIASES, ids=lambda names: names[0])
def test_two_names_of_one_tensor_hold_one_copy(lesson, names):
    state = lesson.restore_state(program_of(Aliased, x()))
    first, second = (state[name].value for name in names)
    holds(
        first is second,
        f"`{names[0]}` and `{names[1]}` hold the same tensor",
        got="two tensors",
        cause="every name got a copy of its own",
        hint="remember the copy by the identity of the original",
    )


def test_the_copies_share_no_memory_with_the_program(lesson):
    program = program_of(Aliased, x())
    originals = {**program.state_dict, **program.constants}
    shared = [
        name
        for name, item in lesson.restore_state(program).items()
        if item.value.untyped_storage().data_ptr() == originals[name].untyped_storage().data_ptr()
    ]
    equal(
        shared,
        [],
        cause="the program's own tensors were registered: training the tree would change it",
        hint="clone every tensor, also one that the graph never uses",
    )


def test_state_keeps_the_models_order(lesson, model=Aliased, strict=False):
    program = program_of(model, x(), strict=strict)
    equal(
        list(lesson.restore_state(program)),
        [*program.state_dict, *program.constants],
        cause="what the signature lists came first, or an unlisted name is missing",
        hint="go through the names of the program's state, not through its signature",
    )


def test_everything_is_restored_as_what_it_was(lesson, strict=False):
    state = lesson.restore_state(program_of(Owner, x(), strict=strict))
    kinds = {name: item.kind.name for name, item in state.items()}
    equal(
        dict(sorted(kinds.items())),
        {
            "buffer": "BUFFER",
            "constant": "CONSTANT_TENSOR",
            "frozen": "PARAMETER",
            "passing": "BUFFER",
            "unused": "PARAMETER",
            "unused_buffer": "BUFFER",
        },
        cause="the kind was guessed, or what isn't used was forgotten",
        hint="the signature knows the kind of what it lists; an nn.Parameter is a parameter",
    )


def test_requires_grad_and_persistence_are_restored(lesson):
    program = program_of(Owner, x())
    program.state_dict["unused_buffer"].requires_grad_()
    state = lesson.restore_state(program)
    equal(
        [
            [state[name].value.requires_grad for name in ("frozen", "unused")],
            [state[name].value.requires_grad for name in ("buffer", "unused_buffer")],
            [state[name].persistent for name in ("buffer", "passing")],
        ],
        [[False, True], [False, True], [True, False]],
        cause="a new nn.Parameter wants gradients unless told not to",
        hint="hand on requires_grad, and `persistent` from the signature",
    )


def test_nested_modules_run_and_are_named_like_the_eager_ones(lesson):
    run = like_eager(lesson, Nested, x())
    equal(
        names(run.tree),
        names(run.eager),
        cause="a module is missing, has another name, or the order is that of the calls",
        hint="the module call graph lists the eager model's modules in its order: register in it",
    )


def test_the_state_dict_has_the_keys_and_the_order_of_the_eager_model(lesson, strict=False):
    run = like_eager(lesson, Owner, x(), strict=strict)
    equal(
        list(run.tree.state_dict()),
        list(run.eager.state_dict()),
        cause="unused state was forgotten, or what is used was registered first",
        hint="register everything that restore_state returns, in its order",
    )


def test_parameters_keep_requires_grad(lesson):
    tree = lesson.unflatten(program_of(Owner, x()))
    equal(
        {name: parameter.requires_grad for name, parameter in tree.named_parameters()},
        {"frozen": False, "unused": True},
        cause="a new nn.Parameter wants gradients unless told not to",
        hint="hand on requires_grad",
    )


def test_gradients_are_those_of_the_eager_model(lesson):
    run = like_eager(lesson, Tied, x())
    run.tree(x()).sum().backward()
    run.eager(x()).sum().backward()
    same_numbers(
        {name: parameter.grad for name, parameter in run.tree.named_parameters()},
        {name: parameter.grad for name, parameter in run.eager.named_parameters()},
        cause="tied parameters are two parameters, or a gradient doesn't reach one",
        hint="register one nn.Parameter under both names",
    )


def test_a_module_without_operations_is_in_the_tree(lesson):
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.identity = nn.Identity()
            self.extras = nn.ParameterList([nn.Parameter(torch.ones(3))])
            self.unused = nn.Linear(3, 3)

        def forward(self, x):
            return self.identity(x) + self.extras[0]

    run = like_eager(lesson, Idle(), x())
    equal(
        [names(run.tree), list(run.tree.state_dict())],
        [names(run.eager), list(run.eager.state_dict())],
        cause="only modules that have a call got a place",
        hint="every path of the module call graph gets a module, a plain one if need be",
    )


def test_a_model_without_operations_runs(lesson):
    class Returns(nn.Module):
        def forward(self, x):
            return x

    like_eager(lesson, Returns(), x())


@pytest.mark.parametrize(
    "model", [CalledTwice, CalledDifferently, Tied, Aliased, UsesSeveral, CountedTwice]
)
def test_it_runs_like_the_eager_model(lesson, model, strict=False):
    run = like_eager(lesson, model, x(), strict=strict)
    equal(
        names(run.tree),
        names(run.eager),
        cause="a module is missing or has another name",
        hint="every path of the module call graph gets a module",
    )


@pytest.mark.parametrize(
    ("model", "modules"),
    [(CalledTwice, ["", "block", "block.linear"]), (Around, ["", "tanh", "linear"])],
    ids=["in a row", "with another between"],
)
def test_calls_that_do_the_same_are_done_by_one_module(lesson, model, modules):
    tree = lesson.unflatten(program_of(model, x()))
    equal(
        [name for name, _ in tree.named_modules()],
        modules,
        cause="every call kept a module of its own",
        hint="compare the graphs node by node, not by name; let the call sites call the first",
    )


def test_calls_with_other_shapes_share_a_module_if_they_do_the_same(lesson):
    class TwoShapes(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x), self.linear(x[:1])

    run = like_eager(lesson, TwoShapes(), x())
    equal(
        [name for name, _ in run.tree.named_modules()],
        ["", "linear"],
        cause="metadata (the shape of values) was compared, too",
        hint="a body is what it does: operations, targets, arguments",
    )


@pytest.mark.parametrize("model", [CalledDifferently, CalledAlikeInTheEnd])
def test_calls_that_do_something_else_keep_their_bodies(lesson, model):
    run = like_eager(lesson, model, x())
    holds(
        len([name for name, _ in run.tree.named_modules() if name.startswith("branch@")]) == 1,
        "two bodies for three calls: the third does what one of the others does",
        got=[name for name, _ in run.tree.named_modules()],
        cause="bodies that differ were shared, or equal ones weren't",
        hint="look for a twin among all bodies of the module, not just the first or the last",
    )


def test_bodies_whose_operations_get_other_values_differ(lesson):
    like_eager(lesson, SubtractsBoth, x())


@pytest.mark.parametrize("model", DIFFERENT.values(), ids=DIFFERENT)
def test_bodies_that_differ_in_a_detail_differ(lesson, model):
    eager, program = exported(model, torch.arange(6).reshape(2, 3))
    same_numbers(
        lesson.unflatten(program)(torch.arange(6).reshape(2, 3)),
        eager(torch.arange(6).reshape(2, 3)),
        cause="two calls share a body, though an argument differs, or its type, or the result",
        hint="compare all that stands in a node; 1 == 1.0, so compare how it is written",
    )


def test_a_module_under_two_names_has_one_set_of_parameters(lesson, strict=False):
    tree = like_eager(lesson, TwoNames, x(), strict=strict).tree
    first = dict(tree.named_parameters(remove_duplicate=False))["first.linear.weight"]
    second = dict(tree.named_parameters(remove_duplicate=False))["second.linear.weight"]
    holds(
        first is second,
        "first.linear.weight and second.linear.weight are one parameter",
        got="two parameters",
        cause="each name got a parameter of its own",
        hint="two names for the same memory hold one copy",
    )


def test_a_module_that_is_called_from_inside_and_outside_its_parent_runs(lesson):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            return self.block.linear(x) + self.block(self.block.linear(x))

    like_eager(lesson, Both(), x())


def test_the_program_stays_as_it_was(lesson, **options):
    model, program = exported(CountedTwice, x(), **options)

    def facts() -> list[object]:
        signed = [entry.fqn for entry in program.module_call_graph if entry.signature]
        return [str(program.graph), list(program.constants), signed, model.counter.count.item()]

    before = facts()
    lesson.unflatten(program)(x())
    equal(
        facts(),
        before,
        cause="the program's graph was edited, or the tree counts in the program's own buffer",
        hint="work on a copy of the graph, and of every tensor",
    )


def test_every_tree_of_a_program_is_one_of_its_own(lesson):
    model, program = exported(CountedTwice, x())
    for _ in range(2):
        eager, tree = copy.deepcopy(model), lesson.unflatten(program)
        same_numbers(
            [tree(x()), tree(x())],
            [eager(x()), eager(x())],
            cause="the tree is the one that was made before, or shares a buffer with it",
            hint="make everything anew; what the program holds is only read",
        )


@pytest.mark.parametrize("model", [fixed_norms, training_norms], ids=["eval", "train"])
def test_batch_norm_updates_its_statistics(lesson, model, functional=False):
    like_eager(lesson, model, x(), functional=functional)


def test_a_mutated_buffer_crosses_submodules(lesson, functional=False):
    like_eager(lesson, CountedTwice, x(), functional=functional)


def test_a_mutated_input_is_mutated(lesson, functional=False):
    like_eager(lesson, Mutates, x(), x(), functional=functional)


def test_a_buffer_that_is_no_part_of_the_state_dict_is_mutated(lesson, functional=False):
    run = like_eager(lesson, Passing, x(), functional=functional)
    equal(
        [list(run.tree.state_dict()), [name for name, _ in run.tree.named_buffers()]],
        [[], ["count"]],
        cause="the buffer became a constant, or a persistent one",
        hint="the signature says `persistent=False`; register it with that",
    )


def test_the_state_dict_of_the_eager_model_can_be_loaded(lesson):
    run, other = like_eager(lesson, Nested, x()), Nested()
    run.tree.load_state_dict(other.state_dict())
    same_numbers(
        run.tree(x()),
        other(x()),
        cause="a graph reads a tensor that isn't the registered one",
        hint="register each tensor where its name says, and read it by get_attr",
    )


@pytest.mark.parametrize("model", [CalledDifferently, Tied, CountedTwice])
def test_it_moves_to_another_dtype_as_a_whole(lesson, model):
    run = like_eager(lesson, model, x())
    same_numbers(
        run.tree.double()(x().double()),
        run.eager.double()(x().double()),
        cause="a body holds a tensor beside the module's registered one",
        hint="later bodies own nothing: they run on the first one's module",
    )


def test_structures_go_in_and_come_out(lesson, strict=False):
    args, kwargs = structures()
    tree = lesson.unflatten(program_of(Structures, *args, kwargs=kwargs, strict=strict))
    holds(
        sorted(tree(*args, **kwargs)) == ["rest", "sum"],
        "a result of the eager model's structure",
        cause="the leaves were returned as they come out of the graph",
        hint="the root's signature has an out_spec: pytree.tree_unflatten",
    )


def test_structured_results_have_the_eager_numbers(lesson):
    args, kwargs = structures()
    model, program = exported(Structures, *args, kwargs=kwargs)
    tree = lesson.unflatten(program)
    same_numbers(
        tree(*args, **kwargs),
        model(*args, **kwargs),
        cause="a leaf is in another place, or a constant was lost",
        hint="keep the order of the leaves; constants stand in the output node",
    )


def test_keyword_arguments_may_come_in_any_order(lesson):
    kwargs = {"left": x(3), "right": x(3) + 1}
    tree = lesson.unflatten(program_of(Keywords, x(3), kwargs=kwargs))
    same_numbers(
        tree(x(3), right=kwargs["right"], left=kwargs["left"]),
        Keywords()(x(3), **kwargs),
        cause="the values were taken in the order of the call",
        hint="bring the keywords into the order of in_spec before flattening",
    )


def test_an_unknown_keyword_argument_is_refused(lesson):
    kwargs = {"left": x(3), "right": x(3)}
    tree = lesson.unflatten(program_of(Keywords, x(3), kwargs=kwargs))
    with refuses(
        ValueError,
        "middle",
        "left",
        cause="the keyword was ignored, or the error doesn't name it",
        hint="name what was given and what is known",
    ):
        tree(x(3), left=x(3), middle=x(3))


def test_arguments_of_another_structure_are_refused(lesson, capsys):
    tree = lesson.unflatten(program_of(Scale, x(3), x(3)))
    with refuses(
        TypeError,
        cause="arguments of another structure were flattened and taken",
        hint="compare the structure of the arguments with in_spec",
    ):
        tree((x(3), x(3)))


def test_a_dynamic_dimension_may_have_any_size_in_its_range(lesson):
    model, program = exported(Block, x(4, 3), dynamic_shapes=BATCH)
    tree = lesson.unflatten(program)
    same_numbers(
        [tree(x(size, 3)) for size in (3, 5, 8)],
        [model(x(size, 3)) for size in (3, 5, 8)],
        cause="a size of the example input was built in",
        hint="sizes are values of the graph like others: hand them on",
    )


@pytest.mark.parametrize(
    ("shape", "words"),
    [((1, 3), (">= 3", "1")), ((9, 3), ("<= 8", "9")), ((4, 4), ("3", "4")), ((3,), ("dim",))],
    ids=["too small", "too large", "static", "rank"],
)
def test_an_input_out_of_range_is_refused(lesson, shape, words):
    tree = lesson.unflatten(program_of(Block, x(4, 3), dynamic_shapes=BATCH))
    with refuses(
        RuntimeError,
        *words,
        cause="the inputs weren't checked against the range constraints",
        hint="torch._export.utils has the check that exported programs use",
    ):
        tree(x(*shape))


def test_sizes_cross_submodules(lesson, strict=False, preserve=()):
    options = {"dynamic_shapes": BATCH, "strict": strict, "preserve": preserve}
    model, program = exported(UsesSizes, x(4, 3), **options)
    tree = lesson.unflatten(program)
    same_numbers(
        tree(x(6, 3)),
        model(x(6, 3)),
        cause="a size wasn't handed on",
        hint="a size is a node; it crosses modules like any other value",
    )
    equal(
        names(tree),
        names(model),
        cause="export's mark for a node of no module was taken for a module's name",
        hint="NO_MODULE instead of a stack: the node belongs wherever its neighbour does",
    )


def test_an_interpreter_module_takes_arguments_by_name(lesson):
    module, left, right = subtraction(lesson), x(3), x(4)[:3]
    same_numbers(
        [module(x=right, y=left), module(y=left, x=right)],
        [Subtract()(left, right)] * 2,
        cause="keywords were taken in the order of the call",
        hint="the names are those of the placeholders",
    )


def test_finalize_checks_the_graph(lesson):
    graph = torch.fx.Graph()
    graph.output(graph.create_node("get_attr", "nowhere"))
    with refuses(
        Exception,
        "nowhere",
        cause="the graph names an attribute that isn't there, and nobody noticed",
        hint="Graph.lint checks a graph against its owning module",
    ):
        lesson.InterpreterModule(graph).finalize()


def test_an_edited_graph_runs_after_finalize(lesson):
    tree = lesson.unflatten(program_of(one_tanh, x()))
    body = tree.get_submodule("0")
    tanh = next(node for node in body.graph.nodes if node.op == "call_function")
    tanh.target = torch.ops.aten.relu.default
    body.finalize()
    same_numbers(
        tree(x()),
        x().relu(),
        cause="what the graph was before the edit is still run",
        hint="run the graph as it is; keep nothing that was made of it",
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_random_module_tree_runs_like_the_eager_one(lesson, seed):
    torch.manual_seed(seed)
    run = like_eager(lesson, Grown(random.Random(seed), depth=2, pool=[]), x(2, 3))
    equal(
        [names(run.tree), [key for key in run.tree.state_dict() if "@" not in key]],
        [names(run.eager), list(run.eager.state_dict())],
        cause="a module or a tensor is missing, or the order is another one",
        hint=f"look at the model: Grown(random.Random({seed}), depth=2, pool=[])",
    )


@pytest.mark.parametrize("name", QUICK)
def test_a_real_model_comes_back(lesson, name):
    make, args = REAL[name]
    model, program = exported(make, *args)
    tree = lesson.unflatten(program)
    same_numbers(
        tree(*args),
        model(*args),
        cause="a value was lost, or read from elsewhere",
        hint="print tree.print_readable() and those of its children",
    )
    tree(*args).sum().backward()
    model(*args).sum().backward()
    same_numbers(
        {name: parameter.grad for name, parameter in tree.named_parameters()},
        {name: parameter.grad for name, parameter in model.named_parameters()},
        cause="a parameter was copied twice, or its gradient goes elsewhere",
        hint="one parameter a tensor of the eager model, under each of its names",
    )
    equal(
        [names(tree), list(tree.state_dict())],
        [names(model), list(model.state_dict())],
        cause="a module or a tensor is missing, or the order is another one",
        hint="register in the order of the module call graph and of the state",
    )


def prepare() -> Iterator[None]:
    """Export what the core's tests ask for, one program a step."""
    for case in PREPARED:
        yield case.made()
