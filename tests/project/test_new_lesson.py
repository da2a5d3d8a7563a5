"""A new lesson: its files are laid out in the shape of all others, and ask to be filled in."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from kata.paths import ROOT
from kata.stubs import stub_of
from tests.project.test_site import SECTIONS
from tools import lesson
from tools.pages.lesson import LessonPage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a new lesson's files, and the tables as they are here."""
    for table in lesson.TABLES:
        (tmp_path / table).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / table, tmp_path / table)
    assert len(list(lesson.lay_out("fusion", tmp_path))) == len(lesson.places()) - 1
    return tmp_path


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*fusion*") if path.is_file()]


def test_every_file_says_what_is_to_be_filled_in(root: Path):
    assert all(lesson.UNFILLED.search(path.read_text()) for path in files(root))


def test_every_python_file_is_python_and_names_the_lesson(root: Path):
    python = [path for path in files(root) if path.suffix == ".py"]
    assert python
    for path in python:
        assert ast.get_docstring(ast.parse(path.read_text()))
        assert lesson.NAME not in path.read_text()


def test_a_stub_can_be_cut_from_the_core(root: Path):
    stub = stub_of((root / "solutions/fusion.py").read_text(), "fusion")
    assert 'raise NotImplementedError("fusion: ' in stub


def test_the_page_has_every_section_in_order(root: Path):
    page = LessonPage("fusion", (root / "docs/lessons/fusion.md").read_text())
    assert list(page.sections) == SECTIONS
    assert len(page.hints) == 3


def test_what_is_written_is_not_written_over(root: Path):
    mine = root / "solutions/fusion.py"
    mine.write_text("mine = 1\n")
    assert not list(lesson.lay_out("fusion", root))
    assert mine.read_text() == "mine = 1\n"


def test_a_package_stands_for_the_file_of_its_name(root: Path):
    (root / "solutions/stretch/fusion.py").unlink()
    (root / "solutions/stretch/fusion").mkdir()
    (root / "solutions/stretch/fusion/__init__.py").touch()
    assert not list(lesson.lay_out("fusion", root))


def test_files_tables_and_text_that_lack_are_named(root: Path):
    found = list(lesson.lacking("fusion", root))
    assert "lessons/fusion.py is missing: nox -s stubs" in found
    assert "README.md has no entry with ](docs/lessons/fusion.md)" in found
    assert "mkdocs.yml has no entry with - api/fusion.md" in found
    assert "docs/lessons/fusion.md:7: You write FILL IN: the goal, in one sentence." in found


@pytest.mark.parametrize("name", ["Fusion", "fusion2", "../fusion", "", "fusion_"])
def test_a_name_that_no_lesson_can_have_is_refused(name: str):
    with pytest.raises(lesson.argparse.ArgumentTypeError):
        lesson.lesson_name(name)
