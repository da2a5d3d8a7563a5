"""``unflatten``: the steps one by one, then the whole, compared with the eager model."""

from __future__ import annotations

import inspect
import operator

import pytest
import torch
from torch import nn

from given.capture import Attribute
from given.unflatten import NO_MODULE, parts_of
from tests.models.unflatten import (
    ALIASES,
    BATCH,
    REAL,
    Aliased,
    Block,
    Keywords,
    Mutates,
    Nested,
    Owner,
    Scale,
    Structures,
    UsesSizes,
    as_a_keyword,
    block_and_tanh,
    called_alike_in_the_end,
    called_differently,
    called_twice,
    calls_in,
    calls_of,
    counted_twice,
    hands_its_parameter_down,
    idle,
    in_a_list,
    interrupted_program,
    like_eager,
    looks_like_the_owner,
    names,
    one_block,
    outlined,
    owns_everything,
    random_tree,
    root_of,
    shown,
    shown_state,
    structures,
    subtraction,
    three_and_one,
    tied,
    training_norms,
    twice,
    two_names,
    uses_several,
    without_unused_specs,
    x,
)
from tests.suite import equal, holds, is_value, noting, refuses, same_numbers
from tests.suite.engine import symbolic_trace
from tests.suite.programs import exported, program_of
from tests.zoo import Model


# --- step 1: stacks_of and calls_at ---------------------------------------------------------------
def test_every_call_around_a_node_is_in_its_stack(lesson):
    graph = program_of(block_and_tanh, x()).graph
    relu = next(node for node in graph.nodes if node.name == "relu")
    with graph.inserting_before(relu):
        graph.create_node("get_attr", "branch").meta = dict(relu.meta)
    stacks = lesson.stacks_of(graph)
    equal(
        {node.name: [level.path for level in stack] for node, stack in stacks.items()},
        {"mul": ["", "0"], "linear": ["", "0", "0.linear"], "relu": ["", "0"], "tanh": ["", "1"]},
        cause=(lambda got: "branch" in got, "a `get_attr` node computes nothing"),
        hint="`levels_of` reads one node's `nn_module_stack`; only nodes that compute have one",
    )


@pytest.mark.parametrize("meta", [{}, {"nn_module_stack": {}}], ids=["none", "empty"])
def test_a_node_without_a_stack_is_refused(lesson, meta):
    program = program_of(Block, x())
    next(node for node in program.graph.nodes if node.name == "relu").meta = dict(meta)
    with refuses(RuntimeError, "relu", "nn_module_stack"):
        lesson.stacks_of(program.graph)


def test_a_node_that_a_pass_inserted_joins_the_calls_before_it(lesson):
    graph = program_of(three_and_one, x()).graph
    _, relu, tanh, *_, silu, _ = graph.nodes
    silu.args = (tanh,)
    with graph.inserting_before(silu):
        graph.create_node("get_attr", "branch")
    for node in (relu, silu):
        node.meta["nn_module_stack"] = node.meta["nn_module_stack"] | {NO_MODULE: ("", "")}
    other = (lambda error: error.args[0].op[:4] != "call", "a node that isn't a call has no stack")
    with noting(cause=other, on=(KeyError,)):
        stacks = lesson.stacks_of(graph)
    equal(
        {node.name: [level.path for level in stack][-1:] for node, stack in stacks.items()},
        {"relu": [""], "tanh": ["0.1"], "sigmoid": ["0.2"], "silu": ["0.2"]},
        hint="a node with the key NO_MODULE has the stack of the call before it, else `(ROOT,)`",
    )


