"""``unflatten``, the rest: what PyTorch does besides the core, and what is done better."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import io
import operator
import warnings
from functools import partial

import pytest
import torch
from torch import nn
from torch._higher_order_ops.effects import with_effects
from torch.export import ExportedProgram
from torch.export.experimental import _export_forward_backward
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, TokenArgument
from torch.utils import _pytree as pytree

from tests import random_models
from tests import test_unflatten as core
from tests.models.unflatten import (
    BATCH,
    DIFFERENT,
    FUNCTIONAL_TOO,
    QUICK,
    REAL,
    STRICT_TOO,
    Aliased,
    Around,
    Block,
    Branch,
    CalledDifferently,
    CalledTwice,
    CountedTwice,
    Counter,
    Keywords,
    Nested,
    Owner,
    Passing,
    Scale,
    Several,
    Steps,
    Subtract,
    SubtractsBoth,
    Tied,
    TwoInputs,
    TwoNames,
    UsesSeveral,
    UsesSizes,
    fixed_norms,
    like_eager,
    names,
    numbered_paths,
    one_block,
    one_tanh,
    outlined,
    three_and_one,
    tied_with_biases,
    training_norms,
    x,
)
from tests.suite import equal, holds, is_value, lines_run, refuses, same_numbers
from tests.suite.programs import export, exported, program_of


class Switch(nn.Module):
    """Calls another child each time it is called."""

    def __init__(self):
        super().__init__()
        self.left = nn.Linear(3, 3)
        self.right = nn.Linear(3, 3)

    def forward(self, x, left: bool):
        return self.left(x) if left else self.right(x)


class CalledForBoth(nn.Module):
    def __init__(self):
        super().__init__()
        self.switch = Switch()

    def forward(self, x):
        return self.switch(self.switch(x, True), False)


class Waits(nn.Module):
    """Does something only when it is told to."""

    def forward(self, x, now: bool):
        return x.tanh() if now else x


class CalledOften(nn.Module):
    """Its first call leaves no node, and there are more than ten."""

    def __init__(self):
        super().__init__()
        self.waits = Waits()

    def forward(self, x):
        for turn in range(12):
            x = self.waits(x, turn > 0)
        return x


def test_a_call_has_the_number_that_export_gave_it(lesson):
    equal(
        [call.name for call in lesson.outline(program_of(CalledOften, x()).graph).calls],
        [f"waits@{number}" for number in range(1, 12)],
    )


def move(program: ExportedProgram, name: str, stack_of: str) -> None:
    """Put a node into the module that another one is in."""
    nodes = {node.name: node for node in program.graph.nodes}
    nodes[name].meta["nn_module_stack"] = nodes[stack_of].meta["nn_module_stack"]


class ThreeTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = Steps(nn.ReLU(), nn.Tanh(), nn.Sigmoid())

    def forward(self, x):
        return self.steps(self.steps(x))


def interrupted_program(make=three_and_one) -> ExportedProgram:
    """A program in which a node of the root interrupts the first call of three steps."""
    program = program_of(make, x())
    relu, tanh, sigmoid = list(program.graph.nodes)[1:4]
    stack = dict(list(relu.meta["nn_module_stack"].items())[:2])
    relu.meta["nn_module_stack"] = sigmoid.meta["nn_module_stack"] = stack
    tanh.meta["nn_module_stack"] = dict(list(stack.items())[:1])
    return program


def test_a_call_that_is_interrupted_becomes_two(lesson):
    equal(
        outlined(lesson.outline(interrupted_program().graph)),
        [("0", ["relu"]), "tanh", ("0@1", ["sigmoid"]), ("1", ["silu"]), "output"],
        cause=(lambda got: got[0][0] == got[2][0], "both parts of the call have one name"),
    )


def test_a_call_that_is_interrupted_twice_becomes_three(lesson):
    program = program_of(Nested, x())
    stack = {"root": ("", "Root"), "block": ("0", "Block")}
    operations = [node for node in program.graph.nodes if node.op == "call_function"]
    for number, node in enumerate(operations[:5]):
        node.meta["nn_module_stack"] = dict(list(stack.items())[: 1 + (number % 2 == 0)])
    equal(
        [call.name for call in lesson.outline(program.graph).calls if call.path == "0"],
        ["0", "0@1", "0@2"],
    )


def test_the_second_part_of_a_call_isnt_taken_for_the_next_call(lesson):
    calls = [call.name for call in lesson.outline(interrupted_program(ThreeTwice).graph).calls]
    holds(
        len(set(calls)) == 3,
        "three names: for the first part, the second part, and the second call",
        got=calls,
        cause=(
            lambda got: len(got) > len(set(got)),
            "the second part got the number that export gave to the second call",
        ),
    )


def test_views_of_one_storage_stay_views_of_one_storage(lesson):
    state = lesson.restore_state(program_of(Aliased, x()))
    state["memory"].value[0] = 42
    equal([state["even"].value[0].item(), state["even"].value.stride()], [42.0, (2,)])


class ReadDifferently(nn.Module):
    """The memory of a parameter, as a buffer and as bits."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3))
        self.register_buffer("plain", self.weight.detach())
        self.register_buffer("bits", self.plain.view(torch.int32))

    def forward(self, x):
        return x * self.weight + self.plain, self.bits + 1


def test_one_memory_that_is_read_differently_stays_so(lesson):
    state = lesson.restore_state(export(ReadDifferently(), x()))
    values = [state[name].value for name in ("weight", "plain", "bits")]
    equal(
        [
            [type(value).__name__ for value in values],
            [value.dtype for value in values],
            len({value.data_ptr() for value in values}),
        ],
        [["Parameter", "Tensor", "Tensor"], [torch.float32, torch.float32, torch.int32], 1],
    )


