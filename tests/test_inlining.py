"""``inlining``: a call replaced by what it does gives the same numbers, from the same state."""

from __future__ import annotations

import copy
from collections import OrderedDict, namedtuple
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule, Interpreter, Node, symbolic_trace
from torch.fx.proxy import TraceError
from torch.nn import functional as F

from tests import random_models, zoo
from tests.suite import equal, growth, holds, noting, refuses, rows, same_numbers
from tests.suite.versions import that_run

LINEAR = 2.5
NUMBERS = "the nodes that were put in don't do what the call did"
NUMBERS_HINT = "print `gm.code` before and after"
LEFT = "a call of the target is left, or more than the target was inlined"
LEFT_HINT = "look at every `call_module` node whose target it is"


class LeavesGiven(torch.fx.Tracer):
    """Records modules of the given classes as one call."""

    def __init__(self, *types: type[nn.Module]):
        super().__init__()
        self.types = types

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, self.types) or super().is_leaf_module(m, module_qualified_name)


class Parent(nn.Module):
    """One child, called on the input, and an addition."""

    def __init__(self, child: nn.Module):
        super().__init__()
        self.child = child

    def forward(self, x):
        return self.child(x) + 1.0


def traced(model: nn.Module) -> GraphModule:
    """Trace a model; its class's own child classes are leaves, and so is every Sequential."""
    tracer = LeavesGiven(*{type(module) for module in model.modules()} - {type(model)})
    return GraphModule(model, tracer.trace(model))


def targets(graph: Graph, op: str = "call_module") -> list[str]:
    return [str(node.target) for node in graph.nodes if node.op == op]


def same_as(gm: GraphModule, model: nn.Module, *inputs: torch.Tensor) -> None:
    """Fail unless the edited module is sound and gives the model's numbers."""
    gm.graph.lint()
    same_numbers(gm(*inputs), model(*inputs), cause=NUMBERS, hint=NUMBERS_HINT)


def parent_of(child: nn.Module) -> tuple[Parent, GraphModule]:
    torch.manual_seed(0)
    model = Parent(child)
    return model, traced(model)


class Twice(nn.Module):
    """One layer called at two places, once by keyword."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.linear(input=self.relu(self.linear(x)))


class Pair(nn.Module):
    def forward(self, x):
        return x + 1, [x - 1, 5]


class Named(nn.Module):
    def forward(self, x):
        return {"plus": x + 1, "minus": x - 1}


Point = namedtuple("Point", ["x", "y"])


class MakesAPoint(nn.Module):
    def forward(self, x):
        return Point(x + 1, x - 1)


class UsesAPair(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = Pair()

    def forward(self, x):
        first, rest = self.pair(x)
        return first * rest[0] + rest[1]


class PassesAPairOn(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = Pair()

    def forward(self, x):
        return self.pair(x)


class UsesNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.named = Named()

    def forward(self, x):
        return self.named(x)["plus"] * self.named(x)["minus"]


class UsesAPoint(nn.Module):
    def __init__(self):
        super().__init__()
        self.make = MakesAPoint()

    def forward(self, x):
        point = self.make(x)
        return point.x * point[1]


class Optional(nn.Module):
    """Branches on whether an argument is given: known while tracing."""

    def forward(self, x, y=None, *, scale: float = 2.0):
        return x * scale if y is None else x + y


class UsesOptional(nn.Module):
    def __init__(self):
        super().__init__()
        self.optional = Optional()

    def forward(self, x):
        return self.optional(self.optional(x, scale=3.0), y=x)


class Branching(nn.Module):
    """Branches on a value: not known while tracing. What comes before is recorded."""

    def forward(self, x):
        y = torch.exp(x)
        return y if y.sum() > 0 else -y


class Stateful(nn.Module):
    """A parameter, a buffer, a plain tensor, a constant made on the way, and a child."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4))
        self.register_buffer("offset", torch.rand(4))
        self.plain = torch.rand(4)
        self.linear = nn.Linear(4, 4)
        self.unused = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x * self.weight + self.offset) * self.plain + torch.tensor(2.0)


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), Stateful()))

    def forward(self, x):
        return self.block(x)


