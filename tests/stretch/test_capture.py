"""``capture``: what comes back from writes, the backward, what is refused; then real models."""

from __future__ import annotations

import copy
from functools import partial

import numpy
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tests import random_models
from tests import test_capture as core
from tests.models.capture import (
    OF_OPERATORS,
    Block,
    Cached,
    Net,
    as_make_fx,
    aten,
    operators,
    pure,
    recorded,
    run,
    runs_as_eager,
    same_operators,
    same_stacks,
    trains_as_eager,
    with_linear,
    written_as_eager,
)
from tests.suite import equal, holds, is_value, refuses, rest_slow, same_numbers
from tests.suite.chance import by_chance
from tests.suite.implementations import reference_of
from tests.suite.programs import default_decompositions, export, specs_are_copied
from tests.suite.versions import that_run
from tests.zoo import SMALL, Model, Pair, classifier

# --- a program is torch's -------------------------------------------------------------------------


def unflattened(lesson, model, *args, **kwargs):
    """Return the module tree that torch makes of the lesson's program."""
    program = lesson.program(model, args, kwargs)
    with specs_are_copied():
        return torch.export.unflatten(program)


@pytest.mark.parametrize("make", [Block, Cached, Net], ids=lambda make: make.__name__)
def test_a_program_becomes_the_modules_of_the_model(lesson, make):
    torch.manual_seed(0)
    model = make().eval()
    x = torch.rand(3) if make is Cached else torch.rand(1, 3, 4, 4)
    expected = {name for name, _ in model.named_modules()}
    tree = unflattened(lesson, model, x)
    equal({name.partition("@")[0] for name, _ in tree.named_modules()}, expected)
    same_numbers(tree(x), model(x))


@pytest.mark.parametrize("seed", rest_slow((0, 2, 1, 3), quick=2))
def test_a_grown_model_comes_back_from_its_program(lesson, seed):
    model, inputs, kwargs = vars(random_models.tree(seed)).values()
    tree = unflattened(lesson, model, *inputs, **kwargs)
    same_numbers(tree(*inputs, **kwargs), model(*inputs, **kwargs))


def replaces(model, x):
    """Assign a buffer anew, write one at a place, and write the argument."""
    model.count = model.count + 1
    model.cache[1] = x
    x.add_(1)
    return model.cache.sum(0) * model.count


def with_buffers():
    count, cache = nn.Buffer(torch.zeros(())), nn.Buffer(torch.zeros(3, 2))
    return Model(replaces, count=count, cache=cache), torch.ones(2)


@pytest.mark.parametrize(
    ("model", "x"), [(Block().train(), torch.rand(2, 3, 4, 4)), with_buffers()], ids=["norm", "all"]
)
def test_outputs_are_marked_as_export_marks_them(lesson, model, x):
    def marks(program):  # the lesson numbers the arguments
        specs = program.graph_signature.output_specs
        return sorted((spec.kind.name, str(spec.target).replace("input_0", "x")) for spec in specs)

    equal(marks(lesson.program(model, (x,))), marks(export(model, x, functional=True)))


def test_what_is_written_comes_back(lesson):
    model, x = with_buffers()
    tree, eager = unflattened(lesson, model, x), copy.deepcopy(model)
    for _ in range(2):
        ours, theirs = torch.ones(2), torch.ones(2)
        same_numbers([tree(ours), ours], [eager(theirs), theirs])


def exchanges(model, x):
    model.a, model.b = model.b, model.a
    return x + model.a, model.a


def returns_the_old_one(model, x):
    old, model.a = model.a, model.a + x
    return old, model.a


def keeps_the_old_one(model, x):
    model.b = model.a
    model.a = model.a + x
    return x + model.b


@pytest.mark.beyond("torch refuses two of the programs, and returns the new buffer for the old one")
@pytest.mark.parametrize("forward", [exchanges, returns_the_old_one, keeps_the_old_one])
def test_the_value_that_a_buffer_had_before_is_another_value(lesson, forward):
    model = Model(forward, a=nn.Buffer(torch.ones(2)), b=nn.Buffer(torch.full((2,), 5.0)))
    program, eager = lesson.program(model, (torch.ones(2),)), copy.deepcopy(model)
    tree = reference_of("unflatten").unflatten(program)  # torch's writes one buffer, then the other
    for _ in range(2):
        same_numbers(tree(torch.ones(2)), eager(torch.ones(2)))
    same_numbers(dict(tree.state_dict()), dict(eager.state_dict()))