class Turned(nn.Module):
    """A parameter whose columns are contiguous."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4, 3).t())

    def forward(self, x):
        return x @ self.weight.t().view(3, 4)


def test_a_copy_lies_in_memory_as_the_original_does(lesson):
    equal(
        lesson.restore_state(program_of(Turned, x()))["weight"].value.stride(),
        (1, 3),
        cause=(is_value((4, 1)), "the copy is contiguous"),
    )


def test_what_is_no_plain_tensor_is_restored_too(lesson):
    program, sparse = program_of(Owner, x()), torch.eye(3).to_sparse()
    odd = {"object": object(), "sparse": sparse, "same": sparse, "other": sparse * 2}
    program.constants.update(odd)
    state = lesson.restore_state(program)
    values = {name: state[name].value for name in odd}
    equal(
        [
            {state[name].kind.name for name in odd},
            values["object"] is odd["object"],
            values["same"] is values["sparse"] is not sparse,
            values["other"].to_dense().equal(2 * torch.eye(3)),
        ],
        [{"CONSTANT_TENSOR"}, True, True, True],
    )


def test_a_module_names_the_class_of_the_eager_one(lesson):
    tree = lesson.unflatten(program_of(CalledForBoth, x(), preserve=("switch",)))
    modules = {"switch": tree.switch, "left": tree.switch.left}
    equal(
        {name: module.type_name() for name, module in modules.items()},
        {"switch": "tests.stretch.test_unflatten.Switch", "left": "torch.nn.modules.linear.Linear"},
    )


def test_a_tree_knows_the_eager_models_class(lesson):
    equal(lesson.unflatten(program_of(Nested, x())).type_name(), "tests.models.unflatten.Nested")


def test_the_type_of_an_input_comes_along(lesson):
    program = program_of(Nested, x())
    entry = next(node for node in program.graph.nodes if node.name == "x")
    entry.type = torch.Tensor
    tree = lesson.unflatten(program)
    equal(
        [next(iter(each.graph.nodes)).type for each in (tree, tree.first)],
        [torch.Tensor, torch.Tensor],
    )


@pytest.mark.beyond("torch doesn't compare which submodule a body calls")
def test_bodies_that_call_other_children_differ(lesson):
    like_eager(lesson, CalledForBoth, x())


@pytest.mark.beyond("torch registers the state of a module once more below `path@1`")
@pytest.mark.parametrize(
    "model", [CalledDifferently, DIFFERENT["a parameter"]], ids=["child", "parameter"]
)
def test_the_state_dict_of_a_model_with_several_bodies_is_the_eager_models(lesson, model):
    run = like_eager(lesson, model, x())
    equal(list(run.tree.state_dict()), list(run.eager.state_dict()))


def test_the_tree_says_what_the_program_said_of_itself(lesson):
    program = program_of(Block, x(4, 3), dynamic_shapes=BATCH)
    tree = lesson.unflatten(program)
    equal(
        [
            tree.graph_signature.user_inputs,
            tree.graph_signature.user_outputs,
            [entry.fqn for entry in tree.module_call_graph],
            [node.name for node in tree.input_placeholders],
            tree.range_constraints,
            tree.equality_constraints,
            tree.meta["unflattened_module"] is tree,
        ],
        [("x",), ("relu",), ["", "linear"], ["x"], program.range_constraints, [], True],
    )


@pytest.mark.beyond("torch stores the tree in the program's `graph_module.meta`")
def test_nothing_is_left_on_the_program(lesson):
    program = program_of(Block, x())
    before = dict(program.graph_module.meta)
    lesson.unflatten(program)
    equal(sorted(program.graph_module.meta), sorted(before))


@pytest.mark.beyond("torch prints what it does for mutated buffers of preserved modules")
def test_nothing_is_printed(lesson, capsys):
    tree = lesson.unflatten(program_of(CountedTwice, x(), preserve=("counter",)))
    tree(x())
    equal(capsys.readouterr().out, "", cause=(bool, "a print is left over"))


@pytest.mark.parametrize("model", DIFFERENT.values(), ids=DIFFERENT)
def test_bodies_that_differ_in_a_detail_differ(lesson, model):
    eager, program = exported(model, torch.arange(6).reshape(2, 3))
    same_numbers(
        lesson.unflatten(program)(torch.arange(6).reshape(2, 3)),
        eager(torch.arange(6).reshape(2, 3)),
    )


def test_bodies_whose_operations_get_other_values_differ(lesson):
    like_eager(lesson, SubtractsBoth, x())


def test_a_module_that_is_called_from_inside_and_outside_its_parent_runs(lesson):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            return self.block.linear(x) + self.block(self.block.linear(x))

    like_eager(lesson, Both(), x())


@pytest.mark.parametrize("model", [CalledDifferently, Tied, CountedTwice])
def test_it_moves_to_another_dtype_as_a_whole(lesson, model):
    run = like_eager(lesson, model, x())
    same_numbers(run.tree.double()(x().double()), run.eager.double()(x().double()))


def test_parameters_keep_requires_grad(lesson):
    tree = lesson.unflatten(program_of(Owner, x()))
    equal(
        {name: parameter.requires_grad for name, parameter in tree.named_parameters()},
        {"frozen": False, "unused": True},
    )


def test_gradients_are_those_of_the_eager_model(lesson):
    run = like_eager(lesson, Tied, x())
    run.tree(x()).sum().backward()
    run.eager(x()).sum().backward()
    same_numbers(
        {name: parameter.grad for name, parameter in run.tree.named_parameters()},
        {name: parameter.grad for name, parameter in run.eager.named_parameters()},
    )


def test_every_tree_of_a_program_is_one_of_its_own(lesson):
    model, program = exported(CountedTwice, x())
    for _ in range(2):
        eager, tree = copy.deepcopy(model), lesson.unflatten(program)
        same_numbers([tree(x()), tree(x())], [eager(x()), eager(x())])


def test_calls_with_other_shapes_share_a_module_if_they_do_the_same(lesson):
    class TwoShapes(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x), self.linear(x[:1])

    run = like_eager(lesson, TwoShapes(), x())
    equal([name for name, _ in run.tree.named_modules()], ["", "linear"])


def test_an_edited_graph_runs_after_finalize(lesson):
    tree = lesson.unflatten(program_of(one_tanh, x()))
    body = tree.get_submodule("0")
    same_numbers(body.graph_module(x()), x().tanh())
    tanh = next(node for node in body.graph.nodes if node.op == "call_function")
    tanh.target = torch.ops.aten.relu.default
    body.finalize()
    same_numbers([tree(x()), body.graph_module(x())], [x().relu()] * 2)


def test_a_model_without_operations_runs(lesson):
    class Returns(nn.Module):
        def forward(self, x):
            return x

    like_eager(lesson, Returns(), x())


@pytest.mark.beyond("torch copies them one by one")
def test_aliased_constants_stay_one_tensor(lesson):
    tree = lesson.unflatten(program_of(Aliased, x()))
    holds(
        tree.constant is tree.same_constant,
        "tree.constant and tree.same_constant are one tensor",
        got="two tensors",
    )


def saved_and_loaded(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # from torch 2.11's load
def test_the_ties_of_a_program_that_was_loaded_are_kept(lesson):
    tree = lesson.unflatten(saved_and_loaded(export(Tied(), x())))
    holds(
        tree.encoder.weight is tree.decoder.get_submodule("0").weight,
        "one parameter under both names",
        got="two parameters",
    )


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # from torch 2.11's load
def test_a_module_of_a_program_that_was_loaded_reads_what_is_tied_under_its_own_name(lesson):
    tree = lesson.unflatten(saved_and_loaded(export(Tied(), x(), strict=True)))
    equal(
        [node.target for node in tree.decoder.get_submodule("0").graph.find_nodes(op="get_attr")],
        ["weight"],
    )


@pytest.mark.beyond("torch copies two views of one storage one by one")
def test_views_of_one_storage_see_each_others_mutation(lesson):
    class Window(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("memory", torch.zeros(6))
            self.register_buffer("head", self.memory[:3])
            self.tail = self.memory[3:]

        def forward(self, x):
            self.memory.add_(1)
            return x * self.head + self.tail

    run = like_eager(lesson, Window(), x(), runs=1)
    same_numbers(run.tree(x()), run.eager(x()))


@pytest.mark.beyond("torch writes a mutation back before the old value is read")
def test_the_old_value_of_a_mutated_buffer_can_still_be_read(lesson):
    class Swap(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("memory", torch.zeros(3))
            self.first = nn.Tanh()
            self.second = nn.Sigmoid()

        def forward(self, x):
            new = self.first(x.sum(0))
            old = self.second(self.memory.unsqueeze(0))
            self.memory.copy_(new)
            return old + self.memory

    run = like_eager(lesson, Swap(), x(), functional=True)
    equal([name for name, _ in run.tree.named_modules()], ["", "first", "second"])


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(2, 3))

    def forward(self, x):
        self.last.copy_(x)
        return x


@pytest.mark.beyond("torch looks for the module of the copy, and finds none")
def test_an_input_can_be_kept_in_a_buffer(lesson):
    tree = like_eager(lesson, Remembers(), x(), functional=True).tree
    given = x()
    holds(
        tree(given).data_ptr() == given.data_ptr(),
        "the input, which is returned as it is",
        got="another tensor",
    )


@pytest.mark.beyond("torch looks for the module of the copy, and finds none")
def test_an_input_that_is_kept_in_a_buffer_can_be_mutated(lesson):
    class KeepsAndMutates(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(2, 3))

        def forward(self, x):
            old = self.last * 2
            self.last.copy_(x)
            x.add_(1)
            return old, self.last

    like_eager(lesson, KeepsAndMutates(), x(), functional=True)


class KeepsTheNewest(nn.Module):
    """Keeps what a buffer, or a part of it, held before, and reads late what it kept so far."""

    def __init__(self, part):
        super().__init__()
        self.part = part
        self.register_buffer("newest", torch.ones(2, 3))
        self.register_buffer("older", part(torch.zeros(2, 3)).clone())

    def forward(self, x):
        before, newest = self.part(self.newest), self.newest + x
        read_late = self.older + x
        self.older.copy_(before)
        self.newest.copy_(newest)
        return read_late, self.older


@pytest.mark.beyond(
    "torch looks for the module of the copy, or reads a view of the buffer after the mutation"
)
@pytest.mark.parametrize("part", [lambda new: new, lambda new: new[:1]], ids=["whole", "view"])
def test_what_a_buffer_held_before_can_be_kept_in_another(lesson, part):
    like_eager(lesson, KeepsTheNewest(part), x(), functional=True)


class Rounds(nn.Module):
    """Makes a number with a fraction of a buffer of integers, and writes it there."""

    def __init__(self):
        super().__init__()
        self.register_buffer("whole", torch.arange(3))

    def forward(self, x):
        value = self.whole + 0.5
        self.whole.copy_(value)
        return x * value


class Repeats(nn.Module):
    """Writes one row into all rows of a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(2, 3))

    def forward(self, x):
        row = x.sum(0)
        self.rows.copy_(row)
        return row.softmax(0)