class Passes(nn.Module):
    """Returns its input: the result of the call is the node of an earlier one."""

    def forward(self, x):
        return x


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.passes = nn.ReLU(), Passes()

    def forward(self, x):
        return self.passes(self.passes(self.first(x)))


class Nothing(nn.Module):
    def forward(self, x):
        return None


class IgnoresAResult(nn.Module):
    def __init__(self):
        super().__init__()
        self.nothing = Nothing()

    def forward(self, x):
        self.nothing(x)
        return x, self.nothing(x)


X = torch.linspace(-1, 1, 8).reshape(2, 4)


# --- inline_module --------------------------------------------------------------------------------


def test_relu_is_replaced_by_the_function_it_calls(lesson):
    model, gm = parent_of(nn.ReLU())
    lesson.inline_module(gm, "child")
    relu = next(node for node in gm.graph.nodes if node.target is F.relu)
    equal(relu.op, "call_function", cause=LEFT, hint=LEFT_HINT)
    equal(
        [node.op for node in gm.graph.nodes],
        ["placeholder", "call_function", "call_function", "output"],
        cause="the old node is still there, or something was recorded twice",
        hint="erase the call once its users have the result",
    )
    same_as(gm, model, X)


def test_the_module_given_is_edited_and_returned(lesson):
    _, gm = parent_of(nn.ReLU())
    graph = gm.graph
    holds(lesson.inline_module(gm, "child") is gm, "gm itself", hint="return `gm`")
    holds(gm.graph is graph, "the same graph, edited", cause="a new graph was made")


def test_the_code_is_generated_anew(lesson):
    _, gm = parent_of(nn.ReLU())
    lesson.inline_module(gm, "child")
    holds(
        "self.child" not in gm.code,
        "no call of the submodule in gm.code",
        got=gm.code,
        cause="the graph was edited, and the code wasn't generated from it",
        hint="`gm.recompile()`",
    )


@pytest.mark.parametrize(
    ("child", "state"),
    [
        (lambda: nn.Linear(4, 3), ["child.weight", "child.bias"]),
        (lambda: nn.LayerNorm(4), ["child.weight", "child.bias"]),
        (lambda: nn.Linear(4, 3, bias=False), ["child.weight"]),
    ],
)
def test_parameters_are_read_where_they_are(lesson, child, state):
    model, gm = parent_of(child())
    lesson.inline_module(gm, "child")
    equal(
        targets(gm.graph, "get_attr"),
        state,
        cause="parameters were copied, or are read by another path",
        hint="record a `get_attr` node with the path below the root",
    )
    same_as(gm, model, X)


def test_gradients_reach_the_parameters_of_the_model(lesson):
    model, gm = parent_of(nn.Linear(4, 3))
    lesson.inline_module(gm, "child")(X).sum().backward()
    holds(
        all(parameter.grad is not None for parameter in model.parameters()),
        "a gradient at each parameter of the model",
        cause="the graph reads copies, or the values as they were",
        hint="a `get_attr` node reads the parameter itself",
    )


def test_every_call_of_the_target_is_replaced(lesson):
    torch.manual_seed(0)
    model = Twice()
    gm = lesson.inline_module(traced(model), "linear")
    equal(targets(gm.graph), ["relu"], cause=LEFT, hint=LEFT_HINT)
    same_as(gm, model, X)


def test_calls_of_other_modules_are_left_alone(lesson):
    layers = {"act": nn.ReLU(), "act2": nn.ReLU(), "activation": nn.Sequential(nn.ReLU())}
    model = nn.Sequential(OrderedDict(layers))
    gm = lesson.inline_module(symbolic_trace(model), "act")
    equal(
        targets(gm.graph),
        ["act2", "activation.0"],
        cause="a module of the same class, or whose name begins alike, was inlined too",
        hint="a call is one of the target's where `node.target == target`",
    )
    same_as(gm, model, X)


def test_a_call_by_keyword_is_replaced(lesson):
    class ByKeyword(nn.Module):
        def __init__(self):
            super().__init__()
            self.bilinear = nn.Bilinear(4, 4, 2)

        def forward(self, x):
            return self.bilinear(input2=x, input1=x + 1)

    model = ByKeyword()
    same_as(lesson.inline_module(traced(model), "bilinear"), model, X)