def test_the_nodes_of_a_call_are_those_that_were_recorded_in_it(lesson):
    outliner = outlined(lesson, program_of(block_and_tanh, x()))
    relu = next(node for node in outliner.graph.nodes if node.name == "relu")
    with outliner.graph.inserting_before(relu):
        outliner.graph.create_node("get_attr", "branch")
    outliner.stacks = dict(reversed(outliner.stacks.items()))
    equal(
        [shown(outliner.calls_at(1)), shown(outliner.calls_at(2))],
        [
            [("0", ["mul", "linear", "relu"]), ("1", ["tanh"])],
            [("0.linear", ["linear"])],
        ],
        cause=[
            (lambda got: got[0][0][0] == "1", "the order is that of `stacks`, not of `graph`"),
            (lambda got: got[0][0][0] == "", "the root's own call has depth 0, not 1"),
            (
                lambda got: "linear" not in got[0][0][1],
                "the nodes of a callee were left out, or divided the call",
            ),
            (lambda got: "branch" in str(got), "a `get_attr` node is in no call"),
            (lambda got: len(got[0]) == 3, "a `get_attr` node, which is in no call, divides one"),
            (lambda got: got[1][0][0] == "0", "a stack that ends at depth 1 has no call at 2"),
            (lambda got: got[1][0][0] == "linear", "the name isn't the whole path"),
        ],
        hint="the stacks of a call's nodes agree down to the depth, whatever is below",
    )


def test_two_calls_of_a_module_stay_separate(lesson):
    outliner = outlined(lesson, program_of(called_twice, x()))
    equal(
        [(call.name, call.level.call, len(call.nodes)) for call in outliner.calls_at(1)],
        [("block", 0, 3), ("block", 1, 3)],
        cause=[
            (is_value([("block", 0, 6)]), "two calls, one after the other, were taken for one"),
            (is_value([("block", 0, 3)] * 2), "both calls have a `level` with the number 0"),
        ],
        hint="two calls of a module have the same path, but levels with different numbers",
    )


def test_a_call_that_is_interrupted_is_two_calls(lesson):
    outliner = outlined(lesson, interrupted_program(three_and_one))
    equal(
        shown(outliner.calls_at(1)),
        [("0", ["relu"]), ("0", ["sigmoid"]), ("1", ["silu"])],
        cause=(
            lambda got: ("0", ["relu", "sigmoid"]) in got,
            "the halves were joined; tanh, between them, needs the first and feeds the second",
        ),
        hint="only neighbours belong to one call",
    )


# --- step 2: find_borders and read_state ----------------------------------------------------------
def test_values_from_before_a_call_go_in_and_values_used_after_it_come_out(lesson):
    calls = calls_of(lesson, program_of(block_and_tanh, x()))
    equal(
        {
            name: [[*map(str, call.inputs)], [*map(str, call.outputs)]]
            for name, call in calls.items()
        },
        {
            "0": [["x", "_0_linear_weight", "_0_linear_bias"], ["relu"]],
            "1": [["relu"], ["tanh"]],
            "0.linear": [["mul", "_0_linear_weight", "_0_linear_bias"], ["linear"]],
        },
        cause=[
            (lambda got: "mul" in got["0"][1], "a value that only the call itself uses comes out"),
            (lambda got: "mul" in got["0"][0], "a value that the call computes is an input"),
            (lambda got: not got["1"][1], "the graph's `output` node uses a value too"),
            (lambda got: got["0.linear"][0][2] == "mul", "the inputs aren't in order of first use"),
        ],
        hint="ask which values a call's nodes use, and who uses the values that they compute",
    )


@pytest.mark.parametrize(
    "make", [in_a_list, as_a_keyword, twice], ids=["in a list", "as a keyword", "twice"]
)
def test_inputs_are_found_anywhere_among_the_arguments(lesson, make):
    call = calls_of(lesson, program_of(make, x(3).argsort(), x(3), x(3)))["inner"]
    equal(
        [*map(str, call.inputs)],
        ["y", "x"],
        cause=(lambda got: len(got) < 2, "a value in a list, or a keyword, was overlooked"),
        hint="`Node.all_input_nodes` has each input once, also from lists and keywords",
    )


