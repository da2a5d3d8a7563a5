"""What ``given/backend.py`` gives the lesson: a compiler, and a cache that stays right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from given import backend

TEXT = "int run() { return 1; }"


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