def test_arguments_that_are_values_stay_values(lesson):
    model = UsesOptional()
    gm = lesson.inline_module(traced(model), "optional")
    holds(
        [node.name for node in gm.graph.nodes if node.op == "placeholder"] == ["x"],
        "no new placeholder",
        cause="defaults became placeholders, or were turned into proxies",
        hint="make proxies of the nodes among the arguments, and leave other values alone",
    )
    same_as(gm, model, X)


@pytest.mark.parametrize("model", [UsesAPair, UsesNames, UsesAPoint, PassesAPairOn])
def test_a_result_of_several_values_is_replaced(lesson, model):
    built = model()
    gm = traced(built)
    (target,) = set(targets(gm.graph))
    same_as(lesson.inline_module(gm, target), built, X)


class Picks(nn.Module):
    """Picks something from what its child returns."""

    def __init__(self, child: nn.Module, index: object):
        super().__init__()
        self.child, self.index = child, index

    def forward(self, x):
        return self.child(x)[self.index]


class ReturnsWhatIsGiven(nn.Module):
    def __init__(self, result: object):
        super().__init__()
        self.result = result

    def forward(self, x):
        results = {tuple: (x, x + 1), dict: {"plus": x + 1}, range: range(3)}
        return results[self.result]


@pytest.mark.parametrize(
    ("result", "index"), [(tuple, 1), (tuple, -2), (dict, "plus")], ids=["1", "-2", "plus"]
)
def test_picking_from_a_result_that_is_known_leaves_no_node(lesson, result, index):
    model = Picks(ReturnsWhatIsGiven(result), index)
    gm = lesson.inline_module(traced(model), "child")
    same_as(gm, model, X)
    equal(
        [node.name for node in gm.graph.nodes if "getitem" in node.name],
        [],
        cause="the users still pick from the tuple, though its elements are known",
        hint="where a user is `getitem` with a known index, let its users have the element",
    )


@pytest.mark.parametrize(
    ("result", "index"),
    [(tuple, 2), (tuple, -3), (tuple, slice(1, None)), (dict, "minus"), (range, 3)],
    ids=["2", "-3", "slice", "minus", "range"],
)
def test_picking_what_the_result_does_not_have_is_left_to_the_run(lesson, result, index):
    """A graph fails where the model fails: when it is run, and not before."""
    model = Picks(ReturnsWhatIsGiven(result), index)
    cause = "an index was looked up that isn't there"
    hint = "leave the node as it is, and let it pick from the structure"
    with noting(cause=cause, hint=hint, on=(LookupError, TypeError)):
        gm = lesson.inline_module(traced(model), "child")
    equal(outcome(gm), outcome(model), cause=cause)


def outcome(model: nn.Module) -> object:
    try:
        return [each.tolist() for each in model(X)]
    except LookupError as error:
        return type(error)


class PassesAPairByKeyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = ReturnsWhatIsGiven(tuple)

    def forward(self, x):
        return torch.cat(tensors=self.pair(x), dim=0)


def test_a_result_of_several_values_goes_into_keyword_arguments_too(lesson):
    model = PassesAPairByKeyword()
    gm = lesson.inline_module(traced(model), "pair")
    equal(targets(gm.graph), [], cause="the call is still an argument of another node")
    same_as(gm, model, X)


def test_a_result_that_is_nothing_or_unused_is_replaced(lesson):
    model = IgnoresAResult()
    gm = lesson.inline_module(traced(model), "nothing")
    equal(targets(gm.graph), [], cause=LEFT, hint="a result may be a plain value: even None")
    same_as(gm, model, X)


def test_a_result_that_is_an_earlier_call_is_replaced(lesson):
    model = Chain()
    same_as(lesson.inline_module(traced(model), "passes"), model, X)
    same_as(lesson.inline_all(traced(model)), model, X)


def test_leaves_inside_the_callee_stay_calls_under_their_full_path(lesson):
    torch.manual_seed(0)
    model = Parent(nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2))))
    gm = lesson.inline_module(traced(model), "child")
    equal(
        targets(gm.graph),
        ["child.0", "child.1.0", "child.1.1"],
        cause="the callee was inlined deeper than one level, or paths begin at the callee",
        hint="leaves are those of every tracer; paths begin at the root",
    )
    same_as(gm, model, X)