def test_several_outputs_are_in_the_order_in_which_they_were_made(lesson):
    call = calls_of(lesson, program_of(uses_several, x()))["several"]
    equal(
        [*map(str, call.outputs)],
        ["add", "tanh"],
        cause=[
            (lambda got: len(got) == 3, "a value that no other node uses is an output"),
            (lambda got: len(got) == 1, "only one value is an output"),
            (is_value(["tanh", "add"]), "the outputs aren't in the order of the graph"),
        ],
        hint="go through the call's nodes in order; a value without a user outside isn't an output",
    )


def test_any_user_outside_makes_a_value_an_output(lesson):
    graph = torch.fx.Graph()
    first = graph.call_function(abs, (graph.placeholder("x"),))
    second = graph.call_function(operator.neg, (first,))
    last = graph.call_function(max, (first, second))
    graph.output(last)

    def outputs(*nodes):
        call = lesson.ModuleCall("block", [*nodes])
        lesson.find_borders(call)
        return [*call.outputs]

    found = [outputs(first, second), outputs(first, second, last)]
    second.args = second.args  # from now on the last of the users
    equal(
        [*found, outputs(first, second)],
        [[first, second], [last], [first, second]],
        cause=[
            (lambda got: first in got[1], "only nodes of the call use abs_1"),
            (lambda got: [second] in got[::2], "abs_1 was left out, though max_1 uses it"),
        ],
        hint="look at all users of a value: one outside is enough",
    )


def test_a_module_reads_its_own_parameters(lesson):
    program = program_of(one_block, x())
    for node in program.graph.nodes:
        node.meta["note"] = node.name
    call = calls_of(lesson, program, reads=True)["0.linear"]
    equal(
        [[*map(str, call.inputs)], shown_state(call)],
        [["mul"], ["bias", "weight"]],
        cause=[
            (lambda got: "0.linear.weight" in got[1], "the name isn't relative to the module"),
            (lambda got: len(got[0]) == 3 and got[1], "what the module reads is still an input"),
            (lambda got: not got[1], "no state was found: its names are below the call's path"),
        ],
    )
    nodes = [node for node in call.graph.nodes if node.op in ("placeholder", "get_attr")]
    equal(
        {str(node.target): node.meta.get("note") for node in nodes},
        {"mul": "mul", "weight": "p_0_linear_weight", "bias": "p_0_linear_bias"},
        cause=(lambda got: len(got) > 3, "the placeholders of the state are still there"),
        hint="each new node has a copy of the value's `meta`, with all its keys",
    )
    holds(
        {*nodes} <= {*call.environment.values()},
        "the new nodes noted in `environment`",
        got=call.environment,
        hint="the keys are the values of the flat graph, as in `build_graph`",
    )
    call.graph.lint()


def test_a_module_reads_all_state_below_it(lesson):
    call = calls_of(lesson, program_of(owns_everything, x()), reads=True)["0"]
    equal(
        [[*map(str, call.inputs)], shown_state(call)],
        [["x"], ["buffer", "child.bias", "constant", "weight"]],
        cause=[
            (lambda got: "same" in got[1], "`weight` is the first name of this parameter"),
            (lambda got: got[0] == ["x", "_0_child_bias"], "a child's parameter was passed in"),
            (lambda got: got[0][1:] == ["_0_buffer", "_0_constant"], "only parameters were read"),
        ],
        hint="the names of what a child owns, of any kind, are below the call's path too",
    )
    equal(next(iter(call.graph.nodes)).op, "placeholder", hint="add them after all placeholders")


def test_a_tied_parameter_is_read_under_the_name_that_the_module_knows(lesson):
    calls = calls_of(lesson, program_of(tied, x()), reads=True)
    equal(
        [shown_state(calls["encoder"]), shown_state(calls["decoder.0"])],
        [["bias", "weight"], ["weight"]],
        cause=(
            lambda got: "bias" in got[0] and sum(map(len, got)) == 2,
            "only one name was looked at",
        ),
        hint="go through all `names` of a value, and take the first that is below the call's path",
    )