@pytest.mark.beyond("torch reads the buffer from then on: rounded, or in another shape")
@pytest.mark.parametrize("model", [Rounds, Repeats])
def test_a_value_that_does_not_fit_a_buffer_is_read_itself(lesson, model):
    like_eager(lesson, model(), x(), functional=True)


@pytest.mark.beyond("torch returns the computed value, and the buffer is another tensor")
def test_a_buffer_that_is_returned_is_the_modules_own(lesson):
    class Returns(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x):
            self.count.add_(x.sum(0))
            return self.count

    tree = like_eager(lesson, Returns(), x(), functional=True).tree
    holds(
        tree(x()).data_ptr() == tree.count.data_ptr(),
        "the buffer itself, as in the eager model",
        got="another tensor",
    )


@FUNCTIONAL_TOO
def test_a_model_that_only_mutates_runs(lesson, functional):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x):
            self.count.add_(x.sum(0))
            return ()

    like_eager(lesson, Counts(), x(), functional=functional)


def test_what_is_written_back_is_known_by_its_buffer(lesson):
    program = program_of(Passing, x(), functional=True)
    written = lesson.restore_mutations(program.graph, program.graph_signature)
    equal({target.name: value.name for target, value in written.items()}, {"b_count": "add"})


def test_what_writes_back_knows_its_module(lesson):
    tree = lesson.unflatten(program_of(CountedTwice, x(), functional=True))
    copy_ = torch.ops.aten.copy_.default
    (written,) = tree.get_submodule("counter@1").graph.find_nodes(op="call_function", target=copy_)
    equal([path for path, _ in written.meta["nn_module_stack"].values()], ["", "counter"])


class MutatesItsParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        self.weight.add_(1)
        return x * self.weight


@pytest.mark.beyond("torch takes its new value for a result")
def test_a_parameter_of_a_functional_program_is_mutated(lesson):
    like_eager(lesson, MutatesItsParameter, x(), functional=True)


def shapes(graph: torch.fx.Graph) -> list[object]:
    """The shape of what each operation and each call gives."""
    made = [node.meta["val"] for node in graph.nodes if node.op.startswith("call")]
    return [pytree.tree_map(lambda value: tuple(value.shape), value) for value in made]


def test_calls_know_the_shapes_of_their_results(lesson):
    one, two = (lesson.unflatten(program_of(model, x())) for model in (Block, UsesSeveral))
    equal([shapes(one.graph), shapes(two.graph)], [[(2, 3)] * 3, [[(2, 3), (2, 3)], *[(2, 3)] * 4]])


@pytest.mark.beyond("torch prints the structures, and the error names neither")
def test_the_refusal_shows_both_structures(lesson):
    tree = lesson.unflatten(program_of(Scale, x(3), x(3)))
    with refuses(
        TypeError,
        "TreeSpec(tuple, None, [TreeSpec(tuple, None, [*,",
        "TreeSpec(tuple, None, [TreeSpec(tuple, None, [TreeSpec(",
        cause="the message doesn't show what was given and what is wanted",
    ):
        tree((x(3), x(3)))


