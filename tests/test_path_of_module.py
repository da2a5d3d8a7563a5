"""``path_of_module``: your mixin as the first base of torch's own ``Tracer``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests import random_models, zoo
from tests.models.path_of_module import Equal, is_refused, path_of, plugged, tracer_at
from tests.suite import barred, equal, holds, is_value, own, same_graph

# --- step 1: one name -----------------------------------------------------------------------------


def test_the_root_is_the_empty_string(lesson):
    root = nn.Sequential(nn.ReLU())
    equal(
        path_of(tracer_at(lesson, root), root),
        "",
        cause=(is_refused, "the root isn't among the modules that were looked through"),
        hint="the root is the first of its own modules, and its path is empty",
    )


@pytest.mark.parametrize("path", ["0", "1.0", "1.1.0", "1.1.1"])
def test_a_descendant_is_called_by_its_dotted_path(lesson, path):
    root = nn.Sequential(
        nn.ReLU(), nn.Sequential(nn.Tanh(), nn.Sequential(nn.Sigmoid(), nn.Linear(1, 1)))
    )
    *owners, name = path.split(".")
    equal(
        path_of(tracer_at(lesson, root), root.get_submodule(path)),
        path,
        cause=[
            (is_refused, f"the search doesn't reach level {len(owners) + 1} of the tree"),
            (is_value(f".{path}"), "a leading dot: the root's empty path was joined with the name"),
            (is_value(name), "the last name alone: those on the way are missing"),
        ],
        hint="go down to every level; join the names on the way with `.`",
    )


@pytest.mark.parametrize("kind", [nn.ReLU, Equal])
def test_two_modules_of_one_class_are_told_apart(lesson, kind):
    root = nn.Sequential(kind(), nn.ReLU(), kind())
    tracer = tracer_at(lesson, root)
    equal(
        [path_of(tracer, module) for module in root],
        ["0", "1", "2"],
        cause=(
            lambda got: got[0] == got[2],
            "two modules were taken for one: they were compared by class, by text or with `==`",
        ),
        hint="compare with `is`, or index by `id(module)`: a class may have its own `__eq__`",
    )


def test_a_foreign_module_is_refused(lesson):
    got = path_of(tracer_at(lesson, nn.Sequential(nn.ReLU())), nn.ReLU())
    holds(
        is_refused(got),
        "NameError",
        got=got,
        cause=[
            (is_value(None), "the search ended without finding it, and returned None"),
            (is_value("0"), "a module of the same class or text was taken for it"),
        ],
        hint="raise NameError where the module itself isn't below the root",
    )


# --- step 2: several names, names without a module, cycles ----------------------------------------


def test_the_first_of_two_names_is_the_path(lesson):
    root = nn.Module()
    root.first = root.second = nn.Linear(2, 2)
    equal(
        path_of(tracer_at(lesson, root), root.second),
        "first",
        cause=(is_value("second"), "the last name overwrote the first registered name"),
        hint="keep a name that is there already; torch keeps the first registered name",
    )


def test_a_shared_module_is_called_by_the_name_met_first_on_the_way_down(lesson):
    root, shared = nn.Module(), nn.Linear(2, 2)
    root.deep = nn.Sequential(nn.Sequential(shared))
    root.shallow = shared
    root.last = nn.Sequential(shared)
    equal(
        path_of(tracer_at(lesson, root), shared),
        "deep.0.0",
        cause=[
            (is_value("shallow"), "a child was asked before all that is below an earlier one"),
            (is_value("last.0"), "the last name overwrote the first one"),
        ],
        hint="finish a child and all that is below it before its next sibling (depth first)",
    )


def test_a_name_without_a_module_is_skipped(lesson):
    root = nn.Module()
    root.register_module("nothing", None)
    root.something = nn.ReLU()
    equal(
        path_of(tracer_at(lesson, root), root.something),
        "something",
        hint="`register_module(name, None)` is allowed: skip it",
    )


def test_a_module_tree_with_a_cycle_ends(lesson):
    root = nn.Module()
    root.child = nn.Module()
    root.child.parent = root
    tracer = tracer_at(lesson, root)
    equal(
        [
            path_of(tracer, root),
            path_of(tracer, root.child),
            is_refused(path_of(tracer, nn.ReLU())),
        ],
        ["", "child", True],
        hint="go into each module once",
    )


# --- the whole: inside the real engine ------------------------------------------------------------


def test_the_path_follows_the_root(lesson):
    inner = nn.Sequential(nn.ReLU())
    tracer = tracer_at(lesson, nn.Sequential(nn.Identity(), inner))
    before = path_of(tracer, inner[0])
    tracer.root = inner
    equal(
        [before, path_of(tracer, inner[0])],
        ["1.0", "0"],
        cause=(is_value(["1.0", "1.0"]), "a path below the first root was the answer for another"),
        hint="remember for which root the paths are; read them again for another one",
    )


def test_the_model_is_left_as_it_was(lesson):
    root = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh()))
    before = [set(vars(module)) for module in root.modules()]
    path_of(tracer_at(lesson, root), root[1][0])
    equal(
        [sorted(set(vars(m)) - names) for m, names in zip(root.modules(), before, strict=True)],
        [[], [], [], []],
        cause=(any, "notes were left on the modules: they go with the model wherever it goes"),
        hint="the tracer remembers, in a dict of its own: `id(module) -> path`",
    )


def test_the_search_is_your_own(lesson):
    root = nn.Sequential(nn.Sequential(nn.ReLU()))
    tracer = tracer_at(lesson, root)
    with barred(torch.fx.Tracer, "path_of_module"):
        equal(path_of(tracer, root[0][0]), "0.0")


def test_a_subclass_may_ask_for_the_path_and_change_it(lesson):
    class Shouting(own(lesson.PathOfModule, "path_of_module"), torch.fx.Tracer):
        def path_of_module(self, mod: nn.Module) -> str:
            return super().path_of_module(mod).upper()

    tracer, root = Shouting(), nn.Module()
    tracer.root, root.encoder = root, nn.ReLU()
    equal(
        path_of(tracer, root.encoder),
        "ENCODER",
        hint="keep the work in `path_of_module` itself, and let it not call itself",
    )


@pytest.mark.parametrize("seed", range(8))
def test_every_module_of_a_random_tree_has_the_path_of_torch(lesson, seed):
    root = random_models.tree(seed).model
    tracer = tracer_at(lesson, root)
    equal(
        {path: path_of(tracer, module) for path, module in root.named_modules()},
        {path: path for path, module in root.named_modules()},
    )


@pytest.mark.parametrize("name", ["LeafCalls", "SharedModules", "DeepNesting", "SmallResNet"])
def test_a_trace_with_it_is_the_trace_of_torch(lesson, name):
    same_graph(
        plugged(lesson).trace(zoo.SMALL[name]().model),
        torch.fx.Tracer().trace(zoo.SMALL[name]().model),
        meta=("nn_module_stack",),
        hint="compare the targets of the `call_module` nodes",
    )
