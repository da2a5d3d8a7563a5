"""What pages name in torch, compared between two versions: stale pages are named, others aren't."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kata.paths import ROOT
from tools.pages.torch_places import changes, definitions, places_in

PAGE = """
| file | look at | look for |
|---|---|---|
| `torch/fx/a.py` | `Tracer.trace`, `LIMIT` | something |
| | `helper` | the same file |
| `torch/fx/b.py` | `Node` | another |

| ours | `not.a.place` | no file |
"""
A = '''
LIMIT = 3
class Tracer:
    def trace(self):
        """What it does."""
        def inner(): return 1
        return inner()
if LIMIT:
    def helper(): return 2
'''
B = "class Node:\n    pass\n"


def torch_at(folder: Path, a: str = A, b: str = B) -> Path:
    (folder / "torch/fx").mkdir(parents=True)
    (folder / "torch/version.py").touch()
    (folder / "torch/fx/a.py").write_text(a)
    if b:
        (folder / "torch/fx/b.py").write_text(b)
    return folder


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text(PAGE)
    return tmp_path / "docs"


def test_a_table_names_files_and_what_is_in_them():
    assert list(places_in(PAGE)) == [
        ("torch/fx/a.py", "Tracer.trace"),
        ("torch/fx/a.py", "LIMIT"),
        ("torch/fx/a.py", "helper"),
        ("torch/fx/b.py", "Node"),
    ]


def test_what_stands_below_a_condition_or_in_a_function_is_defined_too(tmp_path: Path):
    names = definitions(torch_at(tmp_path) / "torch/fx/a.py")
    assert {"LIMIT", "Tracer", "Tracer.trace", "Tracer.trace.inner", "helper"} == set(names)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("return inner()", "return 1 + inner()", ["Tracer.trace changed"]),
        ("def inner(): return 1", "def inner(): return 7", ["Tracer.trace changed"]),
        ("LIMIT = 3", "LIMIT = 4", ["LIMIT changed"]),
        ("def helper", "def other", ["helper gone"]),
        ("What it does.", "What it did.", []),
        ("return inner()", "return inner()  # at once", []),
        ("class Tracer:", "x = 1\n\n\nclass Tracer:", []),
    ],
)
def test_code_counts_and_comments_docstrings_and_places_do_not(
    before: str, after: str, expected: list[str], docs: Path, tmp_path: Path
):
    old, new = torch_at(tmp_path / "old"), torch_at(tmp_path / "new", A.replace(before, after))
    found = [f"{name} {became}" for _, _, name, became in changes(old, new, docs)]
    assert found == expected


def test_a_file_that_is_gone_takes_its_names_along(docs: Path, tmp_path: Path):
    old, new = torch_at(tmp_path / "old"), torch_at(tmp_path / "new", b="")
    assert list(changes(old, new, docs)) == [("page.md", "torch/fx/b.py", "Node", "gone")]


def test_a_folder_without_torch_is_refused(tmp_path: Path):
    command = [sys.executable, "-m", "tools.pages.torch_places", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, "holds no torch" in done.stderr) == (2, True)