@pytest.mark.parametrize(
    ("model", "name", "passed"),
    [(hands_its_parameter_down, "scale", "weight"), (looks_like_the_owner, "low", "lower_weight")],
)
def test_a_parameter_of_another_module_is_passed_in(lesson, model, name, passed):
    call = calls_of(lesson, program_of(model, x()), reads=True)[name]
    equal(
        [[*map(str, call.inputs)], shown_state(call)],
        [["x", passed], []],
        cause=(lambda got: got[1], f"`{passed}` was taken for something below `{name}`"),
        hint="what is below a module begins with its path and a dot: `is_below`",
    )


# --- step 3: replace ------------------------------------------------------------------------------
def test_one_node_takes_the_place_of_a_calls_nodes(lesson):
    outliner, call = calls_in(lesson, program_of(block_and_tanh, x()), "0")
    before = [*map(str, outliner.graph.nodes)]
    node = outliner.replace(call, "0")
    equal(
        (node.op, node.target, [*map(str, node.args)], node.kwargs),
        ("call_module", "0", ["x"], {}),
        hint="the arguments are the call's inputs",
    )
    after = [*before[: before.index("mul")], str(node), "tanh", "output"]
    equal(
        [*map(str, outliner.graph.nodes)],
        after,
        cause=(lambda got: "relu" in got, "the nodes of the call are still in the graph"),
        hint="use the new node where the outputs were used; then erase, users before values",
    )


def test_the_arguments_are_in_the_order_of_the_inputs(lesson):
    outliner, call = calls_in(lesson, program_of(twice, x(3), x(3), x(3)), "inner")
    equal([*map(str, outliner.replace(call, "inner").args)], ["y", "x"], hint="`call.inputs`")


def test_several_results_are_picked_from_the_call(lesson):
    outliner, call = calls_in(lesson, program_of(uses_several, x()), "several")
    node = outliner.replace(call, "several")
    items = [(user.target, user.args) for user in node.users]
    equal(items, [(operator.getitem, (node, 0)), (operator.getitem, (node, 1))], hint="`values_of`")
    depths = {str(each): len(outliner.stacks.get(each, ())) for each in (node, *node.users)}
    own = (lambda got: 2 in got.values(), "the new nodes belong to the call that they replace")
    equal(depths, dict.fromkeys(depths, 1), cause=own, hint="note the `stacks` of all new nodes")
    outliner.graph.lint()


def test_a_call_comes_after_an_input_that_is_among_its_nodes(lesson):
    outliner = outlined(lesson, program_of(block_and_tanh, x()))
    call, _ = outliner.calls_at(1)
    last = call.nodes[-1]
    with outliner.graph.inserting_before(last):
        read = outliner.graph.create_node("get_attr", "branch")
    last.args = (*last.args, read)
    lesson.find_borders(call)
    lesson.build_graph(call)
    node = outliner.replace(call, "0")
    after = [*outliner.graph.nodes]
    holds(
        after.index(read) < after.index(node),
        "the call after the node that it reads",
        got=after,
        hint="insert it after the call's last node",
    )


def test_the_new_node_of_a_call_whose_first_node_is_deeper_belongs_to_the_calls_around(lesson):
    model = Model(lambda model, x: model.a[0](x), a=nn.ModuleList([nn.Sequential(nn.ReLU())]))
    outliner, call = calls_in(lesson, program_of(lambda: model, x()), "a.0")
    stack = outliner.stacks.get(outliner.replace(call, "a.0"), ())
    hint = "the levels before `call.level`"
    equal([level.path for level in stack], [""], hint=hint)


def test_the_new_nodes_belong_to_the_calls_around(lesson):
    outliner, call = calls_in(lesson, program_of(one_block, x()), "0.linear", depth=2)
    node = outliner.replace(call, "0.linear")
    equal(
        [[level.path for level in outliner.stacks.get(node, ())], shown(outliner.calls_at(1))],
        [["", "0"], [("0", ["mul", str(node), "relu"])]],
        cause=(lambda got: "0.linear" in got[0], "the new node belongs to the call that it makes"),
        hint="`stacks` of the new nodes: that of the call's nodes, up to the caller",
    )


