"""What is given to a lesson: the backend's compiler and its cache, and unflatten's reading."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch.export.graph_signature import OutputKind
from torch.fx.node import map_arg

from given import backend
from given.capture import Attribute
from given.unflatten import all_names, graph_key, levels_of, parts_of
from solutions.unflatten import unflatten
from tests.models.unflatten import ALIASES, Aliased, Block, Owner, without_unused_specs, x
from tests.suite import equal, holds, refuses
from tests.suite.programs import export, program_of
from tests.zoo import Model

TEXT = "int run() { return 1; }"


# --- given/backend.py


@pytest.fixture
def built(tmp_path, monkeypatch) -> list[Path]:
    """The libraries that are built from now on, in a folder of their own."""
    build, libraries = backend.build, []

    def noted(compiler, text, library):
        libraries.append(library)
        build(compiler, text, library)

    monkeypatch.setattr(backend, "build", noted)
    monkeypatch.setenv("KATA_KERNELS", str(tmp_path / "kept"))
    return libraries


@pytest.mark.compiler
def test_a_text_is_compiled_once(built):
    assert [backend.library_of(TEXT).run() for _ in range(2)] == [1, 1]
    assert len(built) == 1


@pytest.mark.compiler
def test_all_that_affects_a_library_affects_its_name(built, tmp_path, monkeypatch):
    compiler = tmp_path / "other"
    compiler.write_text(f'#!/bin/sh\nexec {backend.find_compiler()} "$@"\n')
    compiler.chmod(0o755)
    backend.library_of(TEXT)
    backend.library_of(TEXT + "\n")
    monkeypatch.setattr(backend, "FLAGS", [*backend.FLAGS, "-DOTHER"])
    backend.library_of(TEXT)
    monkeypatch.setattr(backend, "OPTIONS", backend.OPTIONS[1:])
    backend.library_of(TEXT)
    monkeypatch.setenv("CC", str(compiler))
    backend.library_of(TEXT)
    monkeypatch.setenv("CFLAGS", "-DANOTHER='1 + 1'")
    backend.library_of(TEXT)
    assert len(set(built)) == 6


@pytest.mark.compiler
def test_the_options_of_the_variable_come_last(built, monkeypatch):
    monkeypatch.setattr(backend, "FLAGS", [*backend.FLAGS, "-DNUMBER=1"])
    monkeypatch.setenv("CFLAGS", "-UNUMBER -DNUMBER='1 + 1'")
    assert backend.library_of("int run() { return NUMBER; }").run() == 2


@pytest.mark.compiler
def test_a_text_that_does_not_compile_leaves_nothing_and_its_line_is_shown(built, tmp_path):
    with pytest.raises(OSError, match=r"failed: error: .*nonsense") as caught:
        backend.library_of("int run() { return nonsense; }")
    assert "return nonsense;" in str(caught.value).splitlines()[1]
    assert not list((tmp_path / "kept").iterdir())
    assert backend.library_of(TEXT).run() == 1


@pytest.mark.compiler
def test_a_library_that_is_not_whole_is_built_again(built, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(backend, "build", lambda _, text, library: library.write_bytes(b"\x7f"))
        with pytest.raises(OSError, match=r"too short|mach-o|invalid"):
            backend.library_of(TEXT)
    assert backend.library_of(TEXT).run() == 1
    assert len(built) == 1


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has no such permissions")
def test_a_folder_into_which_others_may_write_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("KATA_KERNELS", str(folder))
    with pytest.raises(PermissionError, match="isn't yours alone"):
        backend.library_folder()


def test_without_a_compiler_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(OSError, match="CC"):
        backend.library_of(TEXT)


# --- given/unflatten.py


@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
def test_each_value_has_the_kind_that_it_had_in_the_model(strict):
    """Also what the signature doesn't list: strict export leaves out what the graph doesn't use."""
    program = without_unused_specs(program_of(Owner, x(), strict=strict))
    state = parts_of(program)["state"]
    equal(list(state), [*program.state_dict, *program.constants])
    equal(
        {name: (each.kind, each.is_saved) for name, each in sorted(state.items())},
        {
            "buffer": ("buffer", True),
            "constant": ("constant", True),
            "frozen": ("parameter", True),
            "passing": ("buffer", False),
            "unused": ("parameter", True),
            "unused_buffer": ("buffer", True),
        },
    )


def test_a_stack_may_have_numbered_paths_and_ends_where_a_path_isnt_below():
    entries = {"": ("", "Root"), "0@1": ("0@1", "Steps"), "1": ("1", "Tanh")}
    equal([level[:2] for level in levels_of(entries)], [("", 0), ("0", 1)])


def test_names_of_nodes_and_placeholders_arent_part_of_what_a_graph_does():
    one, other = torch.fx.Graph(), torch.fx.Graph()
    one.output(one.call_function(torch.add, (one.placeholder("x"), 1)))
    other.output(other.call_function(torch.add, (other.placeholder("y"), 1), name="renamed"))
    equal(graph_key(one, map_arg), graph_key(other, map_arg))


def test_a_child_that_is_called_is_not_one_that_is_read():
    called, read = torch.fx.Graph(), torch.fx.Graph()
    called.output(called.create_node("call_module", "child"))
    read.output(read.create_node("get_attr", "child"))
    holds(graph_key(called, map_arg) != graph_key(read, map_arg), "the operation counts")


def test_a_joint_graph_is_refused():
    program = program_of(Block, x())
    program.graph_signature.output_specs[0].kind = OutputKind.LOSS_OUTPUT
    with refuses(ValueError, "joint graph", cause="a program that computes gradients was accepted"):
        parts_of(program)


def test_a_program_with_a_block_is_refused():
    def forward(model, x):
        with torch.no_grad():
            y = model.linear(x)
        return y + x

    model = Model(forward, linear=torch.nn.Linear(2, 2))
    with refuses(ValueError, "submod_1", "no_grad", "run_decompositions", cause="nothing did"):
        unflatten(export(model, torch.ones(2)))
    unflatten(export(model, torch.ones(2), functional=True))


def test_all_names_of_a_tensor_are_known():
    two = {name: [*pair] for pair in ALIASES for name in pair}
    state = parts_of(program_of(Aliased, x()))["state"]
    state["equal"] = Attribute("buffer", state["memory"].value.clone())
    equal(all_names(state), two | {name: [name] for name in ("memory", "even", "equal")})
