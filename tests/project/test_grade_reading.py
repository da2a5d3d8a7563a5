"""What grading reads of a submission, and what it flags in it."""

from __future__ import annotations

import ast
import os
import zipfile
from pathlib import Path

import pytest

from kata.arguments import UsageError
from kata.grading.session import Session
from kata.grading.submissions import (
    Submission,
    find_submissions,
    flags_of,
    read_submission,
)
from kata.paths import ROOT
from kata.stubs import stubs
from kata.verdict import State
from tests.project.stage import a_learner, play

LESSON = "path_of_module"
FILE = f"{LESSON}.py"


def write(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


# --- what is read -------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "lessons/", "ada/", "ada/lessons/", "fx-kata/lessons/"])
def test_lessons_are_found_where_people_put_them(place: str, tmp_path: Path):
    folder = write(tmp_path / "Ada", {f"{place}{FILE}": "mine"})
    assert read_submission(folder).files == {LESSON: b"mine"}


STRANGE = """
    examples/{} given/{} solutions/{} tests/models/{} tests/answers/{} tests/test_tracer.py
    conftest.py sitecustomize.py pytest.ini lessons/conftest.py lessons/__init__.py
    lessons/_paths.py lessons/split_module/steps.py
""".format(*[FILE] * 5).split()


def test_of_a_whole_repository_the_lessons_alone_are_read(tmp_path: Path):
    files = {**dict.fromkeys(STRANGE, "bad"), f"lessons/{FILE}": "mine", FILE: "an attempt"}
    assert read_submission(write(tmp_path / "Ada", files)).files == {LESSON: b"mine"}


def test_an_archive_is_read_like_a_folder(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "Ada.zip", "w") as archive:
        archive.writestr(f"lessons/{FILE}", "mine")
        archive.writestr("../../tracer.py", "bad")
        archive.writestr("/tracer.py", "bad")
    submission = read_submission(tmp_path / "Ada.zip")
    assert (submission.name, submission.files) == ("Ada", {LESSON: b"mine"})


@pytest.mark.parametrize("damage", ["cut", "encrypted", "no archive"])
def test_a_damaged_archive_is_unreadable_and_says_why(damage: str, tmp_path: Path):
    path = tmp_path / "Ada.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"lessons/{FILE}", "mine = 1\n" * 100)
    data = bytearray(path.read_bytes())
    for head, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.rindex(head) + at] |= damage == "encrypted"
    path.write_bytes({"cut": data[:-30], "no archive": b"no archive"}.get(damage, data))
    submission = read_submission(path)
    assert "path_of_module" in submission.unreadable
    assert submission.notes


def test_each_entry_has_a_row_and_none_that_cannot_be_read_is_todo(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo.zip")
    (tmp_path / "linked").symlink_to(ROOT / "solutions")
    (tmp_path / "empty").mkdir()
    for name in ("ada.tar.gz", "notes.txt"):
        (tmp_path / name).write_bytes(b"something")
    submissions = find_submissions(tmp_path)
    names = [each.name for each in submissions]
    assert names == ["ada.tar.gz", "empty", "fifo", "linked", "notes.txt"]
    people = Session(submissions).summary().people
    assert {grade.state for person in people for grade in person.grades} == {State.UNREADABLE}


def test_a_link_and_a_huge_file_are_left_out(tmp_path: Path):
    folder = write(tmp_path / "Ada", {"proxy.py": "#" * 600_000, "tracer.py": "mine"})
    (folder / FILE).symlink_to(ROOT / "solutions" / FILE)
    submission = read_submission(folder)
    assert set(submission.files) == {"tracer"}
    assert "it is a link" in submission.notes[0]
    assert "larger than 512 KiB" in submission.notes[1]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_stub_is_untouched_whatever_its_line_ends(ends: str, tmp_path: Path):
    text = stubs()[FILE].replace("\n", ends)
    (tmp_path / "Ada").mkdir()
    (tmp_path / "Ada" / FILE).write_bytes(text.encode())
    assert not read_submission(tmp_path / "Ada").is_touched(LESSON)


def test_a_folder_without_submissions_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="is empty"):
        find_submissions(tmp_path)
    with a_learner("path_of_module"):
        played = play("grade", str(tmp_path / "nowhere"))
    assert played.code == 1
    assert "isn't a folder" in " ".join(played.screen.split())


# --- what is flagged ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "import solutions",
        "from solutions.stretch.tracer import Tracer",
        "__import__('solutions')",
        "exec('import solutions.stretch.tracer')",
        "open('../solutions/tracer.py')",
    ],
)
def test_a_line_that_takes_the_reference_is_flagged(line: str):
    honest = (ROOT / "lessons" / FILE).read_bytes()
    mine, copy = (Submission("", {LESSON: each}) for each in (honest, f"x\n{line}\n".encode()))
    assert flags_of([mine, copy]) == [[], [f"lessons/{FILE}:2: the reference"]]


def test_equal_files_are_flagged_whatever_their_comments():
    mine, same, other = (
        Submission(name, {LESSON: source})
        for name, source in {"Ada": b"x = 1", "Bob": b"x = 1  # mine", "Cy": b"x = 2"}.items()
    )
    assert flags_of([mine, same, other]) == [
        [f"lessons/{FILE}: the same as that of Bob"],
        [f"lessons/{FILE}: the same as that of Ada"],
        [],
    ]


def test_a_copy_of_the_reference_is_flagged_whatever_its_docstrings():
    copy = ast.parse((ROOT / "solutions" / FILE).read_text())
    copy.body.pop(0)
    (flags,) = flags_of([Submission("Ada", {LESSON: ast.unparse(copy).encode()})])
    assert flags == [f"lessons/{FILE}: the same as the reference"]
