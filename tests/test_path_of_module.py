"""``path_of_module``: your mixin, plugged in front of torch's own ``Tracer``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests import random_models, zoo
from tests.suite import (
    barred,
    equal,
    holds,
    lines_run,
    noting,
    own,
    refuses,
    same_graph,
)


def tracer_at(lesson, root: nn.Module) -> torch.fx.Tracer:
    """torch's ``Tracer`` with the lesson's method in front, standing at ``root``."""
    tracer = plugged(lesson)
    tracer.root = root
    return tracer


def plugged(lesson) -> torch.fx.Tracer:
    return type("Plugged", (own(lesson.PathOfModule, "path_of_module"), torch.fx.Tracer), {})()


def path_of(tracer: torch.fx.Tracer, mod: nn.Module) -> str | NameError:
    """The path, or the refusal that came instead: a comparison tells the cause of that too."""
    try:
        return tracer.path_of_module(mod)
    except NameError as error:
        if error.name is not None:  # Python's own, for a name that the code misspells
            raise
        return error


class AlwaysEqual(nn.Module):
    """A module that claims to be every other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def forward(self, x):
        return x + 1


class Unhashable(nn.Module):
    """A module that defines ``__eq__`` and thereby loses its hash."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def forward(self, x):
        return x + 1


def test_the_root_is_the_empty_string(lesson):
    root = nn.Sequential(nn.ReLU())
    equal(
        path_of(tracer_at(lesson, root), root),
        "",
        cause="the root isn't among the modules that were looked through",
        hint="the root is the first of its own modules, and its path is empty",
    )


def test_a_child_is_called_by_its_name(lesson):
    root = nn.Module()
    root.encoder = nn.Linear(2, 2)
    equal(
        path_of(tracer_at(lesson, root), root.encoder),
        "encoder",
        cause="a name of the root itself, or a leading dot, was put in front; or the children "
        "weren't searched",
        hint="the path of a direct child is the name it was registered under",
    )


@pytest.mark.parametrize("path", ["0", "1.0", "1.1.0", "1.1.1"])
def test_a_descendant_is_called_by_its_dotted_path(lesson, path):
    root = nn.Sequential(
        nn.ReLU(), nn.Sequential(nn.ReLU(), nn.Sequential(nn.ReLU(), nn.Linear(1, 1)))
    )
    equal(
        path_of(tracer_at(lesson, root), root.get_submodule(path)),
        path,
        cause="only the direct children were searched, or the names weren't joined with dots",
        hint="go down to every level; join the names on the way with `.`",
    )


def test_the_search_is_your_own(lesson):
    root = nn.Sequential(nn.Sequential(nn.ReLU()))
    tracer = tracer_at(lesson, root)
    with barred(torch.fx.Tracer, "path_of_module"):
        equal(path_of(tracer, root[0][0]), "0.0", cause="the search doesn't end at the module")


def test_the_first_of_two_names_is_the_path(lesson):
    root = nn.Module()
    root.first = root.second = nn.Linear(2, 2)
    equal(
        path_of(tracer_at(lesson, root), root.second),
        "first",
        cause="the last name overwrote the first registered name in your index",
        hint="keep a name that is there already; torch keeps the first registered name",
    )


def test_a_shared_module_is_called_by_the_name_met_first_on_the_way_down(lesson):
    root, shared = nn.Module(), nn.Linear(2, 2)
    root.deep = nn.Sequential(nn.Sequential(shared))
    root.shallow = shared
    equal(
        path_of(tracer_at(lesson, root), shared),
        "deep.0.0",
        cause="the tree was searched level by level; torch goes down each branch first",
        hint="finish a child and all that is below it before its next sibling (depth first)",
    )


def test_two_modules_of_one_class_are_told_apart(lesson):
    root = nn.Sequential(nn.ReLU(), nn.ReLU(), nn.ReLU())
    tracer = tracer_at(lesson, root)
    equal(
        [path_of(tracer, module) for module in root],
        ["0", "1", "2"],
        cause="modules were compared by class or by text instead of by identity",
        hint="a module is itself and nothing else: compare with `is`, or index by `id`",
    )


WALK = (
    "the walk never gets there: `named_modules`, `named_children` and `children` keep a set of "
    "the modules they have met, and a set asks `__eq__` and `__hash__`"
)
WALK_HINT = "walk down `module._modules` yourself; remember the `id` of each module you have met"


@pytest.mark.beyond("`named_modules` keeps the modules it has met in a set")
def test_a_module_that_claims_to_equal_every_other_is_no_trap(lesson):
    root = nn.Sequential(AlwaysEqual(), nn.ReLU(), AlwaysEqual())
    tracer = tracer_at(lesson, root)
    with noting(cause=WALK, hint=WALK_HINT, on=(NameError,)):
        paths = [tracer.path_of_module(module) for module in root]
    equal(
        paths,
        ["0", "1", "2"],
        cause="modules were compared with `==` (a dict does so too) instead of by identity",
        hint="compare with `is`, or index by `id(module)`",
    )


@pytest.mark.beyond("`named_modules` keeps the modules it has met in a set")
def test_a_module_without_a_hash_has_a_path(lesson):
    root = nn.Sequential(Unhashable(), Unhashable())
    tracer = tracer_at(lesson, root)
    with (
        noting(cause=WALK, hint=WALK_HINT, on=(NameError,)),
        noting(cause=HASH, hint=HASH_HINT, on=(TypeError,)),
    ):
        path = tracer.path_of_module(root[1])
    equal(
        path,
        "1",
        cause="modules were compared with `==`: these two are equal, and still two",
        hint="index by `id(module)`",
    )


HASH = (
    "a class with its own `__eq__` has no hash, and modules went into a set or became keys of a "
    "dict: one of yours, or the one inside `named_modules`, `named_children` and `children`"
)
HASH_HINT = "index by `id(module)`, and walk down `module._modules` yourself"


def test_a_foreign_module_is_refused(lesson):
    tracer = tracer_at(lesson, nn.Sequential(nn.ReLU()))
    with refuses(
        NameError,
        cause="a module of the same class or text was taken for it, or None was returned",
        hint="raise NameError where the module itself isn't below the root",
    ):
        tracer.path_of_module(nn.ReLU())


def test_a_foreign_module_is_refused_by_a_tree_with_a_cycle(lesson):
    root = nn.Module()
    root.child = nn.Module()
    root.child.parent = root
    tracer = tracer_at(lesson, root)
    with refuses(NameError, cause="a search that found nothing ended without a word"):
        tracer.path_of_module(nn.ReLU())


@pytest.mark.beyond("torch says only that the module is not installed as a submodule")
def test_the_error_names_the_class_of_the_module_and_of_the_root(lesson):
    tracer = tracer_at(lesson, nn.Sequential(nn.ReLU()))
    with refuses(
        NameError,
        "Bilinear",
        "Sequential",
        cause="the message doesn't say which module was looked for, and where",
        hint="name `type(mod).__name__` and `type(self.root).__name__`",
    ):
        tracer.path_of_module(nn.Bilinear(1, 1, 1))


def test_the_path_follows_the_root(lesson):
    inner = nn.Sequential(nn.ReLU())
    tracer = tracer_at(lesson, nn.Sequential(nn.Identity(), inner))
    before = path_of(tracer, inner[0])
    tracer.root = inner
    equal(
        [before, path_of(tracer, inner[0])],
        ["1.0", "0"],
        cause="an index that was built for one root answered for another",
        hint="remember for which root the index was built; build it anew for another one",
    )


def test_a_module_registered_later_is_found(lesson):
    root = nn.Sequential(nn.ReLU())
    tracer = tracer_at(lesson, root)
    path_of(tracer, root[0])
    root.append(nn.Sequential(nn.Tanh()))
    equal(
        path_of(tracer, root[1][0]),
        "1.0",
        cause="the index knows only what was registered when it was built",
        hint="where a module isn't in the index, look once more before you refuse",
    )


def test_a_module_that_was_removed_is_refused(lesson):
    root = nn.Sequential(nn.ReLU(), nn.Tanh())
    tracer, removed = tracer_at(lesson, root), root[1]
    path_of(tracer, removed)
    del root[1]
    with refuses(
        NameError,
        cause="the index still holds a path that leads nowhere by now",
        hint="check that the path in the index still leads to this module",
    ):
        tracer.path_of_module(removed)


def test_a_module_that_moved_is_found_at_its_new_place(lesson):
    root = nn.Sequential(nn.ReLU(), nn.Tanh())
    tracer, moved = tracer_at(lesson, root), root[0]
    path_of(tracer, moved)
    root[0], root[1] = root[1], moved
    equal(
        path_of(tracer, moved),
        "1",
        cause="the index answered with a path that leads to another module by now",
        hint="check that the path in the index still leads to this module",
    )


def test_a_module_whose_owner_was_removed_is_refused(lesson):
    root = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh())
    tracer, inner = tracer_at(lesson, root), root[0][0]
    path_of(tracer, inner)
    del root[0]
    with refuses(NameError, cause=OWNER, hint=OWNER_HINT):
        tracer.path_of_module(inner)


def test_a_module_whose_owner_moved_is_found_at_its_new_place(lesson):
    root = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh())
    tracer, inner = tracer_at(lesson, root), root[0][0]
    path_of(tracer, inner)
    root[0], root[1] = root[1], root[0]
    equal(path_of(tracer, inner), "1.0", cause=OWNER, hint=OWNER_HINT)


OWNER = "the module is still where it was in its owner, and the owner isn't: only one was checked"
OWNER_HINT = "check the path from the root on, or climb up from owner to owner as far as the root"


def test_the_model_is_left_as_it_was(lesson):
    root = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh()))
    before = [set(vars(module)) for module in root.modules()]
    path_of(tracer_at(lesson, root), root[1][0])
    equal(
        [sorted(set(vars(m)) - names) for m, names in zip(root.modules(), before, strict=True)],
        [[], [], [], []],
        cause="notes were left on the modules: they go with the model wherever it goes",
        hint="the tracer remembers, in a dict of its own: `id(module) -> path`",
    )


@pytest.mark.parametrize("seed", range(8))
def test_every_module_of_a_random_tree_has_the_path_of_torch(lesson, seed):
    root = random_models.tree(seed).model
    tracer = tracer_at(lesson, root)
    equal(
        {path: path_of(tracer, module) for path, module in root.named_modules()},
        {path: path for path, module in root.named_modules()},
        cause="a module has another path than `named_modules` gives it",
        hint="compare your paths with `named_modules()` of this model",
    )


def test_a_name_without_a_module_is_passed_over(lesson):
    root = nn.Module()
    root.register_module("nothing", None)
    root.something = nn.ReLU()
    equal(
        path_of(tracer_at(lesson, root), root.something),
        "something",
        cause="a child that is None was searched",
        hint="`register_module(name, None)` is allowed: skip it",
    )


def test_a_module_tree_with_a_cycle_ends(lesson):
    root = nn.Module()
    root.child = nn.Module()
    root.child.parent = root
    tracer = tracer_at(lesson, root)
    equal(
        [path_of(tracer, root), path_of(tracer, root.child)],
        ["", "child"],
        cause="the search walks round the cycle",
        hint="go into each module once",
    )


def test_a_subclass_may_ask_for_the_path_and_change_it(lesson):
    class Shouting(own(lesson.PathOfModule, "path_of_module"), torch.fx.Tracer):
        def path_of_module(self, mod: nn.Module) -> str:
            return super().path_of_module(mod).upper()

    tracer, root = Shouting(), nn.Module()
    tracer.root, root.encoder = root, nn.ReLU()
    equal(
        path_of(tracer, root.encoder),
        "ENCODER",
        cause="the method doesn't return the path, or calls itself by its own name",
        hint="return the path; keep the work in `path_of_module` itself",
    )


@pytest.mark.parametrize("name", ["LeafCalls", "SharedModules", "DeepNesting", "SmallResNet"])
def test_a_trace_with_it_is_the_trace_of_torch(lesson, name):
    actual = plugged(lesson).trace(zoo.SMALL[name]().model)
    same_graph(
        actual,
        torch.fx.Tracer().trace(zoo.SMALL[name]().model),
        meta=("nn_module_stack",),
        cause="a module has another path than torch gives it",
        hint="compare the targets of the `call_module` nodes",
    )


class GrowsInForward(nn.Module):
    """Registers a child while it runs."""

    def forward(self, x):
        self.late = nn.ReLU()
        return self.late(x)


def targets(graph: torch.fx.Graph) -> list[str]:
    return [node.target for node in graph.nodes if node.op == "call_module"]


@pytest.mark.beyond("torch looks a module up in a table made before the trace")
def test_a_module_registered_during_the_trace_is_found(lesson):
    equal(
        targets(plugged(lesson).trace(GrowsInForward())),
        ["late"],
        cause="the index knows only what was registered when it was built",
        hint="where a module isn't in the index, look once more before you refuse",
    )


def cost_of_a_lookup(lesson, size: int) -> int:
    root = nn.Sequential(*(nn.ReLU() for _ in range(size)))
    tracer = tracer_at(lesson, root)
    path_of(tracer, root[0])
    return lines_run(lambda: tracer.path_of_module(root[size - 1]))


@pytest.mark.beyond("outside a trace torch scans all modules for each lookup")
def test_a_lookup_costs_the_same_in_a_large_model(lesson):
    small, large = cost_of_a_lookup(lesson, 10), cost_of_a_lookup(lesson, 1000)
    holds(
        large <= 2 * small,
        "about as many steps among 1000 modules as among 10",
        got=f"{small} and {large} lines of Python",
        cause="every call searches all modules (a linear scan a lookup)",
        hint="walk the tree once a root, remember `id(module) -> path`, then look it up",
    )