@pytest.mark.parametrize("model", [Block, Nested, hands_its_parameter_down, uses_several, idle])
def test_a_graph_of_calls_runs_on_the_eager_models_own_modules(lesson, model):
    eager, program = exported(model, x())
    outliner = outlined(lesson, program)
    calls = outliner.calls_at(1)
    for call in calls:
        lesson.find_borders(call)
        lesson.build_graph(call)
        outliner.read_state(call)
        outliner.replace(call, call.name)
    taken = {node for call in calls for node in call.nodes}
    left = [node.name for node in outliner.graph.nodes if node in taken]
    equal(left, [], hint="erase the nodes of every call, also of one without outputs")
    same_numbers(
        torch.fx.Interpreter(eager, graph=outliner.graph).run(x()),
        (eager(x()),),
        hint="print `outliner.graph`: each call gets what the module's forward takes",
    )


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (called_twice, ["block", "block"]),
        (called_differently, ["branch", "branch@1", "branch"]),
        (called_alike_in_the_end, ["branch", "branch", "branch@1", "branch@1"]),
    ],
)
def test_calls_that_do_the_same_share_a_module(lesson, model, expected):
    outliner = outlined(lesson, program_of(model, x()))
    outliner.take_out_all()
    equal(
        [node.target for node in outliner.graph.find_nodes(op="call_module")],
        expected,
        cause=(
            lambda got: "@" in str(expected) and "@" not in str(got),
            "each node calls the module at the call's path",
        ),
        hint="the target is `name`: calls whose graphs do the same have one name",
    )


# --- step 4: InterpreterModule and UnflattenedModule ----------------------------------------------
def test_a_module_runs_its_graph(lesson):
    module, right = subtraction(lesson), x(3) + 1
    results = [module(x(3), right)]
    hint = "match keyword arguments to placeholders by name, in any order"
    by_name = (lambda error: "left" in str(error), "`left` was passed by name")
    with noting(cause=by_name, hint=hint):
        results += [module(right=right, left=x(3)), module(x(3), right=right)]
    same_numbers(results, [x(3) - right] * 3, hint=hint)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1,), {}), ((1, 2), {"more": 3}), ((1,), {"left": 2, "right": 3}), ((1, 2, 3), {})],
    ids=["missing", "unknown", "twice", "too many"],
)
def test_arguments_that_dont_fit_are_refused(lesson, args, kwargs):
    in_torch = lesson.InterpreterModule.__module__.startswith("torch.")
    if in_torch and len(args) > 2:
        pytest.skip("torch ignores values that are too many")
    hint = "bind the arguments to the graph's parameters as Python does: `self._signature.bind`"
    with refuses((AssertionError, RuntimeError) if in_torch else TypeError, hint=hint):
        subtraction(lesson)(*args, **kwargs)


def test_a_module_runs_a_graph_of_its_own_engine(lesson):
    module = lesson.InterpreterModule(symbolic_trace(lambda x: x * 2).graph)
    module.finalize()
    other = (
        lambda error: "_input_nodes" in str(error),
        "torch's `Interpreter` runs torch's graphs",
    )
    hint = "import `Interpreter` from `.interpreter`"
    with noting(cause=other, hint=hint, on=(AttributeError,)):
        same_numbers(module(x()), x() * 2)


def test_a_module_reads_from_its_owner(lesson):
    graph, owner = torch.fx.Graph(), nn.Linear(3, 2)
    graph.output(graph.create_node("get_attr", "bias"))
    if "owner" not in inspect.signature(lesson.InterpreterModule).parameters:
        pytest.skip("in torch a module owns what it reads")
    module = lesson.InterpreterModule(graph, owner=owner)
    module.bias = None  # not what the graph reads
    module.finalize()
    holds(
        module() is owner.bias and graph.owning_module is owner,
        "the bias of the owner, which is also the graph's `owning_module`",
        got=module(),
        hint="interpret the graph with `self._owner` as its root",
    )