def test_all_kinds_of_state_keep_their_places(lesson):
    torch.manual_seed(0)
    model = Parent(Stateful())
    gm = traced(model)
    lesson.inline_module(gm, "child")
    found = set(targets(gm.graph, "get_attr"))
    holds({"child.weight", "child.offset", "child.plain"} <= found, "full paths", got=found)
    same_as(gm, model, X)


def test_a_target_that_does_not_exist_is_refused_with_near_names(lesson):
    _, gm = parent_of(nn.ReLU())
    with refuses(
        NameError,
        "chidl",
        "child",
        cause="the error doesn't help somebody who mistyped",
        hint="`difflib.get_close_matches` finds near names",
    ):
        lesson.inline_module(gm, "chidl")


@pytest.mark.stretch
def test_a_second_name_of_a_shared_module_is_near_too(lesson):
    _, gm = parent_of(nn.ReLU())
    gm.add_submodule("again", gm.child)
    with refuses(NameError, "agian", "again", cause="only the first name of each module is known"):
        lesson.inline_module(gm, "agian")


@pytest.mark.stretch
def test_a_path_is_near_whose_last_name_was_given(lesson):
    with refuses(
        NameError,
        "block.1.1.linear",
        cause="who gives the last name of a path isn't told the path",
        hint="`difflib.get_close_matches` has a `cutoff`",
    ):
        lesson.inline_module(traced(Deep()), "linear")


def test_a_target_that_is_no_module_is_refused(lesson):
    _, gm = parent_of(nn.Linear(4, 4))
    with refuses(NameError, "child.weight", cause="a parameter is no submodule"):
        lesson.inline_module(gm, "child.weight")


def test_a_target_that_is_never_called_changes_nothing(lesson):
    gm = symbolic_trace(zoo.SMALL["UnusedResults"]().model)
    gm.add_submodule("spare", nn.ReLU())
    before = rows(gm.graph)
    lesson.inline_module(gm, "spare")
    equal(rows(gm.graph), before, cause="something else than calls of the target was replaced")
    holds(hasattr(gm, "spare"), "the submodule to be there still", cause="it was deleted")


def test_a_callee_that_branches_on_a_value_is_refused(lesson):
    _, gm = parent_of(Branching())
    with refuses(
        TraceError,
        "child",
        "Branching",
        "control flow",
        cause="the error doesn't say which module was to be inlined, at which node, or why not",
        hint="catch what the callee raises, and say at which node it was",
    ):
        lesson.inline_module(gm, "child")


def test_after_a_refusal_the_graph_is_as_before(lesson):
    model = nn.Sequential(nn.ReLU(), Branching())
    gm = traced(model)
    before = rows(gm.graph)
    with refuses(TraceError, "Branching"):
        lesson.inline_all(gm)
    equal(
        [row.name for row in rows(gm.graph)],
        [row.name for row in before],
        cause="what was recorded before the failure is still in the graph",
        hint="record all results first, erase the new nodes on failure, replace calls last",
    )
    same_as(gm, model, X)


class IsInterrupted(nn.Module):
    def forward(self, x):
        torch.exp(x)
        raise KeyboardInterrupt


@pytest.mark.stretch
def test_after_an_interrupt_the_graph_is_as_before(lesson):
    gm = traced(nn.Sequential(nn.ReLU(), IsInterrupted()))
    before = [row.name for row in rows(gm.graph)]
    with refuses(KeyboardInterrupt):
        lesson.inline_all(gm)
    equal(
        [row.name for row in rows(gm.graph)],
        before,
        cause="an interrupt is no `Exception`: what was recorded before it is in the graph",
        hint="`except BaseException`, or a `finally`",
    )


def test_after_a_refusal_nothing_is_patched(lesson):
    _, gm = parent_of(Branching())
    with refuses(TraceError, "Branching"):
        lesson.inline_module(gm, "child")
    same_numbers(nn.ReLU()(X), F.relu(X), cause="`nn.Module` is still patched")


# --- batch norm -----------------------------------------------------------------------------------


def batch_norm(training: bool, **options: object) -> tuple[nn.Module, GraphModule]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4, **options)).train(training)
    model[0].weight.data.uniform_() if model[0].affine else None
    return model, symbolic_trace(model)


