"""``unflatten``: the steps one by one, then the whole, compared with the eager model."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.export.graph_signature import InputKind

from tests import random_models
from tests.models.unflatten import (
    ALIASES,
    BATCH,
    DIFFERENT,
    PREPARED,
    QUICK,
    REAL,
    Aliased,
    Block,
    CalledAlikeInTheEnd,
    CalledDifferently,
    CalledTwice,
    CountedTwice,
    Counter,
    HandsItsParameterDown,
    Keywords,
    LooksLikeTheOwner,
    Mutates,
    Nested,
    Owner,
    Scale,
    Structures,
    Tied,
    TwoNames,
    UsesSeveral,
    UsesSizes,
    as_a_keyword,
    block_and_tanh,
    first_leaves_nothing,
    fixed_norms,
    in_a_list,
    like_eager,
    names,
    numbered_paths,
    one_block,
    one_tanh,
    outlined,
    owns_everything,
    prepared,
    returned,
    settled,
    shown_nodes,
    shown_state,
    shown_values,
    structures,
    three_and_one,
    three_deep,
    training_norms,
    two_inputs,
    uncalled_root,
    without_unused_specs,
    x,
)
from tests.suite import equal, holds, is_value, refuses, same_numbers
from tests.suite.programs import export, exported, program_of


# --- step 1: outline ------------------------------------------------------------------------------
def test_a_node_belongs_to_the_innermost_call_that_it_was_recorded_in(lesson):
    program = program_of(block_and_tanh, x())
    equal(
        outlined(lesson.outline(program.graph)),
        [
            ("0", ["mul", ("0.linear", ["linear"]), "relu"]),
            ("1", ["tanh"]),
            "output",
        ],
        cause=(
            lambda got: "linear" in got[0][1],
            "a node was put into the call of an outer module",
        ),
        hint="group neighbours by their stack's entry at depth 1, each group again at depth 2, …",
    )


def test_two_calls_of_a_module_stay_separate(lesson):
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
        cause=(lambda got: len(got) < 5, "two calls, one after the other, were taken for one"),
        hint="compare the keys of the stacks too: they end in @1, @2, … for later calls",
    )


def test_a_list_of_modules_isnt_a_call(lesson):
    program = program_of(Nested, x())
    equal(
        [call.name for call in lesson.outline(program.graph).calls],
        ["first", "second", "layers.0", "layers.1"],
        cause=(lambda got: "layers" in got, "a container that is never called got a call"),
        hint="keep the whole path: it may have dots although its parent isn't on the stack",
    )


def test_the_class_of_the_eager_module_is_kept(lesson):
    root = lesson.outline(export(nn.Sequential(nn.Tanh()), x()).graph)
    equal(
        [call.type_name for call in root.walk()],
        ["torch.nn.modules.activation.Tanh", "torch.nn.modules.container.Sequential"],
        cause=(lambda got: not any(got), "the second half of a stack's entry was dropped"),
        hint="an entry is (path, class name); the root has one too",
    )


def test_a_node_without_a_stack_is_refused(lesson):
    program = program_of(Block, x())
    next(node for node in program.graph.nodes if node.name == "relu").meta.clear()
    with refuses(
        RuntimeError,
        "relu",
        "nn_module_stack",
        cause="the node was put into a call, or the error doesn't name it",
        hint="name the node and `nn_module_stack`",
    ):
        lesson.outline(program.graph)


def test_a_node_that_a_pass_inserted_joins_the_call_before_it(lesson):
    program = program_of(three_and_one, x())
    mark = "_empty_nn_module_stack_from_metadata_hook"
    for node in program.graph.nodes:
        if node.name in ("relu", "silu"):
            node.meta["nn_module_stack"] = {mark: (mark, mark)}
    equal(
        outlined(lesson.outline(program.graph)),
        ["relu", ("0", [("0.1", ["tanh"]), ("0.2", ["sigmoid", "silu"])]), "output"],
        hint="a node with the key NO_MODULE belongs to the same call as the node before it",
    )


def test_a_path_that_isnt_below_the_one_before_ends_the_stack(lesson):
    program = program_of(block_and_tanh, x())
    nodes = {node.name: node for node in program.graph.nodes}
    stack = nodes["relu"].meta["nn_module_stack"]
    nodes["tanh"].meta["nn_module_stack"] = {**stack, "elsewhere": ("1", "Tanh")}
    equal(
        outlined(lesson.outline(program.graph)),
        [("0", ["mul", ("0.linear", ["linear"]), "relu", "tanh"]), "output"],
        hint="strict export writes such stacks: `1` isn't below `0`, so the stack ends there",
    )


def test_a_number_at_the_end_of_a_path_is_cut_off(lesson):
    root = lesson.outline(numbered_paths(program_of(CalledTwice, x())).graph)
    expected = ["block.linear", "block", "block.linear@1", "block@1", ""]
    cause = (lambda got: any(name.count("@") > 1 for name in got), "the path kept its number")
    hint = "the number of the call is in the key; `path.partition('@')`"
    equal([call.name for call in root.walk()], expected, cause=cause, hint=hint)


# --- step 2: state_names and infer_inputs ---------------------------------------------------------
def test_all_names_of_a_tensor_are_known(lesson):
    names = lesson.state_names(program_of(Tied, x()))
    equal(
        {placeholder: sorted(set(found)) for placeholder, found in names.items()},
        {
            "p_encoder_weight": ["decoder.0.weight", "encoder.weight"],
            "p_encoder_bias": ["encoder.bias"],
            "p_decoder_0_weight": ["decoder.0.weight", "encoder.weight"],
        },
        hint="look in `state_values` for all names of the same object",
    )


def test_a_module_reads_its_own_parameters(lesson):
    calls = settled(lesson, program_of(one_block, x()))
    equal(
        [shown_values(calls["0.linear"].inputs), shown_state(calls["0.linear"])],
        [["mul"], {"p_0_linear_weight": "weight", "p_0_linear_bias": "bias"}],
        cause=[
            (lambda got: "0.linear.weight" in got[1].values(), "the name isn't relative"),
            (lambda got: not got[0], "a value that another call computed is an input as well"),
        ],
        hint="a value is state of a call if one of its names is below the call's path",
    )


def test_callers_dont_pass_the_state_that_a_callee_reads(lesson):
    calls = settled(lesson, program_of(one_block, x()))
    equal(
        [shown_state(calls["0"]), shown_values(calls["0"].inputs), shown_state(calls[""])],
        [{}, ["x"], {}],
        cause=(lambda got: got[0] or got[2], "the callers have the parameters of a callee"),
        hint="a call needs the earlier values that its nodes use or its callees take as inputs",
    )


def test_every_caller_passes_on_a_value_from_outside(lesson):
    calls = settled(lesson, program_of(three_deep, x()))
    equal(
        [shown_values(calls[name].inputs) for name in ("0", "0.0", "0.0.0")],
        [["x"]] * 3,
        cause=(lambda got: [] in got, "a value that only a callee uses isn't passed on to it"),
        hint="start with the callees: their inputs are values that the caller needs",
    )


@pytest.mark.parametrize("make", [in_a_list, as_a_keyword], ids=["in a list", "as a keyword"])
def test_inputs_are_found_anywhere_among_the_arguments(lesson, make):
    calls = settled(lesson, program_of(make, x(3).argsort(), x(3), x(3)))
    equal(
        shown_values(calls["inner"].inputs),
        ["y", "x"],
        cause=(lambda got: len(got) < 2, "a value in a list, or a keyword, was overlooked"),
        hint="`Node.all_input_nodes` includes the nodes in lists and keywords",
    )


def test_a_module_reads_all_state_below_it(lesson):
    call = settled(lesson, program_of(owns_everything, x()))["0"]
    equal(
        [shown_values(call.inputs), list(call.state.values())],
        [["x"], ["weight", "buffer", "constant", "child.bias"]],
        cause=(lambda got: "child.bias" not in got[1], "a value that a child owns was passed in"),
        hint="the names of what a child owns, of any kind, are below the call's path too",
    )


def test_a_module_reads_the_first_of_several_names(lesson):
    root = lesson.outline(program_of(Block, x()).graph)
    weight = ["elsewhere.weight", "linear.weight", "linear.other"]
    lesson.infer_inputs(root, {"p_linear_weight": weight, "p_linear_bias": ["linear.bias"]})
    equal(
        list(root.calls[0].state.values()),
        ["weight", "bias"],
        hint="take the first of the names that is below the call's path",
    )


def test_each_input_is_listed_once_in_the_order_of_first_use(lesson):
    calls = settled(lesson, program_of(two_inputs, x(3), x(3), x(3)))
    equal(
        shown_values(calls["inner"].inputs),
        ["y", "x"],
        cause=(lambda got: len(got) > 2, "a value that is used twice is listed twice"),
        hint="collect the values in a dict: it keeps their order and drops duplicates",
    )


def test_the_root_takes_all_inputs_of_the_program(lesson):
    calls = settled(lesson, program_of(two_inputs, x(3), x(3), x(3)))
    equal(
        shown_values(calls[""].inputs),
        ["x", "y", "unused"],
        cause=(lambda got: "unused" not in got, "an unused input was left out"),
        hint="the root's inputs are the placeholders that aren't state, in the graph's order",
    )


def test_a_tied_parameter_is_read_under_the_name_that_the_module_knows(lesson):
    calls = settled(lesson, program_of(Tied, x()))
    equal(
        [list(calls["encoder"].state.values()), list(calls["decoder.0"].state.values())],
        [["weight", "bias"], ["weight"]],
        cause=(lambda got: got[1] == [] or len(got[0]) < 2, "only one name was looked at"),
        hint="go through all names of a value and take one that is below the call's path",
    )


def test_a_parameter_of_another_module_is_passed_in(lesson):
    calls = settled(lesson, program_of(HandsItsParameterDown, x()))
    equal(
        [shown_values(calls["scale"].inputs), shown_state(calls["scale"]), shown_state(calls[""])],
        [["x", "p_weight"], {}, {"p_weight": "weight"}],
        cause=(lambda got: got[1], "a parameter above the module was taken for its own"),
        hint="it isn't below the call, so it is an input; the first caller that owns it reads it",
    )


def test_a_name_that_only_begins_like_the_path_isnt_below_it(lesson):
    calls = settled(lesson, program_of(LooksLikeTheOwner, x()))
    equal(
        [shown_values(calls["low"].inputs), shown_state(calls[""])],
        [["x", "p_lower_weight"], {"p_lower_weight": "lower.weight"}],
        cause=(lambda got: not got[1], "`lower.weight` was taken for something below `low`"),
        hint="the name must begin with the path and a dot",
    )


@pytest.mark.parametrize("model", [Block, Nested, HandsItsParameterDown])
def test_after_two_steps_a_plain_model_runs(lesson, model):
    eager, program = exported(model, x())
    plain = lesson.unflatten_plain(program)
    same_numbers(
        plain(x()),
        (eager(x()),),
        hint="print `call.inputs` and `call.state` of every call that `outline` finds",
    )


# --- step 3: infer_outputs ------------------------------------------------------------------------
def test_a_call_returns_what_is_needed_after_it(lesson):
    equal(
        returned(lesson, program_of(block_and_tanh, x())),
        {"0.linear": ["linear"], "0": ["relu"], "1": ["tanh"], "": []},
        hint="return values that nodes after the call's last node use, even in other calls",
    )


def test_several_values_are_returned_in_the_order_they_were_made(lesson):
    equal(
        returned(lesson, program_of(UsesSeveral, x()))["several"],
        ["add", "tanh"],
        cause=(is_value(["tanh", "add"]), "the values are in the order of use"),
        hint="go through the body in order; a call inside it adds its own outputs",
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
        cause=(bool, "the last value was returned, though nothing uses it"),
        hint="a value without a user after the call isn't an output",
    )


# --- step 4: CallGraph ----------------------------------------------------------------------------
def test_a_call_that_lacks_a_value_is_refused(lesson):
    program = program_of(one_tanh, x())
    root = lesson.outline(program.graph)
    with refuses(
        RuntimeError,
        "'0'",
        "'x'",
        cause="the graph was built without the value",
        hint="name the call and the value: you need both to find the mistake in infer_inputs",
    ):
        lesson.CallGraph(root.calls[0])


def test_a_graph_takes_its_inputs_and_reads_its_state(lesson):
    call = prepared(lesson, program_of(one_block, x()))["0.linear"]
    graph = lesson.CallGraph(call).graph
    read, output = [("get_attr", "weight"), ("get_attr", "bias")], ("output", "output")
    equal(
        shown_nodes(graph),
        [("placeholder", "mul"), *read, ("call_function", "aten.linear.default"), output],
        hint="first a placeholder for each input, then a get_attr for each piece of state",
    )
    metas = [node.meta for node in graph.nodes][:3]
    equal(
        [metas[0] is call.inputs[0].meta, *(tuple(meta["val"].shape) for meta in metas)],
        [False, (2, 3), (3, 3), (3,)],
        hint="copy the `meta` of the value to its new node",
    )


def test_a_call_in_the_body_becomes_one_node(lesson):
    call = prepared(lesson, program_of(one_block, x()))["0"]
    graph, callee = lesson.CallGraph(call).graph, call.calls[0]
    made = next(node for node in graph.nodes if node.op == "call_module")
    equal(
        (made.target, made.args, made.kwargs),
        ("linear", (made.prev,), {}),
        hint="the target is the callee's name below the caller, and the arguments are its inputs",
    )
    holds(
        callee.caller is call and callee.call_node in graph.nodes,
        "`caller` and `call_node` noted on the callee",
        hint="set both in `add_call`: step 8 redirects calls with them",
    )


def test_several_results_are_returned_as_a_list(lesson):
    calls = prepared(lesson, program_of(UsesSeveral, x()))
    inner, root = lesson.CallGraph(calls["several"]).graph, lesson.CallGraph(calls[""]).graph
    returned = inner.output_node().args[0]
    items = [node.args[1] for node in root.nodes if node.target is operator.getitem]
    equal(
        [[node.name for node in returned], items],
        [["add", "inner"], [0, 1]],
        hint="the call returns a list of its outputs, and the caller picks its items",
    )


# --- step 5: restore_state and Attribute.register -------------------------------------------------
@pytest.mark.parametrize("names", ALIASES, ids=lambda names: names[0])
def test_two_names_of_one_tensor_hold_one_copy(lesson, names):
    state = lesson.restore_state(program_of(Aliased, x()))
    first, second = (state[name].value for name in names)
    holds(
        first is second,
        f"`{names[0]}` and `{names[1]}` hold the same tensor",
        got="two tensors",
        cause=(first is not second, "every name has a separate copy"),
        hint="remember each copy by the `id` of its original",
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
        cause=(bool, "these tensors are the program's: training the tree would change it"),
        hint="copy every tensor, even one that the graph never uses",
    )


def test_state_keeps_the_models_order(lesson, model=Aliased, strict=False):
    program = program_of(model, x(), strict=strict)
    equal(
        list(lesson.restore_state(program)),
        [*program.state_dict, *program.constants],
        hint="go through the names of the program's state, not through its signature",
    )


def test_each_value_is_restored_with_its_kind(lesson, strict=False):
    state = lesson.restore_state(without_unused_specs(program_of(Owner, x(), strict=strict)))
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
        hint="the signature has the kinds of most names; an `nn.Parameter` is always a parameter",
    )


def test_requires_grad_and_persistence_are_restored(lesson):
    program = without_unused_specs(program_of(Owner, x()))
    program.state_dict["unused_buffer"].requires_grad_()
    state = lesson.restore_state(program)
    equal(
        [
            [state[name].value.requires_grad for name in ("frozen", "unused")],
            [state[name].value.requires_grad for name in ("buffer", "unused_buffer")],
            [state[name].persistent for name in ("buffer", "unused_buffer", "passing")],
        ],
        [[False, True], [False, True], [True, True, False]],
        cause=(
            lambda got: got[0][0],
            "a new `nn.Parameter` requires gradients unless you say otherwise",
        ),
        hint="keep `requires_grad`, and take `persistent` from the signature",
    )


def test_an_attribute_is_registered_as_its_kind(lesson):
    state, module = lesson.restore_state(program_of(Owner, x())), nn.Module()
    for name, attribute in state.items():
        attribute.register(module, name)
    equal(
        [
            [name for name, _ in module.named_parameters()],
            [name for name, _ in module.named_buffers()],
            list(module.state_dict()),
            module.constant is state["constant"].value,
        ],
        [
            ["frozen", "unused"],
            ["buffer", "unused_buffer", "passing"],
            ["frozen", "unused", "buffer", "unused_buffer"],
            True,
        ],
        hint="register_parameter, register_buffer with `persistent`, or setattr",
    )


# --- step 6: InterpreterModule and UnflattenedModule ----------------------------------------------
def test_a_module_runs_its_graph(lesson):
    graph = torch.fx.Graph()
    left, right = graph.placeholder("left"), graph.placeholder("right")
    graph.output(graph.call_function(torch.sub, (left, right)))
    module = lesson.InterpreterModule(graph)
    module.finalize()
    same_numbers(
        [module(x(3), x(3) + 1), module(right=x(3) + 1, left=x(3)), module(x(3), right=x(3) + 1)],
        [x(3) - (x(3) + 1)] * 3,
        hint="match keyword arguments to placeholders by name, in any order",
    )


def test_a_module_reads_from_its_owner(lesson):
    graph, owner = torch.fx.Graph(), nn.Linear(3, 2)
    graph.output(graph.create_node("get_attr", "bias"))
    if "owner" not in inspect.signature(lesson.InterpreterModule).parameters:
        pytest.skip("in torch a module owns what it reads")
    module = lesson.InterpreterModule(graph, owner=owner)
    module.finalize()
    holds(
        module() is owner.bias and graph.owning_module is owner,
        "the bias of the owner, which is also the graph's `owning_module`",
        got=module(),
        hint="interpret the graph with `self._owner` as its root",
    )


def test_the_root_flattens_its_arguments(lesson):
    kwargs = {"left": x(3), "right": x(3) + 1}
    root = uncalled_root(lesson, program_of(Keywords, x(3), kwargs=kwargs))
    given = {"right": kwargs["right"], "left": kwargs["left"]}
    same_numbers(
        [[leaf for _, leaf in root.input_leaves((x(3),), given)], root.flat_inputs((x(3),), given)],
        [[x(3), x(3), x(3) + 1]] * 2,
        hint="put the keywords into the order of `in_spec` before you flatten them",
    )


def test_the_root_runs_its_graph_on_the_leaves(lesson):
    args, kwargs = (x(3), x(3)), {"left": x(3), "right": x(3) + 1}
    root = uncalled_root(lesson, program_of(Keywords, x(3), kwargs=kwargs))
    same_numbers(
        root(args[0], **kwargs),
        Keywords()(args[0], **kwargs),
        hint="run the graph on flat_inputs, and give the result the structure of out_spec",
    )


# --- step 7: make_modules and attach --------------------------------------------------------------
def test_every_call_has_a_module(lesson):
    program = program_of(CalledDifferently, x())
    calls, tree = prepared(lesson, program), lesson.UnflattenedModule(program)
    lesson.make_modules(calls[""], tree)
    first, later = calls["branch"].module, calls["branch@1"].module
    holds(
        first is not later and calls[""].module is tree,
        "a module for each call, and the tree for the root's",
        hint="make a module for every call; the root's graph belongs to the tree",
    )
    holds(
        first._owner is first and later._owner is first and not later._parameters,
        "the first call's module to own itself and the module of the later call",
        hint="pass the first module of a path to the later ones as `owner`",
    )
    equal(
        [(call.index, call.module.type_name()) for call in calls.values() if call.path == "branch"],
        [(index, "tests.models.unflatten.Branch") for index in range(3)],
        hint="the index of the first call is 0, and a module has the `type_name` of its call",
    )


def test_the_first_call_in_the_graph_gets_the_number_0(lesson):
    program = program_of(first_leaves_nothing, x())
    calls = prepared(lesson, program)
    lesson.make_modules(calls[""], lesson.UnflattenedModule(program))
    hint = "the first call of a path that you meet owns the state, and its index becomes 0"
    equal([calls["follows@1"].index, calls["follows@1"].name], [0, "follows"], hint=hint)


def test_modules_are_where_the_eager_model_has_them(lesson):
    program = program_of(CalledDifferently, x())
    calls, tree = prepared(lesson, program), lesson.UnflattenedModule(program)
    lesson.make_modules(calls[""], tree)
    state = {"over.there.weight": lesson.Attribute(InputKind.PARAMETER, nn.Parameter(x()))}
    lesson.attach(calls[""], state, ["", "branch@1", "idle", "branch", "branch.linear"])
    equal(
        [name for name, _ in tree.named_modules()][:4],
        ["", "idle", "branch", "branch.linear"],
        hint="register modules in the order of the paths; a path without a call is a plain one",
    )
    holds(
        tree.get_submodule("branch@1") is calls["branch@1"].module
        and tree.get_parameter("over.there.weight") is state["over.there.weight"].value,
        "the module of a later call under its name, and state under its own",
        hint="register the rest after the listed ones, and create any missing parents",
    )


# --- step 8: graph_key and share_equal_bodies -----------------------------------------------------
def test_equal_graphs_have_equal_keys(lesson):
    calls = prepared(lesson, program_of(CalledTwice, x()))
    graphs = [lesson.CallGraph(calls[name]).graph for name in ("block.linear", "block.linear@1")]
    equal(
        len({lesson.graph_key(graph) for graph in graphs}),
        1,
        hint="replace nodes with numbers: names of nodes and of placeholders don't count",
    )


@pytest.mark.parametrize("model", DIFFERENT.values(), ids=DIFFERENT)
def test_graphs_that_differ_in_a_detail_have_different_keys(lesson, model):
    calls = prepared(lesson, program_of(model, torch.arange(6).reshape(2, 3)))
    graphs = [lesson.CallGraph(call).graph for call in calls.values() if call.path == "follows"]
    equal(
        len({lesson.graph_key(graph) for graph in graphs}),
        2,
        hint="compare everything in a node; 1 == 1.0, so compare the text of values",
    )


def test_calls_that_do_the_same_thing_share_a_module(lesson):
    tree = lesson.unflatten(program_of(CalledTwice, x()))
    equal(
        [name for name, _ in tree.named_modules()],
        ["", "block", "block.linear"],
        cause=(lambda got: any("@" in name for name in got), "every call kept a separate module"),
        hint="compare the graphs node by node, not by name; redirect later calls to the first",
    )


@pytest.mark.parametrize("model", [CalledDifferently, CalledAlikeInTheEnd])
def test_calls_that_do_different_things_keep_their_bodies(lesson, model):
    run = like_eager(lesson, model, x())
    holds(
        len([name for name, _ in run.tree.named_modules() if name.startswith("branch@")]) == 1,
        "two bodies for three calls: the third does what one of the others does",
        got=[name for name, _ in run.tree.named_modules()],
        hint="look for an equal one among all bodies of the module, not just the first or last",
    )


# --- the whole: unflatten -------------------------------------------------------------------------
def test_the_state_dict_has_the_keys_and_the_order_of_the_eager_model(lesson, strict=False):
    run = like_eager(lesson, Owner, x(), strict=strict)
    equal(
        list(run.tree.state_dict()),
        list(run.eager.state_dict()),
        hint="register everything that restore_state returns, in its order",
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
        cause=(lambda got: len(got[0]) < 4, "only modules that have a call are in the tree"),
        hint="register a module for every path of the module call graph, if only a plain one",
    )


@pytest.mark.parametrize(
    "model", [Nested, CalledTwice, CalledDifferently, Tied, Aliased, UsesSeveral, CountedTwice]
)
def test_it_runs_like_the_eager_model(lesson, model, **options):
    run = like_eager(lesson, model, x(), **options)
    equal(
        names(run.tree),
        names(run.eager),
        hint="register a module for every path of the module call graph, in its order",
    )


def test_a_module_under_two_names_has_one_set_of_parameters(lesson, strict=False):
    tree = like_eager(lesson, TwoNames, x(), strict=strict).tree
    first = dict(tree.named_parameters(remove_duplicate=False))["first.linear.weight"]
    second = dict(tree.named_parameters(remove_duplicate=False))["second.linear.weight"]
    holds(
        first is second,
        "first.linear.weight and second.linear.weight are one parameter",
        got="two parameters",
        hint="two names for the same memory hold one copy",
    )


def test_the_program_isnt_changed(lesson, **options):
    model, program = exported(CountedTwice, x(), **options)

    def facts() -> list[object]:
        signed = [entry.fqn for entry in program.module_call_graph if entry.signature]
        graph = [str(program.graph), [[*node.meta] for node in program.graph.nodes]]
        return [*graph, list(program.constants), signed, model.counter.count.item()]

    graph, notes, *_ = before = facts()
    lesson.unflatten(program)(x())
    edited = (lambda got: got[0] != graph, "the program's graph was edited")
    robbed = (lambda got: got[1] != notes, "the metadata of the program's nodes was changed")
    hint = "work on a copy of the graph, and of every tensor"
    equal(facts(), before, cause=[edited, robbed], hint=hint)


@pytest.mark.parametrize("model", [fixed_norms, training_norms], ids=["eval", "train"])
def test_batch_norm_updates_its_statistics(lesson, model, functional=False):
    like_eager(lesson, model, x(), functional=functional)


def test_a_mutated_input_is_mutated(lesson, functional=False):
    like_eager(lesson, Mutates, x(), x(), functional=functional)


def test_a_buffer_that_isnt_in_the_state_dict_is_mutated(lesson, functional=False):
    run = like_eager(lesson, Mutates, x(), x(), functional=functional)
    equal(
        [list(run.tree.state_dict()), [name for name, _ in run.tree.named_buffers()]],
        [[], ["count"]],
        cause=(is_value([["count"], ["count"]]), "the buffer became a persistent one"),
        hint="the signature says `persistent=False`: register the buffer with that",
    )


def test_the_state_dict_of_the_eager_model_can_be_loaded(lesson):
    run, other = like_eager(lesson, Nested, x()), Nested()
    run.tree.load_state_dict(other.state_dict())
    same_numbers(
        run.tree(x()),
        other(x()),
        hint="register each tensor under its own name, and read it with `get_attr`",
    )


def test_structured_results_equal_the_eager_ones(lesson, strict=False):
    args, kwargs = structures()
    model, program = exported(Structures, *args, kwargs=kwargs, strict=strict)
    tree = lesson.unflatten(program)
    same_numbers(
        tree(*args, **kwargs),
        model(*args, **kwargs),
        hint="give the leaves the structure of the root's out_spec; constants are in `output`",
    )


def test_an_unknown_keyword_argument_is_refused(lesson):
    kwargs = {"left": x(3), "right": x(3)}
    tree = lesson.unflatten(program_of(Keywords, x(3), kwargs=kwargs))
    with refuses(
        ValueError,
        "middle",
        "left",
        cause="the keyword was ignored, or the error doesn't name it",
        hint="name the keywords that were passed and those that exist",
    ):
        tree(x(3), left=x(3), middle=x(3))


def test_arguments_of_another_structure_are_refused(lesson, capsys):
    tree = lesson.unflatten(program_of(Scale, x(3), x(3)))
    with refuses(
        TypeError,
        cause="arguments of another structure were accepted",
        hint="compare the structure of the arguments with in_spec",
    ):
        tree((x(3), x(3)))


def test_a_dynamic_dimension_may_have_any_size_in_its_range(lesson):
    model, program = exported(Block, x(4, 3), dynamic_shapes=BATCH)
    tree = lesson.unflatten(program)
    same_numbers(
        [tree(x(size, 3)) for size in (3, 5, 8)],
        [model(x(size, 3)) for size in (3, 5, 8)],
        hint="sizes are values of the graph like any others: pass them on",
    )


@pytest.mark.parametrize(
    ("shape", "words"),
    [((1, 3), (">= 3", "1")), ((9, 3), ("<= 8", "9")), ((4, 4), ("3", "4")), ((3,), ("dim",))],
)
def test_an_input_out_of_range_is_refused(lesson, shape, words):
    tree = lesson.unflatten(program_of(Block, x(4, 3), dynamic_shapes=BATCH))
    with refuses(
        RuntimeError,
        *words,
        cause="the inputs weren't checked against the range constraints",
        hint="`torch._export.utils` has the check that exported programs use",
    ):
        tree(x(*shape))


def test_sizes_cross_submodules(lesson, strict=False, preserve=()):
    options = {"dynamic_shapes": BATCH, "strict": strict, "preserve": preserve}
    model, program = exported(UsesSizes, x(4, 3), **options)
    tree = lesson.unflatten(program)
    same_numbers(
        tree(x(6, 3)),
        model(x(6, 3)),
        hint="a size is a node: pass it between modules like any other value",
    )
    equal(
        names(tree),
        names(model),
        cause=(lambda got: "hook" in str(got), "export's mark was taken for a module's name"),
        hint="a node with the key NO_MODULE belongs to the same call as the node before it",
    )


def test_finalize_checks_the_graph(lesson):
    graph = torch.fx.Graph()
    graph.output(graph.create_node("get_attr", "nowhere"))
    with refuses(
        Exception,
        "nowhere",
        cause="the graph names an attribute that isn't there, and no error says so",
        hint="Graph.lint checks a graph against its owning module",
    ):
        lesson.InterpreterModule(graph).finalize()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_random_module_tree_runs_like_the_eager_one(lesson, seed):
    specimen = random_models.tree(seed)
    run = like_eager(lesson, specimen.model, *specimen.inputs)
    equal(
        [names(run.tree), list(run.tree.state_dict())],
        [names(run.eager), list(run.eager.state_dict())],
        hint=f"look at the model: tests.random_models.tree({seed}).model",
    )


@pytest.mark.parametrize("name", QUICK)
def test_a_real_model_comes_back(lesson, name):
    make, args = REAL[name]
    model, program = exported(make, *args)
    tree = lesson.unflatten(program)
    same_numbers(
        tree(*args),
        model(*args),
        hint="print tree.print_readable() and those of its children",
    )
    tree(*args).sum().backward()
    model(*args).sum().backward()
    same_numbers(
        {name: parameter.grad for name, parameter in tree.named_parameters()},
        {name: parameter.grad for name, parameter in model.named_parameters()},
        hint="have one parameter per tensor of the eager model, under each of its names",
    )
    equal(
        [names(tree), list(tree.state_dict())],
        [names(model), list(model.state_dict())],
        hint="register in the order of the module call graph and of the state",
    )


def prepare() -> Iterator[None]:
    """Export the programs of the core's tests, one per step."""
    for case in PREPARED:
        yield case.made()
