"""``path_of_module``: your mixin as the first base of torch's own ``Tracer``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests import random_models, zoo
from tests.models.path_of_module import Equal, is_refused, path_of, plugged, tracer_at
from tests.suite import barred, equal, holds, is_value, noting, own, same_graph

# --- step 1: one name -----------------------------------------------------------------------------


def test_the_root_is_the_empty_string(lesson):
    root = nn.Sequential(nn.ReLU())
    equal(path_of(tracer_at(lesson, root), root), "")


@pytest.mark.parametrize("path", ["0", "1.0", "1.1.0", "1.1.1"])
def test_a_descendant_is_called_by_its_dotted_path(lesson, path):
    inner = nn.Sequential(nn.Tanh(), nn.Sequential(nn.Sigmoid(), nn.Linear(1, 1)))
    root = nn.Sequential(nn.ReLU(), inner)
    *owners, name = path.split(".")
    equal(
        path_of(tracer_at(lesson, root), root.get_submodule(path)),
        path,
        cause=[
            (is_refused, f"the search doesn't reach level {len(owners) + 1} of the tree"),
            (is_value(f".{path}"), "a leading dot: the root's empty path was joined with the name"),
            (is_value(name), "the last name alone: those on the way are missing"),
        ],
    )


@pytest.mark.parametrize("kind", [nn.ReLU, Equal])
def test_two_modules_of_one_class_are_told_apart(lesson, kind):
    root = nn.Sequential(kind(), nn.ReLU(), kind())
    tracer = tracer_at(lesson, root)
    got = [path_of(tracer, module) for module in root]
    same = "two modules were taken for one: they were compared by class, by text or with `==`"
    hint = "compare with `is`, or index by `id(module)`: a class may have its own `__eq__`"
    equal(got, ["0", "1", "2"], cause=(got[0] == got[2], same), hint=hint)


def test_a_foreign_module_is_refused(lesson):
    got = path_of(tracer_at(lesson, nn.Sequential(nn.ReLU())), nn.ReLU())
    cause = (is_value("0"), "a module of the same class or text was taken for it")
    holds(is_refused(got), "NameError", got=got, cause=cause)


def test_the_path_follows_the_root(lesson):
    outer, inner = Equal(), Equal()
    outer.inner, inner.act = inner, nn.ReLU()
    tracer = tracer_at(lesson, outer)
    before = path_of(tracer, inner.act)
    tracer.root = inner
    stale = (is_value(["inner.act"] * 2), "a path below the first root was the answer for another")
    equal([before, path_of(tracer, inner.act)], ["inner.act", "act"], cause=stale)
    holds(is_refused(path_of(tracer, outer)), "NameError for a module above the second root")


def test_the_model_is_left_as_it_was(lesson):
    root = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh()))
    before = {name for module in root.modules() for name in vars(module)}
    path_of(tracer_at(lesson, root), root[1][0])
    after = {name for module in root.modules() for name in vars(module)}
    notes = "notes were left on the modules: they go with the model wherever it goes"
    equal(after ^ before, set(), cause=(bool, notes))


def test_the_search_is_your_own(lesson):
    root = nn.Sequential(nn.Sequential(nn.ReLU()))
    tracer = tracer_at(lesson, root)
    with barred(torch.fx.Tracer, "path_of_module"):
        equal(path_of(tracer, root[0][0]), "0.0")


def test_a_subclass_may_ask_for_the_path_and_change_it(lesson):
    class Shouting(own(lesson.PathOfModule, "path_of_module"), torch.fx.Tracer):
        def path_of_module(self, mod: nn.Module) -> str:
            return super().path_of_module(mod) + "!"

    tracer = Shouting()
    tracer.root = nn.Sequential(nn.Sequential(nn.ReLU()))
    hint = "keep the work in `path_of_module` itself, and let it not call itself"
    equal(path_of(tracer, tracer.root[0][0]), "0.0!", hint=hint)


# --- step 2: several names, names without a module, cycles ----------------------------------------


def test_a_shared_module_is_called_by_the_name_met_first_on_the_way_down(lesson):
    root, shared = nn.Module(), nn.Linear(2, 2)
    root.deep = nn.Sequential(nn.Sequential(shared))
    root.shallow = shared
    root.last = nn.Sequential(shared)
    cause = [
        (is_value("shallow"), "a child was asked before all that is below an earlier one"),
        (is_value("last.0"), "the last of three names was taken, and not the first"),
    ]
    equal(path_of(tracer_at(lesson, root), shared), "deep.0.0", cause=cause)


def test_a_name_without_a_module_is_skipped(lesson):
    root = nn.Module()
    root.register_module("nothing", None)
    root.something = nn.Sequential()  # empty, so that it is as false as `None`
    nothing = (lambda error: "NoneType" in str(error), "the search went into `None`")
    hint = "`register_module(name, None)` is allowed: skip what `is None`, and nothing else"
    with noting(cause=nothing, hint=hint, on=(AttributeError,)):
        equal(path_of(tracer_at(lesson, root), root.something), "something", hint=hint)


def test_a_module_tree_with_a_cycle_ends(lesson):
    root = nn.Module()
    root.child = nn.Module()
    root.child.parent = root
    tracer = tracer_at(lesson, root)
    equal([path_of(tracer, module) for module in (root, root.child)], ["", "child"])
    holds(is_refused(path_of(tracer, nn.ReLU())), "NameError", hint="go into each module once")


# --- the whole: inside the real engine ------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_every_module_of_a_random_tree_has_the_path_of_torch(lesson, seed):
    root = random_models.tree(seed).model
    tracer = tracer_at(lesson, root)
    for path, module in root.named_modules():
        equal(path_of(tracer, module), path)


@pytest.mark.parametrize("name", ["LeafCalls", "SharedModules", "DeepNesting", "SmallResNet"])
def test_a_trace_with_it_is_the_trace_of_torch(lesson, name):
    ours, theirs = (zoo.SMALL[name]().model for _ in range(2))
    expected = torch.fx.Tracer().trace(theirs)
    same_graph(plugged(lesson).trace(ours), expected, meta=("nn_module_stack",))