def test_arguments_of_another_structure_are_refused(lesson):
    root = root_of(lesson, program_of(Scale, x(3), x(3)))
    with refuses(TypeError, cause="arguments of another structure were accepted"):
        root((x(3), x(3)))


def test_the_root_runs_its_graph_on_the_leaves(lesson):
    args, kwargs = ((x(3), x(3) + 2),), {"left": x(3), "right": x(3) + 1}
    root = root_of(lesson, program_of(Keywords, *args, kwargs=kwargs))
    same_numbers(
        [root(*args, **kwargs), root(*args, right=kwargs["right"], left=kwargs["left"])],
        [Keywords()(*args, **kwargs)] * 2,
        hint="run the graph on flat_inputs, and give the result the structure of out_spec",
    )


# --- step 5: make_modules and attach --------------------------------------------------------------
def test_every_body_has_a_module(lesson):
    outliner = outlined(lesson, program_of(called_differently, x()))
    outliner.take_out_all()
    tree = nn.Module()
    calls = {**outliner.calls, "branch@2": outliner.calls["branch@1"]}
    modules = lesson.make_modules(tree, calls)
    hint = 'the keys are `""` and the names, which are the keys of `calls`'
    equal(sorted(modules), ["", *sorted(calls)], hint=hint)
    first, *later = (modules[f"branch{number}"] for number in ("", "@1", "@2"))
    holds(
        modules[""] is tree and first.graph is outliner.calls["branch"].graph,
        "the tree under the name of the root, and a module with its graph for each call",
        got=modules,
    )
    holds(
        all(each._owner is first for each in (first, *later)),
        "the first module of a path to own itself and the later ones",
        hint="the owner of `path@1` is the module at `path`, which was made before",
    )
    equal(later[0].type_name(), "tests.models.unflatten.Branch", hint="`call.level.type_name`")


def test_modules_are_where_the_eager_model_has_them(lesson):
    tree, linear, later = nn.Module(), nn.Module(), nn.Module()
    state = {
        "over.there.weight": Attribute("parameter", nn.Parameter(x())),
        "branch.passing": Attribute("buffer", x(), is_saved=False),
        "constant": Attribute("constant", x()),
    }
    modules = {"": tree, "branch.linear": linear, "branch@1": later}
    parent = (lambda error: error.args == ("over.there",), "this parent wasn't created and noted")
    with noting(cause=parent, on=(KeyError,)):
        lesson.attach(modules, state, ["", "branch@1", "idle", "branch"])
    found = dict(tree.named_modules())
    equal(
        [*found][:4],
        ["", "idle", "branch", "branch.linear"],
        cause=[
            (lambda got: got[1] == "branch@1", "the path with an `@` was registered in its turn"),
            (lambda got: "idle" not in got, "a path without a call wasn't registered in its turn"),
            (lambda got: got[2] == "branch", "the unlisted child of `branch` is missing"),
        ],
        hint="register modules in the order of the paths; a path without a call is a plain one",
    )
    named = found["branch.linear"] is linear and found.get("branch@1") is later
    holds(named, "each module under its name, also one with an `@`", got=[*found])
    buffers = dict(tree.named_buffers(remove_duplicate=False))
    owned = {**dict(tree.named_parameters()), **buffers, **vars(tree)}
    lost = [name for name in state if owned.get(name) is not state[name].value]
    equal(
        [lost, [*buffers], [*tree.state_dict()]],
        [[], ["branch.passing"], ["over.there.weight"]],
        cause=[
            (lambda got: "passing" in vars(tree.branch), "the buffer is a plain attribute"),
            (lambda got: "branch@1.passing" in got[1], "`branch@1` has the state, too"),
            (lambda got: "branch.passing" in got[2], "the buffer became a persistent one"),
            (lambda got: got[0] == ["constant"], "the root's `constant` wasn't set"),
        ],
        hint="`register` every value of the state, as it is, under its last name",
    )


