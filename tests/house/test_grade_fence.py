"""The fence round a run on somebody else's code, and the seal on what judges it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pluggy import PluginManager
from torch.fx import Tracer

from kata.grading.guard import Fence, lendable
from kata.grading.seal import Seal
from tests.suite import expect

READ, WRITE = os.O_RDONLY, os.O_WRONLY | os.O_CREAT


@pytest.fixture
def fence(tmp_path: Path) -> Fence:
    """A fence with a home, beside a closed file and an open one."""
    for name in ("home", "closed"):
        (tmp_path / name).mkdir()
    (tmp_path / "closed" / "tracer.py").touch()
    (tmp_path / "open.py").touch()
    return Fence(tmp_path / "home", [tmp_path / "closed"])


def test_a_closed_file_cannot_be_read_by_any_name(fence: Fence, tmp_path: Path, monkeypatch):
    (tmp_path / "link.py").symlink_to(tmp_path / "closed" / "tracer.py")
    monkeypatch.chdir(tmp_path / "closed")
    names = [tmp_path / "closed/tracer.py", tmp_path / "link.py", "tracer.py", b"tracer.py"]
    for name in [*names, tmp_path / "home/../closed/tracer.py", "solutions/tracer.py"]:
        with pytest.raises(PermissionError, match="cannot be read while a submission is judged"):
            fence.check_open(name, "r", READ)


def test_any_other_file_can_be_read(fence: Fence, tmp_path: Path):
    for name in (tmp_path / "open.py", __file__, os.devnull, 3):
        fence.check_open(name, "r", READ)


def test_files_are_written_at_home_alone(fence: Fence, tmp_path: Path):
    fence.check_open(tmp_path / "home" / "new.txt", "w", WRITE)
    fence.check_open(os.devnull, "w", WRITE)
    for name in (tmp_path / "open.py", tmp_path / "home-from-home.txt"):
        with pytest.raises(PermissionError, match="cannot be written"):
            fence.check_open(name, "w", WRITE)


def test_files_are_changed_at_home_alone(fence: Fence, tmp_path: Path):
    fence.check_change(str(tmp_path / "home" / "a"), str(tmp_path / "home" / "b"), -1, -1)
    with pytest.raises(PermissionError, match="cannot be changed"):
        fence.check_change(str(tmp_path / "home" / "a"), str(tmp_path / "open.py"), -1, -1)


@pytest.mark.parametrize("name", ["solutions", "solutions.tracer", "tests.answers.tracer"])
def test_a_closed_module_cannot_be_found(fence: Fence, name: str):
    with pytest.raises(ModuleNotFoundError, match="is not there"):
        fence.check_import(name, None, None, None, None)


def test_the_hook_asks_for_processes_and_native_code(fence: Fence):
    hook = fence.hook()
    for event in ("subprocess.Popen", "os.fork", "os.system", "os.kill", "ctypes.dlopen"):
        with pytest.raises(PermissionError):
            hook(event, ())
    hook("builtins.id", (1,))


def test_what_a_lesson_stands_on_can_be_lent_and_nothing_else():
    assert list(lendable("path_of_module")) == []
    roots = {path.parts[0].removesuffix(".py") for path in lendable("tracer")}
    lessons = {name for name in roots if not name.startswith("_")}
    assert lessons == {"path_of_module", "create_arg", "placeholders"}


def test_what_was_replaced_is_named_and_what_was_put_back_is_not(monkeypatch):
    seal = Seal(PluginManager("kata"))
    with monkeypatch.context() as patch:
        patch.setattr(Tracer, "create_arg", lambda self, a: a)
        assert seal.broken() == ["torch.fx._symbolic_trace.Tracer.create_arg"]
    assert Seal(PluginManager("kata")).broken() == []


def test_another_body_in_the_same_function_is_noticed(monkeypatch):
    seal = Seal(PluginManager("kata"))
    monkeypatch.setattr(expect.holds, "__code__", expect.equal.__code__)
    assert "tests.suite.expect.holds" in seal.broken()


def test_what_was_replaced_during_one_test_is_remembered(monkeypatch):
    seal = Seal(PluginManager("kata"))
    with monkeypatch.context() as patch:
        patch.setattr(expect, "equal", lambda *a, **k: None)
        seal.look_at_the_suite()
    assert seal.broken() == ["tests.suite.expect.equal"]


def test_a_new_plugin_is_noticed():
    plugins = PluginManager("pytest")
    hooks = ModuleType("hooks")
    exec("import pluggy\nspec = pluggy.HookspecMarker('pytest')\n", vars(hooks))
    hooks.pytest_it = hooks.spec(lambda: None)
    plugins.add_hookspecs(hooks)
    seal = Seal(plugins)
    plugin = ModuleType("plugin")
    exec("import pluggy\nimpl = pluggy.HookimplMarker('pytest')\n", vars(plugin))
    plugin.pytest_it = plugin.impl(lambda: None)
    plugins.register(plugin)
    assert "the plugins of pytest" in seal.broken()


def test_a_module_of_the_suite_is_among_what_is_sealed():
    names = {mark.name for mark in Seal(PluginManager("kata")).suite}
    assert "tests.suite.expect.equal" in names
    assert all(name.split(".")[0] == "tests" for name in names)
    assert "tests.suite.expect" in sys.modules