BATCH = torch.linspace(-2, 3, 24).reshape(6, 4)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"affine": False}, {"track_running_stats": False}], ids=str
)
def test_batch_norm_computes_the_same(lesson, training, options):
    model, gm = batch_norm(training, **options)
    expected = copy.deepcopy(model)(BATCH)
    lesson.inline_module(gm, "0")
    same_numbers(gm(BATCH), expected, cause=NUMBERS, hint=NUMBERS_HINT)


def test_batch_norm_in_training_goes_on_counting_batches(lesson):
    model, gm = batch_norm(training=True)
    lesson.inline_module(gm, "0")
    equal(
        int(model[0].num_batches_tracked),
        0,
        cause="the counter was raised while inlining: the buffer was the tensor itself",
        hint="buffers have to be proxies too: `proxy_buffer_attributes`",
    )
    gm(BATCH)
    gm(BATCH)
    equal(
        int(model[0].num_batches_tracked),
        2,
        cause="the counting was not recorded, or was dropped as unused",
        hint="`add_` changes the buffer, though nobody uses its result",
    )


class NormalizesInVain(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        self.norm(x)
        return x


def test_a_call_whose_result_nobody_uses_keeps_its_effect(lesson):
    model = NormalizesInVain().train()
    gm = lesson.inline_module(traced(model), "norm")
    Interpreter(gm).run(BATCH)
    equal(
        int(model.norm.num_batches_tracked),
        1,
        cause="a call without users was dropped, or what it does to its buffers",
        hint="a node without users may change a buffer",
    )


def test_batch_norm_updates_the_running_statistics_of_the_model(lesson):
    model, gm = batch_norm(training=True)
    expected = copy.deepcopy(model)
    lesson.inline_module(gm, "0")(BATCH)
    expected(BATCH)
    same_numbers(
        dict(model.named_buffers()),
        dict(expected.named_buffers()),
        cause="the graph updates copies of the buffers, or none",
        hint="read buffers by `get_attr`",
    )


def test_batch_norm_still_checks_its_input_afterwards(lesson):
    model, gm = batch_norm(training=False)
    lesson.inline_module(gm, "0")
    with refuses(
        ValueError,
        "2D or 3D",
        cause="the check is still switched off",
        hint="switch it off in a context manager, and on again in its `finally`",
    ):
        model[0](torch.rand(2, 4, 1, 1))


@pytest.mark.stretch
def test_a_check_of_the_users_own_is_there_again_afterwards(lesson):
    model, gm = batch_norm(training=False)
    check = model[0]._check_input_dim = lambda x: None
    lesson.inline_module(gm, "0")
    holds(
        vars(model[0]).get("_check_input_dim") is check,
        "the layer's own check",
        cause="it was replaced for a while, and deleted afterwards",
        hint="put back what was there",
    )


def test_batch_norm_that_needs_the_number_itself_is_refused(lesson):
    model, gm = batch_norm(training=True, momentum=None)
    with refuses(TraceError, "BatchNorm1d", cause="the error doesn't name the module"):
        lesson.inline_module(gm, "0")
    equal(int(model[0].num_batches_tracked), 0, cause="the failed attempt counted a batch")


# --- inline_all -----------------------------------------------------------------------------------


def test_resnet18_becomes_functions_and_parameters(lesson):
    specimen = zoo.resnet18()
    gm = lesson.inline_all(symbolic_trace(specimen.model))
    equal(targets(gm.graph), [], cause="some calls of modules are left")
    same_as(gm, specimen.model, *specimen.inputs)


def test_resnet18_in_training_becomes_functions_and_parameters(lesson):
    specimen = zoo.resnet18()
    expected = copy.deepcopy(specimen.model).train()
    gm = lesson.inline_all(symbolic_trace(specimen.model.train()))
    images = torch.rand(2, 3, 32, 32)
    same_numbers(gm(images), expected(images), cause=NUMBERS, hint=NUMBERS_HINT)
    same_numbers(dict(gm.state_dict()), dict(expected.state_dict()), cause="other statistics")


def test_resnet18_keeps_its_state_dict(lesson):
    model = zoo.skeleton("resnet18")
    equal(
        list(lesson.inline_all(symbolic_trace(model)).state_dict()),
        list(model.state_dict()),
        cause="parameters were renamed, reordered or dropped with their modules",
        hint="read parameters where they are; drop only modules that hold no state",
    )


def test_resnet18_gets_a_gradient_at_every_parameter(lesson):
    specimen = zoo.resnet18()
    gm = lesson.inline_all(symbolic_trace(specimen.model))
    gm(*specimen.inputs).sum().backward()
    without = [name for name, each in specimen.model.named_parameters() if each.grad is None]
    equal(without, [], cause="the graph reads copies, or the values as they were")


def test_resnet18_loses_the_submodules_that_nothing_uses(lesson):
    gm = lesson.inline_all(symbolic_trace(zoo.skeleton("resnet18")))
    dead = [
        name for name, module in gm.named_modules() if isinstance(module, nn.ReLU | nn.MaxPool2d)
    ]
    equal(
        dead,
        [],
        cause="submodules that nothing calls are still there",
        hint="delete those without state that no node refers to",
    )


def test_the_model_that_was_traced_is_not_changed(lesson):
    model = Deep()
    lesson.inline_all(traced(model))
    equal(
        [name for name, _ in model.named_modules()],
        [name for name, _ in Deep().named_modules()],
        cause="a submodule was deleted from a module that the model and `gm` share",
        hint="`gm` has the model's own modules: delete from `gm` and its containers alone",
    )


def test_everything_is_inlined_all_the_way_down(lesson):
    torch.manual_seed(0)
    model = Deep()
    gm = lesson.inline_all(traced(model))
    equal(
        targets(gm.graph),
        [],
        cause="only the outermost calls were replaced",
        hint="while everything is inlined, no module is a leaf",
    )
    same_as(gm, model, X)


def test_other_nodes_are_the_nodes_that_they_were(lesson):
    model = nn.Sequential(Parent(nn.ReLU()))
    gm = symbolic_trace(model)
    add = node_of(gm, "add")
    lesson.inline_all(gm)
    holds(
        node_of(gm, "add") is add,
        "the same nodes, but for the calls",
        cause="the model was traced anew: what was done to its graph is lost",
        hint="record in the graph that exists",
    )
    same_as(gm, model, X)


def test_parameters_that_nothing_uses_stay_in_the_state_dict(lesson):
    gm = traced(Deep())
    keys = list(gm.state_dict())
    equal(
        list(lesson.inline_all(gm).state_dict()),
        keys,
        cause="a submodule was dropped, though it holds parameters",
        hint="drop what holds no state",
    )


class HoldsAPlainTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = torch.rand(4)

    def forward(self, x):
        return x + self.plain


def test_a_module_stays_whose_tensor_is_read_though_it_holds_no_state(lesson):
    model = Parent(HoldsAPlainTensor())
    gm = lesson.inline_module(traced(model), "child")
    equal(targets(gm.graph, "get_attr"), ["child.plain"], cause="the tensor was copied")
    holds(
        hasattr(gm, "child"),
        "the module that has the tensor",
        cause="it was dropped, for the state dict doesn't mention it",
        hint="what a `get_attr` node refers to is needed too",
    )
    same_as(gm, model, X)


@pytest.mark.parametrize("name", that_run(zoo.SMALL))
def test_a_small_model_lowered_computes_the_same(lesson, name):
    specimen = zoo.SMALL[name]()
    gm = lesson.inline_all(symbolic_trace(zoo.SMALL[name]().model))
    gm.graph.lint()
    equal(targets(gm.graph), [], cause="some calls of modules are left")
    same_numbers(
        gm(*specimen.inputs, **specimen.kwargs), specimen.eager(), cause=NUMBERS, hint=NUMBERS_HINT
    )


@pytest.mark.stretch
@pytest.mark.parametrize("seed", random_models.SEEDS)
def test_a_random_tree_lowered_computes_the_same(lesson, seed):
    specimen = random_models.tree(seed)
    gm = symbolic_trace(random_models.tree(seed).model)
    keys, some = list(gm.state_dict()), targets(gm.graph)
    for target in some[:1]:
        lesson.inline_module(gm, target)
    lesson.inline_all(gm).graph.lint()
    equal(targets(gm.graph), [], cause="some calls of modules are left")
    equal(list(gm.state_dict()), keys, cause="parameters were renamed, reordered or dropped")
    same_as(gm, specimen.model, *specimen.inputs)


@pytest.mark.stretch
@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v3_small", "efficientnet_b0", "vgg11_bn"])
def test_a_classifier_lowered_has_no_calls_of_modules(lesson, name):
    gm = lesson.inline_all(symbolic_trace(zoo.skeleton(name)))
    gm.graph.lint()
    equal(targets(gm.graph), [], cause="some calls of modules are left")


# --- inline_function ------------------------------------------------------------------------------


def node_of(gm: GraphModule, name: str) -> Node:
    return next(node for node in gm.graph.nodes if node.name == name)


def function_traced(function: Callable) -> GraphModule:
    return symbolic_trace(function)


def test_a_function_is_replaced_by_another(lesson):
    gm = function_traced(lambda x: torch.square(torch.exp(x)) + 1)
    lesson.inline_function(gm, node_of(gm, "square"), lambda x: x * x)
    equal(
        [node.name for node in gm.graph.nodes],
        ["x", "exp", "mul", "add", "output"],
        cause="the nodes stand at another place, or the old one is left",
        hint="insert in front of the node: `graph.inserting_before(node)`",
    )
    same_numbers(gm(X), torch.exp(X) ** 2 + 1, cause=NUMBERS, hint=NUMBERS_HINT)


def test_the_function_gets_values_as_values_and_nodes_as_proxies(lesson):
    gm = function_traced(lambda x: torch.sum(x, dim=1, keepdim=True))
    seen = {}

    def mean(x, dim, keepdim):
        seen.update(dim=dim, keepdim=keepdim)
        return torch.mean(x, dim, keepdim) * x.size(dim)

    lesson.inline_function(gm, node_of(gm, "sum_1"), mean)
    equal(seen, {"dim": 1, "keepdim": True}, cause="plain values were turned into proxies")
    same_numbers(gm(X), X.sum(1, keepdim=True), cause=NUMBERS, hint=NUMBERS_HINT)


def test_arguments_inside_structures_become_proxies_too(lesson):
    gm = function_traced(lambda x, y: torch.cat([x, y], dim=0))
    lesson.inline_function(
        gm, node_of(gm, "cat"), lambda tensors, dim: torch.stack(tensors, dim).flatten(0, 1)
    )
    same_numbers(gm(X, X + 1), torch.cat([X, X + 1]), cause=NUMBERS, hint="`map_arg` looks inside")


def test_a_method_call_and_a_module_call_can_be_replaced(lesson):
    model, gm = parent_of(nn.ReLU())
    lesson.inline_function(gm, node_of(gm, "child"), lambda x: x.clamp(min=0))
    lesson.inline_function(gm, node_of(gm, "clamp"), lambda x, min: torch.maximum(x, x * min))
    same_as(gm, model, X)


@pytest.mark.stretch
def test_the_function_may_read_parameters_of_the_module(lesson):
    model, gm = parent_of(nn.Linear(4, 3))

    def product(x):
        return x @ gm.child.weight.t() + gm.child.bias

    lesson.inline_function(gm, node_of(gm, "child"), product)
    equal(targets(gm.graph, "get_attr"), ["child.weight", "child.bias"], cause="copies were made")
    same_as(gm, model, X)


@pytest.mark.stretch
def test_a_leaf_that_the_function_calls_is_one_call(lesson):
    _, gm = parent_of(nn.Linear(4, 4))
    gm.add_submodule("act", nn.ReLU())
    lesson.inline_function(gm, node_of(gm, "child"), lambda x: gm.act(x))
    equal(targets(gm.graph), ["act"], cause="the module was run, or looked through")


def test_a_node_that_is_no_call_is_refused(lesson):
    gm, runs = function_traced(lambda images: torch.exp(images)), []
    with refuses(ValueError, "images", cause="a placeholder has no arguments for a function"):
        lesson.inline_function(gm, node_of(gm, "images"), lambda: runs.append("run"))
    equal(runs, [], cause="the function was run, though there is nothing to replace")


def test_a_node_of_another_graph_is_refused(lesson):
    _, gm = parent_of(nn.ReLU())
    _, other = parent_of(nn.ReLU())
    with refuses(ValueError, "add", cause="the node isn't in the graph that is edited"):
        lesson.inline_function(gm, node_of(other, "add"), torch.add)


def test_a_function_that_branches_on_a_value_is_refused(lesson):
    model, gm = parent_of(nn.ReLU())
    with refuses(TraceError, "child", cause="the error doesn't name the node"):
        lesson.inline_function(gm, node_of(gm, "child"), lambda x: x if x.sum() > 0 else -x)
    same_as(gm, model, X)


def test_after_a_refusal_another_function_can_be_inlined(lesson):
    _, gm = parent_of(nn.ReLU())
    child = node_of(gm, "child")
    with refuses(TraceError, "child", cause="the error doesn't name the node"):
        lesson.inline_function(gm, child, lambda x: x if x.sum() > 0 else -x)
    _, expected = parent_of(nn.ReLU())
    for each in (gm, expected):
        lesson.inline_function(each, node_of(each, "child"), lambda x: x + x.sum())
    equal(
        [(node.op, node.target) for node in gm.graph.nodes],
        [(node.op, node.target) for node in expected.graph.nodes],
        cause="what the refused function had recorded is still there, or nothing can be added",
        hint="erase the new nodes, and put the graph's table of names back as well",
    )


# --- more than the seed ---------------------------------------------------------------------------


@pytest.mark.stretch
def test_inlined_nodes_know_the_modules_they_come_from(lesson):
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))
    gm = lesson.inline_all(symbolic_trace(model))
    equal(
        list(node_of(gm, "linear").meta["nn_module_stack"]),
        ["0", "0.0"],
        cause="new nodes have the stack of the callee alone, or none",
        hint="begin with the stack of the call, in `meta`, without the callee itself",
    )