# --- a captured model trains like the model, or is refused ----------------------------------------


def straight_through(y, x):
    with torch.no_grad():
        step = y.round() - y
    return y + step


def unchanged_under_no_grad(y, x):
    with torch.no_grad():
        z = y.float().contiguous()
    return z * y


def averaged_under_no_grad(y, x):
    mean = torch.zeros(4)
    with torch.no_grad():
        mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
    return y * mean


def force(y, x, **options):
    (gradient,) = torch.autograd.grad((y**3).sum(), y, **options)
    return y + gradient


checkpointed = partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)
TRAINED = {
    "data is read": lambda y, x: y * y.data,
    "a force that has a derivative": partial(force, create_graph=True),
    "a checkpoint": lambda y, x: checkpointed(lambda z: z.sin() * z, y),
    "nothing changes under no_grad": unchanged_under_no_grad,
}
UNTRACKED = (straight_through, averaged_under_no_grad, force)


@pytest.mark.parametrize("body", TRAINED.values(), ids=TRAINED)
def test_what_was_captured_trains_like_the_model(lesson, body):
    trains_as_eager(lesson, with_linear(body), torch.rand(2, 4))


@pytest.mark.beyond("aten.copy has no derivative")
def test_a_copy_has_a_derivative(lesson):
    def body(y, x):
        z = torch.zeros_like(y)
        z[:, 1] = y[:, 0]
        return z * y

    trains_as_eager(lesson, with_linear(body), torch.rand(2, 4))


@pytest.mark.beyond("the derivative of aten.as_strided_scatter is wrong")
def test_a_write_through_as_strided_has_a_derivative(lesson):
    def body(y, x):
        z = y * 1
        z.as_strided((2,), (5,)).mul_(3)
        return z * y

    trains_as_eager(lesson, with_linear(body), torch.rand(2, 4))


@pytest.mark.beyond("make_fx records nothing of torch.no_grad")
@pytest.mark.parametrize("body", UNTRACKED, ids=lambda each: each.__name__)
def test_no_gradient_passes_what_autograd_did_not_follow(lesson, body):
    trains_as_eager(lesson, with_linear(body), torch.rand(2, 4))


@pytest.mark.parametrize("make", [partial(nn.GRUCell, 4), nn.BatchNorm1d], ids=["gru", "norm"])
def test_a_layer_trains_like_the_model(lesson, make):
    torch.manual_seed(0)
    trains_as_eager(lesson, make(4), torch.rand(3, 4))


def clamped_under_no_grad(y, x):
    z = y * 2
    with torch.no_grad():
        z.clamp_(0, 1)
    return z


def assigned_data(y, x):
    z = y * 2
    z.data = z[:1] * 10
    return z


def detached_in_place(y, x):
    z = y * 2
    z.detach_()
    return z * y


def hooked(y, x):
    z = y * 2
    z.register_hook(lambda gradient: gradient * 2)
    return z


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def custom_function(y, x):
    return Straight.apply(y)


def assigned_gradient(y, x):
    x.grad = x * 2
    return y


COUNTER = torch.zeros(1)
REFUSED = {
    "autograd doesn't see": clamped_under_no_grad,
    "copy_": assigned_data,
    "use detach": detached_in_place,
    "hook": hooked,
    "Straight": custom_function,
    "register it as a buffer": lambda y, x: y * COUNTER.add_(1),
    "generator": lambda y, x: y * torch.rand(4, generator=torch.Generator()),
    "assigns a gradient": assigned_gradient,
    "use eval mode": lambda y, x: nn.functional.rrelu(y, training=True),
    "torch.cond": lambda y, x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (y,)),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_a_graph_gets_wrong_is_refused_with_the_line(lesson, words):
    body = REFUSED[words]
    with refuses(lesson.CaptureError, "test_capture.py", body.__name__, words):
        lesson.capture(with_linear(body), (torch.rand(2, 4),))
    equal(COUNTER.tolist(), [0.0])


def test_rrelu_in_eval_mode_has_one_slope(lesson):
    model, x = nn.RReLU().eval(), torch.tensor([2.0, -3.0])
    same_numbers(lesson.capture(model, (x,))(x), model(x))