# --- the whole: unflatten -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        *(Nested, called_twice, called_differently, tied, two_names, Aliased),
        *(idle, Owner, uses_several, counted_twice),
    ],
)
def test_it_runs_like_the_eager_model(lesson, model, **options):
    run = like_eager(lesson, model, x(), **options)
    equal(
        names(run.tree),
        names(run.eager),
        hint="register a module for every path, and all state under its names, in order",
    )


def test_the_program_isnt_changed(lesson, **options):
    model, program = exported(counted_twice, x(), **options)

    def facts() -> list[object]:
        signed = [entry.fqn for entry in program.module_call_graph if entry.signature]
        graph = [str(program.graph), [[*node.meta] for node in program.graph.nodes]]
        return [*graph, list(program.constants), signed, model.counter.count.item()]

    graph, *_ = before = facts()
    lesson.unflatten(program)(x())
    edited = (lambda got: got[0] != graph, "the program's graph was edited")
    equal(facts(), before, cause=edited, hint="work on a copy of the graph, and of every tensor")


def test_the_tree_has_copies_of_all_tensors(lesson):
    program = program_of(Aliased, x())
    tree, originals = lesson.unflatten(program), parts_of(program)["state"]
    shared = [
        name
        for name, each in originals.items()
        if getattr(tree, name).untyped_storage().data_ptr()
        == each.value.untyped_storage().data_ptr()
    ]
    equal(shared, [], cause=(bool, "training the tree would change the program"))
    for first, second in ALIASES[:2]:  # torch copies a constant for each name
        one = getattr(tree, first) is getattr(tree, second)
        holds(one, f"`{first}` and `{second}` are one tensor", got="two tensors")


def test_state_is_what_it_was_in_the_eager_model(lesson):
    def facts(module):
        parameters = {name: each.requires_grad for name, each in module.named_parameters()}
        return parameters, sorted(dict(module.named_buffers())), [*module.state_dict()]

    model, program = exported(Owner, x())
    equal(
        facts(lesson.unflatten(without_unused_specs(program))),
        facts(model),
        hint="`register` each value as it is: a new `nn.Parameter` would require gradients",
    )


def test_batch_norm_updates_its_statistics(lesson, functional=False):
    like_eager(lesson, training_norms, x(), functional=functional)


def test_inputs_and_buffers_are_mutated(lesson, functional=False):
    run = like_eager(lesson, Mutates, x(), x(), functional=functional)
    equal(
        [list(run.tree.state_dict()), [name for name, _ in run.tree.named_buffers()]],
        [[], ["count"]],
        cause=(is_value([["count"], ["count"]]), "the buffer became a persistent one"),
        hint="the signature says `persistent=False`: register the buffer with that",
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
    tree = lesson.unflatten(program_of(Keywords, (x(3), x(3)), kwargs=kwargs))
    with refuses(ValueError, "middle", "left"):
        tree((x(3), x(3)), left=x(3), middle=x(3))


@pytest.mark.parametrize(
    ("shape", "words"),
    [((1, 3), (">= 3", "1")), ((4, 4), ("3", "4"))],
)
def test_an_input_out_of_range_is_refused(lesson, shape, words):
    tree = lesson.unflatten(program_of(Block, x(4, 3), dynamic_shapes=BATCH))
    with refuses(RuntimeError, *words):
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
        hint="a node with the key NO_MODULE belongs to the same calls as the node before it",
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_random_module_tree_runs_like_the_eager_one(lesson, seed):
    make, inputs = random_tree(seed)
    run = like_eager(lesson, make, *inputs)
    hint = f"look at the model: tests.random_models.tree({seed}).model"
    equal(names(run.tree), names(run.eager), hint=hint)


@pytest.mark.parametrize("name", ["resnet18"])
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
    )
    equal(names(tree), names(model))