@pytest.mark.stretch
def test_nodes_that_replace_a_function_are_where_it_was(lesson):
    _, gm = parent_of(nn.ReLU())
    lesson.inline_function(gm, node_of(gm, "child"), lambda x: x.clamp(min=0))
    equal(
        list(node_of(gm, "clamp").meta["nn_module_stack"]),
        ["child"],
        cause="the stack of the node was lost, or cut as if a module were called again",
        hint="only a module puts itself onto the stack",
    )


@pytest.mark.stretch
def test_a_graph_without_a_module_stack_is_inlined(lesson):
    model, gm = parent_of(nn.ReLU())
    for node in gm.graph.nodes:
        node.meta.clear()
    same_as(lesson.inline_module(gm, "child"), model, X)


@pytest.mark.stretch
def test_an_error_names_the_function_and_what_it_raised(lesson):
    def missing(x):
        return x * {}["factor"]

    _, gm = parent_of(nn.ReLU())
    with refuses(
        TraceError,
        "missing",
        "child",
        "KeyError",
        "factor",
        cause="the error doesn't say which function failed, at which node, or why",
        hint="a KeyError's text is the key alone: say the type as well",
    ):
        lesson.inline_function(gm, node_of(gm, "child"), missing)


@pytest.mark.stretch
def test_hooks_of_the_callee_are_inlined_with_it(lesson):
    model = Parent(nn.ReLU())
    model.child.register_forward_hook(lambda module, args, output: output * 2)
    gm = lesson.inline_module(traced(model), "child")
    same_as(gm, model, X)


@torch.fx.wrap
def rows_of(x):
    return len(x)


class CallsAWrapped(nn.Module):
    def forward(self, x):
        return x * rows_of(x)


@pytest.mark.stretch
def test_wrapped_functions_stay_calls(lesson):
    model, gm = parent_of(CallsAWrapped())
    lesson.inline_module(gm, "child")
    equal(
        [node.name for node in gm.graph.nodes if node.name == "rows_of"],
        ["rows_of"],
        cause="a wrapped function was run, and not recorded",
        hint="a tracer patches wrapped functions: let it do the recording",
    )
    same_as(gm, model, X)


@pytest.mark.stretch
def test_inlining_a_long_chain_takes_linear_time(lesson):
    def lower(size: int) -> Callable[[], object]:
        gm = symbolic_trace(nn.Sequential(*(nn.ReLU() for _ in range(size))))
        return lambda: lesson.inline_all(gm)

    holds(
        growth(lower, 20) < LINEAR,
        "twice the calls to take about twice the work",
        cause="something is looked for among all modules or nodes at each call",
        hint="open one trace for all calls, and look names up in one table",
    )