def test_a_block_may_have_a_name_for_the_profiler(lesson):
    def named(x):
        with torch.profiler.record_function("block"):
            return x * 2

    captured = lesson.capture(named, (torch.ones(2),))
    same_numbers(captured(torch.ones(2)), torch.full((2,), 2.0))


def test_under_no_grad_a_graph_is_for_running_only_and_less_is_refused(lesson):
    with torch.no_grad():
        for body in (clamped_under_no_grad, custom_function):
            runs_as_eager(lesson.capture, with_linear(body), torch.rand(2, 4))


def has_a_view():
    """A model that writes a buffer, and then reads a view of it that isn't registered."""
    memory = torch.zeros(2)
    writes = lambda model, x: (model.memory.add_(1), model.view * x)
    return Model(writes, memory=nn.Buffer(memory), view=memory[:1])


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (lambda x, y: x.add_(1) * y, torch.arange(4.0).split(2)),
        (has_a_view(), (torch.ones(1),)),
    ],
    ids=["arguments", "view"],
)
def test_a_write_to_tensors_that_share_memory_is_refused(lesson, model, args):
    with refuses(lesson.CaptureError, "test_capture.py", "share memory", cause="it was recorded"):
        lesson.capture(model, args)


class Box:
    """Holds a tensor, and isn't a pytree."""

    def __init__(self, tensor):
        self.tensor = tensor


HIDING = {"function": lambda tensor: lambda: tensor, "Box": Box}


@pytest.mark.parametrize("kind", HIDING)
def test_what_hides_a_tensor_is_refused_by_name(lesson, kind):
    hides = HIDING[kind]
    with refuses(lesson.CaptureError, "input_0", kind, "pytree"):
        lesson.capture(lambda hidden, x: x + 1, (hides(torch.ones(2)), torch.ones(2)))
    with refuses(lesson.CaptureError, "the result", kind, "pytree"):
        lesson.capture(hides, (torch.ones(2),))


def test_a_function_that_holds_no_tensor_may_be_an_argument(lesson):
    captured = lesson.capture(lambda act, x: act(x) + 1, (torch.relu, torch.ones(2)))
    same_numbers(captured(torch.relu, torch.ones(2)), torch.full((2,), 2.0))


def reads_a_row():
    """A model that keeps a part of its weight in a list."""
    linear = nn.Linear(4, 4)
    row = lambda model, x: model.linear(x) * model.rows[0]
    return Model(row, linear=linear, rows=[linear.weight[0]])


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch reads it to make a fake tensor
def test_a_tensor_made_of_a_parameter_isnt_a_constant(lesson):
    trains_as_eager(lesson, reads_a_row(), torch.rand(2, 4))
    for make in (lesson.program, lesson.capture_flat):
        with refuses(lesson.CaptureError, "[4]", "parameter", "make it in forward"):
            make(reads_a_row(), (torch.rand(2, 4),))


def test_a_parameter_is_one_while_a_model_is_captured(lesson):
    class Asks(nn.Linear):
        def forward(self, x):
            return super().forward(x) * (2 if isinstance(self.weight, nn.Parameter) else 1)

    runs_as_eager(lesson.capture, Asks(4, 4), torch.rand(2, 4))


def test_a_state_that_isnt_a_buffer_is_refused(lesson):
    def counts(model, x):
        model.seen = model.seen + 1
        return x * model.seen

    model = Model(counts, seen=torch.zeros(1))
    with refuses(lesson.CaptureError, "seen", "register it as a buffer"):
        lesson.capture(model, (torch.ones(1),))
    same_numbers(model.seen, torch.zeros(1))


@pytest.mark.beyond("fake tensors stay there")
def test_what_a_model_keeps_in_its_containers_is_taken_out_again(lesson):
    def keeps(model, x):
        model.latest = model.named["x"] = model.box.tensor = x * 2
        model.nested[0].append(model.box.tensor)
        return x

    model = Model(keeps, named={}, nested=([],), box=Box(None))
    lesson.capture(model, (torch.ones(1),))
    equal((model.named, model.nested, model.box.tensor), ({}, ([],), None))
    holds(not hasattr(model, "latest"), "no attribute that the model hadn't")


@torch.library.custom_op("kata::noted", mutates_args=())
def noted(x: torch.Tensor) -> None:
    """An operator that is called for its effect alone."""


noted.register_fake(lambda x: None)