def adapter(lesson, adapted, paths=()):
    """An adapter that returns ``adapted(flat arguments)`` and notes what it was asked."""

    class Adapter(lesson.FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            self.asked = (target_spec, input_spec, metadata, obj)
            return adapted(input_args)

        def get_flat_arg_paths(self):
            return list(paths)

    return Adapter()


def test_an_adapter_brings_the_arguments_into_shape(lesson, capsys):
    adapts = adapter(lesson, lambda leaves: leaves[::-1])
    tree = lesson.unflatten(program_of(Subtract, x(3), x(4)[:3]), adapts)
    same_numbers(tree((x(4)[:3], x(3))), Subtract()(x(3), x(4)[:3]))
    target, given, metadata, args = adapts.asked
    equal(
        [target.num_leaves, given.num_leaves, isinstance(metadata, dict), len(args)],
        [2, 2, True, 1],
    )


def test_an_adapter_that_returns_too_few_values_is_refused(lesson, capsys):
    tree = lesson.unflatten(program_of(Subtract, x(3), x(3)), adapter(lesson, lambda leaves: []))
    with refuses(TypeError, "2", "0", cause="the graph was run on whatever came"):
        tree((x(3), x(3)))


@pytest.mark.beyond("torch doesn't say whose values are too few")
def test_an_adapter_that_does_not_fit_is_named(lesson):
    adapts = adapter(lesson, lambda leaves: leaves[:1])
    tree = lesson.unflatten(program_of(Subtract, x(3), x(3)), adapts)
    with refuses(
        TypeError,
        "Adapter.adapt",
        "1",
        "2",
        cause="the error doesn't say which method of which adapter is at fault",
    ):
        tree((x(3), x(3)))


def test_a_wrong_adapted_value_is_named_by_its_path(lesson, capsys):
    adapts = adapter(lesson, lambda leaves: [3, leaves[1]], paths=["left", "right"])
    tree = lesson.unflatten(program_of(Subtract, x(3), x(3)), adapts)
    with refuses(RuntimeError, "left", cause="the adapter's names for its values weren't used"):
        tree((x(3), x(3)))


class Swappable(nn.Module):
    """Takes positional and keyword arguments in structures, returns a dict."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("passing", torch.zeros(()), persistent=False)

    def forward(self, x, others, *, scale):
        self.count.add_(1)
        y = self.linear(x) * scale
        return {"y": y + others[0], "rest": (others[1], self.count * 1)}


class CallsSwappable(nn.Module):
    def __init__(self):
        super().__init__()
        self.outer = nn.ModuleDict({"inner": Swappable()})

    def forward(self, x):
        inner = self.outer["inner"]
        first = inner(x, [x * 2, x * 3], scale=x + 1)
        second = inner(first["y"], [first["rest"][0], x], scale=x - 1)
        return second["y"], second["rest"], first["rest"][1]


PRESERVED = ("outer.inner",)


@STRICT_TOO
def test_a_preserved_module_that_is_called_twice_runs(lesson, strict):
    tree = like_eager(lesson, CallsSwappable, x(), preserve=PRESERVED, strict=strict).tree
    holds(
        not any("@" in name for name, _ in tree.named_modules()),
        "one module for all calls",
        got=[name for name, _ in tree.named_modules()],
    )


def test_a_preserved_module_takes_the_eager_arguments(lesson):
    model, program = exported(CallsSwappable, x(), preserve=PRESERVED)
    tree = lesson.unflatten(program)
    inner, eager = tree.get_submodule("outer.inner"), copy.deepcopy(model).outer["inner"]
    args, kwargs = (x(), [x() * 2, x() * 3]), {"scale": x() + 1}
    same_numbers(inner(*args, **kwargs), eager(*args, **kwargs))


def test_a_preserved_module_can_be_swapped_for_the_eager_one(lesson):
    model, program = exported(CallsSwappable, x(), preserve=PRESERVED)
    tree = lesson.unflatten(program)
    other = Swappable()
    tree.set_submodule("outer.inner", copy.deepcopy(other))
    model.outer["inner"] = other
    same_numbers(tree(x()), model(x()))


class ReturnsWhatItGot(nn.Module):
    """Returns what it didn't make: a parameter, and its argument."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.weight, self.weight, x


class CallsItTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = ReturnsWhatItGot()

    def forward(self, x):
        first, weight, again = self.inner(x)
        second, *_ = self.inner(first * weight)
        return second + again


@pytest.mark.beyond("torch hands the parameter to the next call, which has no such argument")
def test_a_preserved_module_may_return_what_it_got(lesson):
    tree = like_eager(lesson, CallsItTwice(), x(), preserve=("inner",)).tree
    eager = CallsItTwice()
    tree.set_submodule("inner", copy.deepcopy(eager.inner))
    same_numbers(tree(x()), eager(x()))


@pytest.mark.beyond("torch looks for the number in the key alone, and finds no such call")
def test_a_preserved_module_may_have_a_number_in_its_path(lesson):
    model, program = exported(CalledTwice, x(), preserve=("block",))
    tree = lesson.unflatten(numbered_paths(program))
    same_numbers(tree(x()), model(x()))


def test_what_a_preserved_module_returns_has_a_shape(lesson):
    graph = lesson.unflatten(program_of(CallsSwappable, x(), preserve=PRESERVED)).graph
    flat = [next(iter(call.users)) for call in graph.find_nodes(op="call_module")]
    equal(
        [[tuple(item.meta["val"].shape) for item in each.users] for each in flat],
        [[(2, 3), (2, 3), ()]] * 2,
    )


def test_the_calls_of_a_preserved_module_take_turns(lesson):
    tree = lesson.unflatten(program_of(CalledForBoth, x(), preserve=("switch",)))
    equal(
        [type(tree.switch).__name__, [name for name, _ in tree.named_modules()]],
        ["InterpreterModuleDispatcher", ["", "switch", "switch.left", "switch.right"]],
        cause=(lambda got: "switch@1" in got[1], "the later calls stayed beside the first"),
    )
    equal(len(tree.switch.call_modules()), 2)


def test_calls_of_a_preserved_module_that_do_the_same_are_done_by_one(lesson):
    tree = lesson.unflatten(program_of(Around, x(), preserve=("tanh",)))
    modules = tree.tanh.call_modules()
    equal([len(modules), len(set(modules))], [2, 1])
    equal(names(tree), ["", "tanh", "linear"])


class Unpacks(nn.Module):
    """Takes two values in any structure, returns one in a list."""

    def forward(self, pair):
        left, right = pair.values() if isinstance(pair, dict) else pair
        return [left - right]


class Packs(nn.Module):
    """Hands two values on, each time in another structure, to another child."""

    def __init__(self):
        super().__init__()
        self.of_dict = Unpacks()
        self.of_tuple = Unpacks()

    def forward(self, x, named: bool):
        if named:
            return self.of_dict({"left": x, "right": x * 2})[0]
        return self.of_tuple((x * 2, x))[0]


class PacksTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.packs = Packs()

    def forward(self, x):
        return self.packs(self.packs(x, True), False)


def test_the_calls_of_a_module_may_hand_on_other_structures(lesson):
    run = like_eager(lesson, PacksTwice, x(), preserve=("packs.of_dict", "packs.of_tuple"))
    run.tree.packs.of_dict = Unpacks()
    same_numbers(run.tree(x()), run.eager(x()))


class NamedLikeABuiltin(nn.Module):
    def forward(self, x, *, input):
        return x - input


class CallsByABuiltinsName(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = NamedLikeABuiltin()

    def forward(self, x):
        return self.inner(x * 2, input=x)


def test_a_preserved_argument_may_have_a_builtins_name(lesson):
    like_eager(lesson, CallsByABuiltinsName, x(), preserve=("inner",))


@pytest.mark.beyond("torch copies the graph, which renames `input`, and can't find it")
def test_an_input_may_have_a_builtins_name(lesson):
    tree = like_eager(lesson, nn.Sequential(nn.ReLU(), nn.Tanh()), x(), preserve=("0",)).tree
    same_numbers(tree.get_submodule("0")(x()), x().relu())


@pytest.mark.beyond("torch copies the graph, which renames `input`, and can't find it")
def test_an_input_with_a_builtins_name_may_be_mutated(lesson):
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Tanh())
    given = x() - 0.5
    lesson.unflatten(export(model, x(), functional=True))(given)
    same_numbers(given, (x() - 0.5).relu())


class CalledInVain(nn.Module):
    def __init__(self):
        super().__init__()
        self.waits = Waits()

    def forward(self, x):
        return self.waits(self.waits(x, True), False)


@pytest.mark.beyond("torch looks for a module of that call, and finds none")
def test_a_call_that_does_nothing_leaves_nothing(lesson):
    tree = like_eager(lesson, CalledInVain, x(), preserve=("waits",)).tree
    equal([name for name, _ in tree.named_modules()], ["", "waits"])


def test_the_arguments_of_a_preserved_module_keep_their_names(lesson):
    program = program_of(TwoInputs, x(3), x(3), x(3), preserve=("inner",))
    graph = lesson.unflatten(program).inner.graph
    operands = [[node.name for node in each.all_input_nodes] for each in graph.nodes]
    holds(["y", "x"] in operands, "an operation on `y` and `x`", got=operands)


class Borrows(nn.Module):
    """Uses a parameter that it doesn't own."""

    def __init__(self, owner: nn.Module):
        super().__init__()
        self.owner = [owner]

    def forward(self, x):
        return x * self.owner[0].bias


class Lends(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.borrows = Borrows(self.linear)

    def forward(self, x):
        return self.borrows(self.linear(x))


def test_a_preserved_module_may_use_a_parameter_of_another(lesson):
    like_eager(lesson, Lends, x(), preserve=("borrows",))


def test_a_module_called_once_is_not_dispatched(lesson):
    tree = lesson.unflatten(program_of(UsesSizes, x(), preserve=("reshape",)))
    equal(type(tree.reshape).__name__, "InterpreterModule")


class Table(nn.Module):
    """Looks up what it does in a constant, and does something else each time."""

    def __init__(self):
        super().__init__()
        self.rows = torch.arange(6.0).reshape(2, 3)

    def forward(self, x, row: int):
        return x * self.rows[row] if row else x + self.rows[row]


class TwoTables(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([Table(), Table()])
        self.tables[1].other = torch.ones(3)

    def forward(self, x):
        for table in self.tables:
            x = table(table(x, 1), 0)
        return x * self.tables[1].other


def test_a_dispatched_module_has_the_constants_of_the_module(lesson):
    program = program_of(TwoTables, x(), preserve=("tables.0", "tables.1"))
    table = lesson.unflatten(program).get_submodule("tables.0")
    holds(
        table.rows is table.call_modules()[0].rows and not hasattr(table, "other"),
        "the attribute `rows`, and none of the other table's",
        got=sorted(vars(table)),
    )


@pytest.mark.beyond("torch makes them plain attributes")
def test_a_dispatched_module_keeps_its_buffers(lesson):
    model, program = exported(CallsSwappable, x(), preserve=PRESERVED)
    tree = lesson.unflatten(program)
    equal(list(tree.state_dict()), list(model.state_dict()))


def test_a_child_of_a_dispatched_module_can_be_swapped(lesson):
    model, program = exported(CalledDifferently, x(), preserve=("branch",))
    tree = lesson.unflatten(program)
    tree.branch.linear = model.branch.linear = nn.Identity()
    same_numbers(tree(x()), model(x()))


class Shifts(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = torch.rand(3)

    def forward(self, x):
        return x + self.shift


class AddsAConstant(nn.Module):
    def __init__(self):
        super().__init__()
        self.constant = torch.rand(3)
        self.shifts = Shifts()

    def forward(self, x, more: bool):
        x = self.shifts(x) * self.constant
        return x.tanh() if more else x


class AddsTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.adds = AddsAConstant()

    def forward(self, x):
        return self.adds(self.adds(x, True), False)


def test_a_dispatched_module_has_the_constants_of_the_eager_one(lesson):
    model, program = exported(AddsTwice, x(), preserve=("adds",))
    same_numbers(getattr(lesson.unflatten(program).adds, "constant", None), model.adds.constant)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.counter = Counter()

    def forward(self, x):
        return self.counter(self.linear(x))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x) + self.inner(x + 1)


class NestedCalls(nn.Module):
    def __init__(self):
        super().__init__()
        self.outer = Outer()

    def forward(self, x):
        return self.outer(self.outer(x)) + self.outer.inner(x)


@pytest.mark.parametrize(
    "preserve",
    [("outer",), ("outer.inner",), ("outer", "outer.inner"), ("outer.inner.counter",)],
    ids="+".join,
)
def test_nested_preserved_modules_run(lesson, preserve):
    run = like_eager(lesson, NestedCalls, x(), preserve=preserve)
    equal(names(run.tree), names(run.eager))


@pytest.mark.beyond("torch reads a buffer's new value from the wrong place")
@pytest.mark.parametrize(
    "preserve", [("outer",), ("outer.inner",), ("outer", "outer.inner")], ids="+".join
)
def test_nested_preserved_modules_of_a_functional_program_run(lesson, preserve):
    like_eager(lesson, NestedCalls, x(), preserve=preserve, functional=True)


def test_a_buffer_of_a_preserved_module_of_a_functional_program_is_mutated(lesson):
    like_eager(lesson, CountedTwice, x(), preserve=("counter",), functional=True)


class TwoCounts(nn.Module):
    """Writes two buffers of one shape."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("sum", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        self.sum.add_(self.calls)
        return x * self.calls + self.sum


class CountsTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.counts = TwoCounts()

    def forward(self, x):
        return self.counts(self.counts(x).tanh())


def test_each_call_of_a_preserved_module_of_a_functional_program_writes_its_buffers(lesson):
    model, program = exported(CountsTwice, x(), preserve=("counts",), functional=True)
    ours, theirs = lesson.unflatten(program).counts, model.counts
    same_numbers([ours(x()), ours.calls, ours.sum], [theirs(x()), theirs.calls, theirs.sum])


class Pairs(nn.Module):
    """Returns two values, one of which is made of the other."""

    def forward(self, x):
        first = x.tanh()
        return first, first * 2


class UsesOneOfPairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.pairs = Pairs()

    def forward(self, x):
        return self.pairs(x)[1] + 1


@FUNCTIONAL_TOO
def test_a_preserved_module_returns_what_only_itself_uses(lesson, functional):
    program = program_of(UsesOneOfPairs, x(), preserve=("pairs",), functional=functional)
    same_numbers(lesson.unflatten(program).pairs(x()), Pairs()(x()))


class MakesPairs(nn.Module):
    """Has its results made by a module whose signature isn't preserved."""

    def __init__(self):
        super().__init__()
        self.pairs = Pairs()

    def forward(self, x):
        return self.pairs(x)


class UsesTheSecond(nn.Module):
    def forward(self, first, second):
        return second + 1


class HandsOverPairs(nn.Module):
    """Hands two values on, of which the one made last is ignored: no node uses it."""

    def __init__(self):
        super().__init__()
        self.makes = MakesPairs()
        self.uses = UsesTheSecond()

    def forward(self, x):
        made_first, made_last = self.makes(x)
        return self.uses(made_last, made_first)


@pytest.mark.parametrize("preserve", [("uses",), ("makes",), ("makes", "uses")], ids="+".join)
def test_preserved_modules_run_that_hand_on_what_is_ignored(lesson, preserve):
    like_eager(lesson, HandsOverPairs(), x(), preserve=preserve)


@pytest.mark.beyond("torch hands `None` in")
@pytest.mark.parametrize("preserve", [("uses",), ("makes", "uses")], ids="+".join)
def test_a_preserved_module_is_handed_what_it_ignores(lesson, preserve):
    tree = lesson.unflatten(export(HandsOverPairs(), x(), preserve=preserve))
    handed = []
    tree.uses.register_forward_hook(lambda module, args, result: handed.extend(args))
    tree(x())
    same_numbers(handed, list(reversed(Pairs()(x()))))


@pytest.mark.beyond("torch returns `None` in its place")
def test_a_preserved_module_returns_what_is_ignored(lesson):
    tree = lesson.unflatten(export(HandsOverPairs(), x(), preserve=("makes",)))
    same_numbers(tree.makes(x()), Pairs()(x()))


class CallsInTheEnd(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(x.tanh())


class ReturnsItsArgumentToo(nn.Module):
    def forward(self, x):
        return x, x.relu()


class WantsOneOfTwo(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = ReturnsItsArgumentToo()

    def forward(self, x):
        return self.relu(x)[1]


@pytest.mark.parametrize("model", [CallsInTheEnd, WantsOneOfTwo])
def test_what_only_a_preserved_module_inside_names_is_not_returned(lesson, model):
    program = export(nn.Sequential(model(), nn.Tanh()), x(), preserve=("0.relu",))
    same_numbers(lesson.unflatten(program).get_submodule("0")(x()), model()(x()))


def test_a_swapped_module_gets_constants_too(lesson):
    model, program = exported(CalledForBoth, x(), preserve=("switch",))
    tree = lesson.unflatten(program)
    tree.switch = model.switch = Switch()
    same_numbers(tree(x()), model(x()))


class Normalizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(x + 1) * 2


@pytest.mark.beyond("decomposing renames the result, and torch believes the stale name")
def test_a_preserved_batch_norm_of_a_functional_program_can_be_swapped(lesson):
    run = like_eager(lesson, Normalizes, x(), preserve=("norm",), functional=True)
    run.tree.norm = nn.Identity()
    same_numbers(run.tree(x()), (x() + 1) * 2)


@pytest.mark.beyond("torch drops dead code from the given program: an unused result")
def test_a_preserved_module_returns_what_nobody_uses(lesson):
    tree = lesson.unflatten(program_of(UsesSeveral, x(), preserve=("several",)))
    same_numbers(tree.several(x()), Several()(x()))


@STRICT_TOO
def test_a_preserved_module_under_two_names_runs(lesson, strict):
    like_eager(lesson, TwoNames, x(), preserve=("first",), strict=strict)


class Hides(nn.Module):
    """Keeps what it makes last, in two steps: neither an argument nor a result."""

    def forward(self, x):
        y = x + 1
        self.hidden = [(y * 2).tanh()]
        return y


class HidesTheOrder(nn.Module):
    """Keeps the other result of an operation that has two."""

    def forward(self, x):
        y, order = x.sort()
        self.hidden = [order]
        return y


class HidesNoise(nn.Module):
    def forward(self, x):
        self.hidden = [torch.rand_like(x)]
        return x * 2


class UsesHidden(nn.Module):
    """Mutates its argument, by what another module keeps."""

    def __init__(self, hides: nn.Module):
        super().__init__()
        self.hides = [hides]

    def forward(self, x):
        return x.mul_(self.hides[0].hidden[0])


class HandsOver(nn.Module):
    """A value goes from one module into another, unseen by their caller."""

    def __init__(self, hides: type[nn.Module] = Hides, uses: type[nn.Module] = UsesHidden):
        super().__init__()
        self.hides = hides()
        self.uses = uses(self.hides)

    def forward(self, x):
        return self.uses(self.hides(x))


@pytest.mark.beyond("torch computes it again, or copies it into an argument")
@pytest.mark.parametrize("preserve", ["hides", "uses"])
@pytest.mark.parametrize("hides", [Hides, HidesTheOrder, HidesNoise])
def test_a_value_that_goes_around_a_signature_is_refused(lesson, hides, preserve):
    program = export(HandsOver(hides), x(), preserve=(preserve,))
    with refuses(RuntimeError, f"'{preserve}'", "neither an argument nor a result"):
        lesson.unflatten(program)


def test_a_preserved_module_may_begin_with_a_random_value(lesson):
    class Noisy(nn.Module):
        def forward(self, x):
            return torch.rand_like(x) + x

    model = nn.Sequential(Noisy())
    tree = lesson.unflatten(export(model, x(), preserve=("0",)))
    torch.manual_seed(0)
    expected = model(x())
    torch.manual_seed(0)
    same_numbers(tree(x()), expected)


class ReturnsANumber(nn.Module):
    def forward(self, x):
        return x + 1, 2


class UsesTheNumber(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = ReturnsANumber()

    def forward(self, x):
        value, number = self.inner(x)
        return value * number


@pytest.mark.beyond("torch returns `None` in its place")
def test_a_preserved_module_may_return_a_number(lesson):
    tree = like_eager(lesson, UsesTheNumber, x(), preserve=("inner",)).tree
    holds(tree.inner(x())[1] == 2, "the module returns its number as well", got=tree.inner(x()))


class Counts(nn.Module):
    """Counts its calls in a buffer, and computes with the count."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


@FUNCTIONAL_TOO
def test_a_preserved_module_that_writes_its_buffer_keeps_its_signature(lesson, functional):
    model = nn.Sequential(Counts(), nn.Tanh())
    like_eager(lesson, model, x(), preserve=("0",), functional=functional)


def subtraction(lesson):
    """The module of a call that takes ``y`` and ``x`` of ``TwoInputs``."""
    return lesson.unflatten(program_of(TwoInputs, x(3), x(3), x(3))).inner


def test_an_interpreter_module_takes_arguments_by_name(lesson):
    module, left, right = subtraction(lesson), x(3), x(4)[:3]
    same_numbers([module(x=right, y=left), module(y=left, x=right)], [Subtract()(left, right)] * 2)


@pytest.mark.beyond(
    "a `TypeError` names them; torch asserts, and takes too many positional arguments "
    "without a word"
)
@pytest.mark.parametrize(
    ("count", "keywords", "words"),
    [
        (1, (), ("InterpreterModule", "Subtract", "'x'")),
        (3, (), ()),
        (2, ("third",), ("third",)),
        (2, ("x",), ("'x'",)),
    ],
    ids=["missing", "too many", "unknown", "twice"],
)
def test_arguments_that_do_not_fit_are_refused(lesson, count, keywords, words):
    module = subtraction(lesson)
    with refuses(TypeError, *words, cause="the arguments weren't bound to the placeholders"):
        module(*[x(3)] * count, **dict.fromkeys(keywords, x(3)))


@pytest.mark.beyond("in torch the graph of a later call names a child that isn't there")
def test_the_graph_of_every_body_can_be_checked(lesson):
    tree = lesson.unflatten(program_of(CalledDifferently, x()))
    faults = []
    for name in ("branch", "branch@1"):
        try:
            tree.get_submodule(name).graph.lint()
        except RuntimeError as error:
            faults.append(f"{name}: {error}")
    equal(
        faults,
        [],
        cause=(bool, "the graph of a later call is checked against a module that owns nothing"),
    )


def test_print_readable_shows_the_code(lesson, capsys):
    tree = lesson.unflatten(program_of(one_block, x()))
    text = tree.get_submodule("0.linear").print_readable()
    printed = capsys.readouterr().out
    tree.print_readable(print_output=False)
    holds(
        "torch.ops.aten.linear" in text and text.strip() == printed.strip(),
        "the generated code, printed and returned",
        got=text,
    )
    equal(capsys.readouterr().out, "", cause=(bool, "print_output=False was ignored"))


def test_what_print_readable_shows_is_the_code_that_runs(lesson):
    body = lesson.unflatten(program_of(one_block, x())).get_submodule("0.linear")
    text, shown = body.print_readable(print_output=False), {"torch": torch}
    exec(text, shown)
    holds(body.graph_module is body.graph_module, "one graph module for all who ask")
    holds(
        text.splitlines()[1].strip().startswith("def forward("),
        "the class, and in its next line `forward`",
        got=text,
    )
    same_numbers(shown[type(body).__name__].forward(body, x()), body(x()))


@pytest.mark.beyond("torch's belongs to the generated module")
def test_a_graph_belongs_to_its_body_also_when_code_was_generated(lesson):
    body = lesson.unflatten(program_of(one_block, x())).get_submodule("0.linear")
    code = body.graph_module.code
    holds(
        "linear" in code and body.graph.owning_module is body,
        "the body as its graph's `owning_module`",
        got=body.graph.owning_module,
    )


@pytest.mark.parametrize(
    ("option", "mark"),
    [("include_stride", "[3, 1]"), ("include_device", "cpu"), ("colored", "\x1b[")],
)
def test_print_readable_shows_more_if_asked(lesson, option, mark):
    body = lesson.unflatten(program_of(one_block, x())).get_submodule("0.linear")
    for module in (body, lesson.InterpreterModuleDispatcher(set(), [body])):
        plain = module.print_readable(print_output=False)
        more = module.print_readable(print_output=False, **{option: True})
        equal(
            [mark in plain, mark in more, "f32[3, 3]" in plain, "self.weight" in plain],
            [False, True, True, True],
        )


def test_a_dispatcher_shows_the_code_of_all_its_modules(lesson, capsys):
    body = lesson.unflatten(program_of(one_block, x())).get_submodule("0.linear")
    shown = lesson.InterpreterModuleDispatcher(set(), [body, body]).print_readable()
    equal(shown.split(), body.print_readable(print_output=False).split() * 2)
    equal(capsys.readouterr().out.split(), shown.split())
    lesson.InterpreterModuleDispatcher(set(), [body, body]).print_readable(print_output=False)
    equal(capsys.readouterr().out, "")


def test_a_star_import_brings_what_the_lesson_lists(lesson):
    found = {name: vars(lesson).get(name) for name in lesson.__all__}
    found["unflatten"](program_of(one_tanh, x()))
    equal(
        [name for name, value in found.items() if value is None],
        [],
        cause=(bool, "`__all__` lists what isn't there"),
    )


def turns(lesson, *functions):
    def body(function):
        graph = torch.fx.Graph()
        graph.output(graph.call_function(function, (graph.placeholder("x"),)))
        module = lesson.InterpreterModule(graph)
        module.finalize()
        return module

    return lesson.InterpreterModuleDispatcher(set(), [body(function) for function in functions])


def test_a_dispatcher_begins_anew_after_the_last_call(lesson):
    dispatcher = turns(lesson, torch.neg, torch.abs)
    equal([dispatcher(torch.tensor(3)).item() for _ in range(4)], [-3, 3, -3, 3])


def fail(value):
    raise ZeroDivisionError(value)


def test_a_dispatcher_begins_anew_after_an_exception(lesson):
    dispatcher = turns(lesson, torch.neg, fail, torch.abs)
    dispatcher(torch.tensor(1))
    with contextlib.suppress(ZeroDivisionError):
        dispatcher(torch.tensor(1))
    equal(
        dispatcher(torch.tensor(3)).item(),
        -3,
        cause=(is_value(3), "the run after a failed one begins in the middle"),
    )


def test_a_dispatcher_names_its_modules(lesson):
    dispatcher = turns(lesson, torch.neg, torch.abs)
    equal(
        [
            len(dispatcher.call_modules()),
            dispatcher.print_readable(print_output=False).count("def "),
        ],
        [2, 2],
    )


@pytest.mark.beyond("torch resets only the dispatchers that the exception passes through")
def test_a_run_that_breaks_off_elsewhere_leaves_no_dispatcher_in_the_middle(lesson):
    class Breaks(nn.Module):
        def __init__(self):
            super().__init__()
            self.switch = Switch()

        def forward(self, x):
            y = self.switch(x, True)
            return self.switch(y.reshape(2, 3), False)

    model = Breaks()
    tree = lesson.unflatten(export(model, x(), preserve=("switch",)))
    site = next(
        iter(tree.graph.find_nodes(op="call_function", target=torch.ops.aten.reshape.default))
    )
    reshape, failures = site.target, iter([ZeroDivisionError])

    def fails_at_first(*args):
        for error in failures:
            raise error
        return reshape(*args)

    site.target = fails_at_first
    with contextlib.suppress(ZeroDivisionError):
        tree(x())
    same_numbers(tree(x()), model(x()))


@pytest.mark.beyond("torch's can't: it holds nodes with fake tensors")
@pytest.mark.parametrize(
    ("model", "preserve"),
    [(Nested, ()), (CalledDifferently, ()), (CallsSwappable, PRESERVED)],
    ids=["nested", "several bodies", "dispatched"],
)
def test_a_tree_can_be_copied(lesson, model, preserve):
    run = like_eager(lesson, model, x(), preserve=preserve, runs=0)
    tree = copy.deepcopy(run.tree)
    with torch.no_grad():
        for parameter in run.tree.parameters():
            parameter.zero_()
    same_numbers([tree(x()), tree(x())], [run.eager(x()), run.eager(x())])
    holds(
        tree.meta["unflattened_module"] is tree,
        'the copy itself in its meta["unflattened_module"]',
        got="the original",
    )
    holds(
        tree.graph.owning_module is tree,
        "a graph that belongs to the copy",
        got=tree.graph.owning_module,
    )


@pytest.mark.parametrize("model", [Nested, CalledDifferently, Tied])
def test_a_tree_can_be_traced(lesson, model):
    class Caller(nn.Module):
        def __init__(self, tree):
            super().__init__()
            self.tree = tree

        def forward(self, x):
            return self.tree(x) + 1

    run = like_eager(lesson, model, x())
    traced = torch.fx.symbolic_trace(Caller(run.tree))
    same_numbers(traced(x()), run.eager(x()) + 1)


def test_keyword_arguments_of_a_traced_tree_may_come_in_any_order(lesson):
    class Caller(nn.Module):
        def __init__(self, tree):
            super().__init__()
            self.tree = tree

        def forward(self, x, left, right):
            return self.tree(x, right=right, left=left)

    kwargs = {"left": x(3), "right": x(3) + 1}
    tree = lesson.unflatten(program_of(Keywords, x(3), kwargs=kwargs))
    same_numbers(torch.fx.symbolic_trace(Caller(tree))(x(3), **kwargs), Keywords()(x(3), **kwargs))


@pytest.mark.beyond("torch takes a traced `*args` for a tuple that it can flatten")
def test_a_tree_can_be_traced_itself(lesson):
    kwargs = {"left": x(3), "right": x(3) + 1}
    tree = lesson.unflatten(program_of(Keywords, x(3), kwargs=kwargs))
    same_numbers(torch.fx.symbolic_trace(tree)(x(3), **kwargs), Keywords()(x(3), **kwargs))


def test_a_trace_returns_the_structure_of_the_eager_model(lesson):
    class TwoResults(nn.Module):
        def forward(self, x):
            return {"sum": x + 1, "rest": (x - 1,)}

    class Caller(nn.Module):
        def __init__(self, tree):
            super().__init__()
            self.tree = tree

        def forward(self, x):
            return pytree.tree_leaves(self.tree(x))

    tree = lesson.unflatten(export(TwoResults(), x()))
    same_numbers(torch.fx.symbolic_trace(Caller(tree))(x()), [x() + 1, x() - 1])


@pytest.mark.parametrize(
    ("model", "preserve"),
    [(Nested, ()), (CalledDifferently, ()), (CallsSwappable, PRESERVED)],
    ids=["nested", "several bodies", "dispatched"],
)
def test_a_tree_can_be_compiled(lesson, model, preserve):
    run = like_eager(lesson, model, x(), preserve=preserve, runs=0)
    torch.compiler.reset()
    compiled = torch.compile(run.tree, backend="eager")
    same_numbers([compiled(x()), compiled(x())], [run.eager(x()), run.eager(x())])


def same_when_exported_again(lesson, model, **options):
    run = like_eager(lesson, model, x())
    again = lesson.unflatten(export(run.tree, x(), **options))
    same_numbers(again(x()), run.eager(x()))
    equal(sorted(again.state_dict()), sorted(run.eager.state_dict()))


@pytest.mark.parametrize("model", [Nested, Tied])
def test_a_tree_can_be_exported_again(lesson, model):
    same_when_exported_again(lesson, model)


@pytest.mark.beyond("torch can't export what it compiles around")
@pytest.mark.parametrize("model", [Nested, Tied])
def test_a_tree_can_be_exported_again_in_strict_mode(lesson, model):
    same_when_exported_again(lesson, model, strict=True)


@pytest.mark.beyond("torch shares bodies that call other children, and repeats state")
@STRICT_TOO
@pytest.mark.parametrize("model", [CountedTwice, CalledDifferently, CalledForBoth])
def test_a_tree_with_several_bodies_can_be_exported_again(lesson, model, strict):
    same_when_exported_again(lesson, model, strict=strict)


class Conditional(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Chooses()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(self.inner(x))


class Chooses(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3))
        self.tanh = nn.Tanh()

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.positive, self.negative, (x,))

    def positive(self, x):
        return self.tanh(x) * self.weight

    def negative(self, x):
        return x - self.weight


@pytest.mark.parametrize("preserve", [(), ("inner",)], ids=["", "preserved"])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_branches_of_cond_come_along(lesson, sign, preserve):
    model, program = exported(Conditional, x(), preserve=preserve)
    tree = lesson.unflatten(program)
    same_numbers(tree(sign * x()), model(sign * x()))


@pytest.mark.beyond("torch puts the program's own branches into the tree")
def test_the_branches_of_cond_are_copies(lesson):
    program = program_of(Conditional, x())
    branch = lesson.unflatten(program).inner.true_graph_0
    holds(
        branch.graph is not program.graph_module.true_graph_0.graph,
        "a graph of the tree's own",
        got="the program's graph",
    )


def test_map_comes_along(lesson):
    from functorch.experimental.control_flow import map as map_over

    class Maps(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Tanh()

        def forward(self, x, y):
            return map_over(lambda row, y: row + y, self.inner(x), y)

    like_eager(lesson, Maps(), x(), x(3))


def test_a_region_without_gradients_comes_along(lesson):
    class NoGrad(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            with torch.no_grad():
                y = self.block(x)
            return self.block(x) + y

    like_eager(lesson, NoGrad(), x())


class RepeatsARegion(nn.Module):
    @torch.compiler.nested_compile_region
    def region(self, x):
        return x.relu() + 1

    def forward(self, x):
        return self.region(self.region(x))


def test_a_region_that_is_repeated_comes_along_once(lesson):
    model = nn.Sequential(RepeatsARegion())
    tree = lesson.unflatten(export(model, x(), strict=True))
    same_numbers(tree(x()), model(x()))
    equal([name for name, _ in tree.named_modules()], ["", "0", "0.repeated_subgraph0"])


@FUNCTIONAL_TOO
def test_a_side_effect_comes_along(lesson, functional, capfd):
    class Says(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            torch.ops.aten._print("before")
            y = self.block(x)
            torch.ops.aten._print("after")
            return y

    like_eager(lesson, Says(), x(), functional=functional, runs=1)
    with contextlib.suppress(TypeError, OSError):  # no such library on Windows
        ctypes.CDLL(None).fflush(None)  # what C++ has printed may still be in its buffer
    equal(capfd.readouterr().out.split(), ["before", "after"] * 2)


def on_a_token(operation, options, results) -> tuple[torch.fx.Graph, ExportGraphSignature]:
    """A graph that runs one operation, strung on a token as ``run_decompositions`` does it."""
    graph = torch.fx.Graph()
    token, value = graph.placeholder("token"), graph.placeholder("value")
    strung = graph.call_function(with_effects, (token, operation, value), options)
    strung.meta["val"] = (x(0), *results)
    items = [graph.call_function(operator.getitem, (strung, n)) for n in range(len(results) + 1)]
    graph.output(tuple(items[1:]))
    spec = InputSpec(InputKind.TOKEN, TokenArgument("token"), None)
    return graph, ExportGraphSignature([spec], [])


@pytest.mark.parametrize(
    ("operation", "options"),
    [
        (torch.ops.aten.sum.default, {"dtype": torch.double}),
        (torch.ops.aten.sort.default, {"descending": True}),
    ],
    ids=["one result", "two results"],
)
def test_without_its_token_an_operation_does_the_same(lesson, operation, options):
    results = pytree.tree_leaves(operation(x(3), **options))
    graph, signature = on_a_token(operation, options, results)
    lesson.remove_tokens(graph, signature)
    graph.lint()
    same_numbers(list(torch.fx.GraphModule(nn.Module(), graph)(x(3))), results)


@pytest.mark.parametrize("operation", [torch.ops.aten.sum.default, torch.ops.aten.sort.default])
def test_without_its_token_an_operation_knows_what_it_gives(lesson, operation):
    value = operation(x(3))
    graph, signature = on_a_token(operation, {}, pytree.tree_leaves(value))
    lesson.remove_tokens(graph, signature)
    (node,) = graph.find_nodes(op="call_function", target=operation)
    same_numbers(node.meta["val"], tuple(value) if isinstance(value, tuple) else value)


class Greets(nn.Module):
    """Takes nothing, so that a token is all that its program takes."""

    def forward(self):
        torch.ops.aten._print("hello")
        return torch.ones(2)


def test_a_program_that_takes_a_token_alone_runs(lesson):
    like_eager(lesson, Greets(), functional=True, runs=1)


def test_an_annotation_that_all_nodes_share_moves_to_the_call(lesson):
    class Annotated(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            with torch.fx.traceback.annotate({"stage": 1}):
                return self.block(x)

    with torch.fx.traceback.preserve_node_meta():
        program = export(Annotated(), x())
    tree = lesson.unflatten(program)
    site = next(iter(tree.graph.find_nodes(op="call_module")))
    inside = [node for node in tree.block.graph.nodes if node.op.startswith("call")]
    notes = str([node.meta.get("custom") for node in inside])
    equal([site.meta.get("custom", {}).get("stage"), "'stage'" in notes], [1, False])


def test_a_joint_graph_is_refused(lesson):
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x).sum()

    like_eager(lesson, Loss(), x())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        joint = _export_forward_backward(export(Loss(), x()))
    with refuses(
        ValueError, cause="a graph with a backward was unflattened as if it were a forward"
    ):
        lesson.unflatten(joint)


@pytest.mark.beyond("torch replaces the first part of the call by the second")
def test_a_call_that_is_interrupted_runs(lesson):
    same_numbers(
        lesson.unflatten(interrupted_program())(x()),
        x().relu().tanh().sigmoid() * x().relu().tanh().sigmoid().sigmoid(),
    )


@pytest.mark.parametrize("seed", random_models.SEEDS)
def test_a_random_tree_comes_back(lesson, seed):
    specimen = random_models.tree(seed)
    tree = lesson.unflatten(export(specimen.model, *specimen.inputs))
    same_numbers(tree(*specimen.inputs), specimen.eager())
    equal(
        [names(tree), list(tree.state_dict())],
        [names(specimen.model), list(specimen.model.state_dict())],
    )


@pytest.mark.beyond(
    "in a few of 200 models torch calls a module of a later call, which isn't there", run=False
)
@pytest.mark.parametrize("seed", random_models.SEEDS)
def test_a_random_choice_of_modules_keeps_its_signatures(lesson, seed):
    specimen = random_models.wired(seed)
    model, inputs = specimen.model, specimen.inputs
    preserve = random_models.some_called(specimen, seed)
    tree = lesson.unflatten(export(model, *inputs, preserve=preserve))
    same_numbers(
        [tree(*inputs), tree(*inputs), dict(tree.named_buffers())],
        [model(*inputs), model(*inputs), dict(model.named_buffers())],
    )


@pytest.mark.beyond(
    "torch hands every parameter through the calls, and compares its name with those of all "
    "children: quadratic in the layers"
)
def test_the_work_grows_with_the_number_of_layers(lesson):
    def work(layers: int) -> int:
        program = export(nn.Sequential(*(nn.Linear(1, 1) for _ in range(layers))), x(1, 1))
        lesson.unflatten(program)
        return lines_run(lambda: lesson.unflatten(program))

    few, many = work(10), work(160)
    holds(
        many <= 20 * few,
        "about 16 times as many steps for 160 layers as for 10",
        got=f"{few} and {many} lines of Python",
    )


# --- what the core's tests ask, of programs that the core isn't made for


def core_test(name: str, **options: object) -> object:
    """One of the core's tests, with another way to export."""
    words = " ".join(getattr(value, "__name__", str(value)) for value in options.values())
    return pytest.param(partial(getattr(core, name), **options), id=f"{name[5:]}-{words}")


@pytest.mark.parametrize(
    "test",
    [
        core_test("test_state_keeps_the_models_order", model=tied_with_biases, strict=True),
        core_test("test_everything_is_restored_as_what_it_was", strict=True),
        core_test("test_the_state_dict_has_the_keys_and_the_order_of_the_eager_model", strict=True),
        *(
            core_test("test_it_runs_like_the_eager_model", model=model, strict=True)
            for model in (CalledTwice, CalledDifferently, Tied, Aliased, UsesSeveral, CountedTwice)
        ),
        core_test("test_a_module_under_two_names_has_one_set_of_parameters", strict=True),
        core_test("test_structures_go_in_and_come_out", strict=True),
        core_test("test_sizes_cross_submodules", strict=True),
    ],
)
def test_a_program_of_strict_export_does_the_same(lesson, test):
    test(lesson)


@pytest.mark.parametrize(
    "test",
    [
        core_test("test_batch_norm_updates_its_statistics", model=fixed_norms, functional=True),
        core_test("test_batch_norm_updates_its_statistics", model=training_norms, functional=True),
        core_test("test_a_mutated_buffer_crosses_submodules", functional=True),
        core_test("test_a_mutated_input_is_mutated", functional=True),
        core_test("test_a_buffer_that_is_no_part_of_the_state_dict_is_mutated", functional=True),
        core_test("test_the_program_stays_as_it_was", functional=True),
    ],
)
def test_a_functional_program_does_the_same(lesson, test):
    test(lesson)


@pytest.mark.parametrize(
    "test",
    [
        core_test("test_the_program_stays_as_it_was", preserve=("counter",)),
        *(
            core_test("test_sizes_cross_submodules", strict=strict, preserve=preserve)
            for strict in (False, True)
            for preserve in (("reshape",), ("reshape", "linear"))
        ),
    ],
)
def test_a_program_with_preserved_signatures_does_the_same(lesson, test):
    test(lesson)


@pytest.mark.parametrize("seed", range(3, 12))
def test_more_random_module_trees_run_like_the_eager_ones(lesson, seed):
    core.test_a_random_module_tree_runs_like_the_eager_one(lesson, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REAL if name not in QUICK])
def test_more_real_models_come_back(lesson, name):
    core.test_a_real_model_comes_back(lesson, name)


# --- names that are taken, and names that are shared


def norm_twice() -> nn.Module:
    norm = nn.LayerNorm(3)
    return Steps(norm, nn.ReLU(), norm)


def block_twice() -> nn.Module:
    block = Block()
    return Steps(block, nn.ReLU(), block)


@pytest.mark.parametrize("make", [norm_twice, block_twice])
def test_a_hook_on_a_module_with_two_names_fires_for_both(lesson, make):
    tree = like_eager(lesson, make, x(), strict=True).tree
    fired = []
    tree.get_submodule("0").register_forward_hook(lambda *args: fired.append(args))
    tree(x())
    equal(len(fired), 2, cause=(is_value(1), "there are two modules, and one has the hook"))


def test_a_body_of_a_module_with_two_names_moves_with_it(lesson):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Branch()
            self.second = self.first

        def forward(self, x):
            return self.second(self.first(self.first(x, False), True), False)

    run = like_eager(lesson, Both(), x(), strict=True)
    same_numbers(run.tree.double()(x().double()), run.eager.double()(x().double()))


def test_a_later_body_of_a_module_with_two_names_is_shared(lesson):
    class TakesTurns(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Branch()
            self.second = self.first
            self.relu = nn.ReLU()  # names of calls in a row become one

        def forward(self, x):
            x = self.relu(self.first(x, False))
            x = self.relu(self.second(x, True))
            x = self.relu(self.second(x, False))
            return self.first(x, True)

    tree = lesson.unflatten(export(TakesTurns(), x(), strict=True))
    equal([name for name, _ in tree.named_modules() if "@" in name], [])


class Takes(nn.Module):
    """Has children, or a buffer, of the names that export gives to the branches of ``cond``."""

    def __init__(self, taken: str):
        super().__init__()
        if taken == "child":
            self.true_graph_0, self.false_graph_0 = nn.Linear(3, 3), nn.Tanh()
        else:
            self.register_buffer("true_graph_0", torch.rand(3))
        self.taken = taken

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        if self.taken == "child":
            return self.false_graph_0(self.true_graph_0(y))
        return y + self.true_graph_0


@pytest.mark.beyond("torch replaces the child by the branch, or the branch by the child")
@pytest.mark.parametrize("taken", ["child", "buffer"])
def test_a_branch_of_cond_finds_a_free_name(lesson, taken):
    eager = Takes(taken)
    tree = lesson.unflatten(export(eager, x()))
    found = getattr(tree, "true_graph_0", None)
    equal(
        list(tree.state_dict()),
        list(eager.state_dict()),
        cause=(
            isinstance(found, torch.fx.GraphModule),
            "a branch of `cond` overwrote the attribute of the model that has its name",
        ),
    )
    same_numbers(tree(x()), eager(x()))


class Flattens(nn.Module):
    """Has a child that is called as `nn.Flatten` often is."""

    def __init__(self):
        super().__init__()
        self.flatten, self.linear = nn.Flatten(), nn.Linear(6, 2)

    def forward(self, x):
        return self.linear(self.flatten(x))


def test_a_child_may_be_called_flatten(lesson):
    run = like_eager(lesson, Flattens(), torch.rand(2, 2, 3))
    equal(list(dict(run.tree.named_children())), ["flatten", "linear"])


@pytest.mark.beyond("torch has an attribute of that name on the module")
def test_a_child_may_have_the_name_of_a_structure(lesson):
    name = "_spec_0"

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module(name, nn.Linear(3, 3))
            self.inner = Keeps()

        def forward(self, x):
            return self.inner([self.get_submodule(name)(x)])

    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module(name, nn.Linear(3, 3))

        def forward(self, values):
            return self.get_submodule(name)(values[0])

    run = like_eager(lesson, Named(), x(), preserve=("inner",))
    equal(list(run.tree.state_dict()), list(run.eager.state_dict()))


@pytest.mark.unasked  # it is given
def test_an_outline_can_be_printed(lesson):
    shown = repr(lesson.outline(program_of(one_block, x()).graph))
    holds("path='0.linear'" in shown, "the calls inside, too", got=shown)


@pytest.mark.unasked  # it is given
@pytest.mark.parametrize(("path", "ancestor"), [("1", "0"), ("first2", "first"), ("", "first")])
def test_what_does_not_lie_below_has_no_relative_name(lesson, path, ancestor):
    with refuses(ValueError, repr(path), repr(ancestor)):
        lesson.relative_to(ancestor, path)