@pytest.mark.beyond("make_fx doesn't know that it has an effect")
def test_an_operator_that_returns_nothing_is_kept(lesson):
    def function(x):
        noted(x)
        return x + 1

    names = operators(lesson.capture(function, (torch.ones(1),)).graph)
    equal(names, ["kata.noted.default", "aten.add.Tensor"])


@torch.library.custom_op("kata::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    """An operator with a derivative of its own, seven times too large."""
    return x * 2


scaled.register_fake(torch.empty_like)
scaled.register_autograd(lambda ctx, gradient: gradient * 14)


def test_a_custom_operator_keeps_its_derivative(lesson):
    trains_as_eager(lesson, with_linear(lambda y, x: scaled(y)), torch.rand(2, 4))


@pytest.mark.parametrize("transform", [torch.vmap, lambda each: torch.func.grad(each)])
def test_function_transforms_are_recorded(lesson, transform):
    def function(x):
        return transform(lambda each: (each * shift).sin().sum())(x)

    shift = torch.tensor([3.0])
    runs_as_eager(lesson.capture, function, torch.rand(2, 1))


def test_a_named_tuple_comes_back(lesson):
    result = lesson.capture(lambda x: Pair(x + 1, [x, 3]), (torch.ones(2),))(torch.ones(2))
    equal((type(result), result.right[1]), (Pair, 3))


# --- forward and backward -------------------------------------------------------------------------


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(Block(), nn.Flatten(), nn.Linear(48, 2))
        self.layer = nn.TransformerEncoderLayer(2, 1, 4, batch_first=True, dropout=0.0)

    def forward(self, x, target):
        return nn.functional.cross_entropy(self.layer(self.net(x)[:, None])[:, 0], target)


@pytest.mark.parametrize("table", [None, "export's"], ids=["whole", "decomposed"])
def test_a_backward_is_captured_with_its_forward(lesson, table):
    torch.manual_seed(0)
    model, x, target = Loss().train(), torch.rand(2, 3, 4, 4), torch.tensor([0, 1])
    table = default_decompositions() if table else None
    joint = lesson.capture_joint(model, (x, target), table=table)
    pure(joint.graph)
    loss, gradients = run(joint, model, x, target)
    expected = model(x, target)
    expected.backward()
    same_numbers(loss, expected.detach())
    same_numbers(gradients, [each.grad for each in model.parameters()])


def test_a_parameter_that_is_frozen_or_unused_has_no_gradient(lesson):
    model = Model(
        lambda model, x: (x * model.used * model.frozen).sum(),
        used=nn.Parameter(torch.ones(2)),
        frozen=nn.Parameter(torch.ones(2), requires_grad=False),
        unused=nn.Parameter(torch.ones(2)),
    )
    _, gradients = run(lesson.capture_joint(model, (torch.ones(2),)), model, torch.ones(2))
    same_numbers(gradients, [torch.ones(2), None])


# --- autocast, random numbers ---------------------------------------------------------------------


def test_an_autocast_region_becomes_casts(lesson):
    def model(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x

    captured = runs_as_eager(lesson.capture, model, torch.rand(2, 2))
    holds("aten._to_copy.default" in operators(captured.graph), "a cast to bfloat16")


def test_random_numbers_are_drawn_when_the_graph_runs(lesson):
    model = nn.Sequential(nn.Dropout(0.2), nn.Linear(8, 8)).train()
    captured = lesson.capture(model, (torch.ones(4, 8),))
    pure(captured.graph)
    torch.manual_seed(1)
    result = run(captured, model, torch.ones(4, 8))
    torch.manual_seed(1)
    same_numbers(result, model(torch.ones(4, 8)).detach())


# --- what is refused ------------------------------------------------------------------------------


class Tagged(torch.Tensor):
    """A subclass without behaviour of its own."""


def symbolic() -> torch.Tensor:
    return FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(3, 4))


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: torch.ones(2).as_subclass(Tagged), "Tagged"),
        (lambda: torch.eye(2).to_sparse(), "to_dense"),
        (symbolic, "FakeTensor"),
    ],
    ids=["subclass", "sparse", "symbolic sizes"],
)
def test_a_tensor_that_is_not_a_plain_one_is_refused_by_name(lesson, make, word):
    with refuses(lesson.CaptureError, "input_0", word, cause="it was taken for a plain tensor"):
        lesson.capture(lambda x: x + 1, (make(),))


# --- what functionalization does, by hand ---------------------------------------------------------


def test_a_write_is_recorded_as_the_operator_that_returns_the_result(lesson):
    recorder = recorded(lesson.WriteRecorder, lambda: torch.zeros(2).add_(1).relu_())
    equal(operators(recorder.graph)[1:], ["aten.add.Tensor", "aten.relu.default"])


def test_the_pure_operator_takes_the_same_arguments(lesson):
    recorder = lesson.WriteRecorder({})
    pairs = {
        aten.add_.Scalar: aten.add.Scalar,
        aten.add_.Tensor: aten.add.Tensor,
        aten.fill_.Tensor: aten.fill.Tensor,
        aten.transpose_.default: aten.transpose.int,
        aten.bernoulli_.float: aten.bernoulli.p,
    }
    for written, returned in pairs.items():
        equal(str(recorder.functional(written)), str(returned))


@pytest.mark.parametrize("p", [0.5, 0.3], ids=["default", "given"])
def test_an_argument_that_the_pure_operator_has_no_default_for_is_passed(lesson, p):
    drawn = recorded(lesson.WriteRecorder, lambda: torch.ones(2).bernoulli_(p)).graph.output_node()
    holds(p in (*drawn.args, *drawn.kwargs.values()), f"p to be {p}", got=drawn.args)


def test_an_operator_without_a_pure_version_is_refused(lesson):
    @torch.library.custom_op("kata::add_", mutates_args=("x",))
    def add_(x: torch.Tensor) -> None:
        x.add_(1)

    def model(x):
        y = x * 2
        add_(y)
        return y

    with refuses(lesson.CaptureError, "kata.add_", cause="an operator of the same name was used"):
        lesson.capture_writes(model, (torch.ones(2),))


def test_a_write_to_out_is_refused(lesson):
    with refuses(lesson.CaptureError, "aten.add.out", cause="another operator was used"):
        lesson.capture_writes(lambda x: torch.add(x, 1, out=torch.empty(3)), (torch.ones(3),))


def test_every_view_shows_a_write(lesson):
    def function(x):
        y = x.half()
        row, flat = y[0], y.view(-1)
        row.mul_(2)
        y.add_(x / 3)
        return flat + 1, y, row

    captured = runs_as_eager(lesson.capture_writes, function, torch.arange(9.0).view(3, 3))
    pure(captured.graph)


def test_an_input_with_gaps_between_its_columns_may_be_written(lesson):
    def function(x):
        row = x[1]
        x.add_(1)
        return row * 2

    x = torch.arange(12.0).view(3, 4)[:, ::2]
    captured = lesson.capture_writes(function, (x,))
    same_numbers(captured(x), torch.tensor([10.0, 14.0]))


def test_after_a_write_a_view_is_read_again_once(lesson):
    def function():
        x = torch.ones(2, 2)
        row = x[0]
        x.add_(1)
        row * 2, row * 3

    names = operators(recorded(lesson.WriteRecorder, function).graph)
    cause = (is_value(2), "the node of the view wasn't refreshed, so each use reads it again")
    equal(names.count("aten.as_strided.default"), 1, cause=cause)


def test_transposing_in_place_is_not_a_write(lesson):
    def function(x):
        y = x * 2
        row = y[0]
        y.t_()
        return row + 1, y + 1

    names = operators(lesson.capture_writes(function, (torch.ones(2, 3),)).graph)
    equal(
        "aten.as_strided.default" in names,
        False,
        cause=(is_value(True), "`t_` was taken for a write, so the row was read again"),
        hint="such an operator has the tag `torch.Tag.inplace_view`",
    )


def test_a_write_that_eager_refuses_is_refused(lesson):
    with refuses(RuntimeError, "broadcast", cause="the write was recorded"):
        lesson.capture_writes(lambda x: x.add_(torch.ones(3, 2)), (torch.ones(2),))


@pytest.mark.parametrize("written", ["bits", "floats"])
def test_a_write_to_memory_that_has_two_dtypes_is_refused(lesson, written):
    def model(x):
        floats = x * 2
        bits = floats.view(torch.int32)
        (bits if written == "bits" else floats).add_(1)
        return bits, floats

    with refuses(lesson.CaptureError, cause="`as_strided` read memory of one dtype as the other"):
        lesson.capture_writes(model, (torch.ones(2),))


def test_a_write_to_memory_that_is_read_negated_is_refused(lesson):
    def model(x):
        y = x * 2
        torch.view_as_complex(y).conj().imag.mul_(2)
        return y

    with refuses(lesson.CaptureError, cause="`as_strided` read a negated view without its sign"):
        lesson.capture_writes(model, (torch.ones(3, 2),))


@by_chance(12)
def test_a_random_program_of_writes_by_hand_computes_what_eager_does(lesson, chance):
    written_as_eager(lesson.capture_writes, chance)


def test_a_slice_of_a_list_of_parameters_and_an_array_of_numpy_are_read(lesson):
    def forward(model, x):
        for each in model.scales[1:]:
            x = x * each
        return x + torch.from_numpy(numpy.ones(2, dtype=numpy.float32))

    scales = nn.ParameterList([nn.Parameter(torch.full((2,), each)) for each in (1.0, 2.0, 3.0)])
    runs_as_eager(lesson.capture, Model(forward, scales=scales), torch.ones(2))


def test_a_write_to_a_parameter_is_refused_as_eager_refuses_it(lesson):
    def forward(model, x):
        return x + model.scale.mul_(2)

    model = Model(forward, scale=nn.Parameter(torch.ones(2)))
    with refuses(RuntimeError, "leaf Variable", "in-place", cause="the write was recorded"):
        lesson.capture(model, (torch.ones(2),))


def test_attributes_that_exchange_their_tensors_are_refused(lesson):
    def forward(model, x):
        model.one, model.other = model.other, model.one
        return x + model.one

    model = Model(forward, one=torch.zeros(2), other=torch.ones(2))
    with refuses(lesson.CaptureError, "one", "buffer", cause="the next call reads the other one"):
        lesson.capture(model, (torch.ones(2),))


@pytest.mark.beyond("torch: SpecViolationError")
def test_two_buffers_may_have_one_new_value(lesson):
    def forward(model, x):
        model.one = model.other = x * 2
        return x + 1

    model = Model(forward)
    for name in ("one", "other"):
        model.register_buffer(name, torch.zeros(2))
    tree = unflattened(lesson, model, torch.ones(2))
    tree(torch.ones(2))
    same_numbers([*tree.buffers()], [torch.full((2,), 2.0)] * 2)


# --- real models, and many programs ---------------------------------------------------------------

MODELS = (
    *("squeezenet1_0", "mobilenet_v3_small", "shufflenet_v2_x0_5"),
    *("resnet50", "efficientnet_b0", "convnext_tiny", "densenet121", "regnet_y_400mf"),
    *("vgg11", "mnasnet0_5", "mobilenet_v2", "alexnet", "vit_b_32", "resnext50_32x4d"),
)
# Export writes a clone for a dropout in eval mode, and none of the copies that a rule of its table
# writes for ``hardswish_``: models with these have other operators there.
EXPORTED = ("shufflenet_v2_x0_5", "resnet50", "densenet121")


OF_PYTHON = SMALL.keys() - {*OF_OPERATORS, "AnyDefault", "KeywordOnly", "Constants"}


@pytest.mark.parametrize("name", that_run(sorted(OF_PYTHON)))
def test_a_small_model_has_the_operators_of_make_fx_however_python_passes_arguments(lesson, name):
    core.test_a_small_model_has_the_operators_that_make_fx_records(lesson, name)


@pytest.mark.parametrize("decomposed", rest_slow((False, True), quick=1))
@pytest.mark.parametrize("name", rest_slow(MODELS, quick=1))
def test_a_model_of_torchvision_has_the_operators_of_make_fx(lesson, name, decomposed):
    assert lesson.Recorder  # torch has none: it would be compared with itself
    table = default_decompositions() if decomposed else None
    model, inputs, _ = vars(classifier(name)).values()
    with torch.no_grad():
        captured = lesson.capture(model, inputs, table=table)
        same_operators(captured.graph, as_make_fx(model, *inputs, table=table))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_a_model_of_torchvision_has_the_operators_and_modules_of_export(lesson, name):
    model, inputs, _ = vars(classifier(name)).values()
    program = lesson.program(model, inputs, table=default_decompositions())
    expected = export(model, *inputs, functional=True)
    same_operators(program.graph, operators(expected.graph))
    same_stacks(program.graph, expected.graph)


@pytest.mark.slow
@by_chance(300)
def test_three_hundred_random_programs_give_the_numbers_of_eager(lesson, chance):
    written_as_eager(lesson.capture, chance)
