"""The command line: its commands, its words, and what a misspelt one is answered."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kata.command_line import COMMANDS
from kata.paths import ROOT
from kata.progress import Result, Standing, next_of
from kata.verdict import Count
from lessons import CHAIN, COURSE, FINALE, LESSONS, TOGETHER, Lesson
from tests.project.stage import a_learner, everything_in, play, python

PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
QUICK = """
import contextlib, io, sys
from tests.project.stage import a_learner, play
with a_learner("tracer"):
    for words in ([], ["hint", "tracer"], ["reset", "tracer"], ["check", "tracer"]):
        play(*words)
print(*(name for name in ("torch", "pytest", "hypothesis") if name in sys.modules))
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_module_and_stands_on_a_page(name: str):
    module = importlib.import_module(f"kata.commands.{name}")
    assert name == "doctor" or callable(module.add_arguments)
    assert callable(module.main)
    assert any(f"kata {name}" in page.read_text() for page in PAGES)


def test_a_module_of_commands_is_a_command():
    files = {file.stem for file in (ROOT / "kata" / "commands").glob("[a-z]*.py")}
    assert files == {*COMMANDS, "overview"}


def test_the_page_of_the_commands_knows_no_others():
    text = (ROOT / "docs" / "commands.md").read_text()
    named = {line.split()[2] for line in text.splitlines() if line.startswith("$ kata ")}
    assert named <= set(COMMANDS)


def test_commands_that_judge_nothing_import_neither_torch_nor_pytest():
    done = python("-c", QUICK)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["chekc"], "did you mean check"),
        (["hint", "trace"], "did you mean tracer"),
        (["check", "tracer", "costum_tracers"], "did you mean custom_tracers"),
        (["reset", "nothing_like_it"], "known: proxy, "),
        (["grade", ".", "--lesson", "trace"], "did you mean tracer"),
    ],
)
def test_an_unknown_word_is_answered_by_near_ones(words, answer, learner):
    played = play(*words)
    assert played.code == 2
    assert answer in " ".join(played.screen.split())


class Current(Result):
    is_current = True


def rows(states: dict[str, str]) -> list[Standing]:
    """Return where somebody is with lessons in these states, and stubs for all others."""
    results = {
        name: Current(name, state, Count(), Count(), judged="") for name, state in states.items()
    }
    return [
        Standing(each, not written(each).issubset(results), results.get(each.name))
        for each in COURSE
    ]


def written(lesson: Lesson) -> set[str]:
    """The lessons whose files a row is about."""
    return set(lesson.needs if lesson.name in TOGETHER else [lesson.name])


NAMES = [lesson.name for lesson in LESSONS]
FIRST, SECOND, THIRD, *_, LAST = NAMES


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({}, FIRST),
        ({FIRST: "done"}, SECOND),
        ({SECOND: "starred"}, THIRD),
        ({THIRD: "done", FIRST: "red"}, FIRST),
        ({LAST: "done"}, FIRST),
        (dict.fromkeys(FINALE.needs, "done"), FINALE.name),
        (dict.fromkeys([FINALE.name, *NAMES], "done"), CHAIN.name),
    ],
)
def test_the_next_lesson_is_the_one_begun_or_follows_the_last_one_done(states, expected):
    assert next_of(rows(states)).lesson.name == expected


# --- run: a script on the participant's lessons; what isn't written is lent


def test_a_script_runs_on_the_lessons_and_the_reference_lends_the_rest(tmp_path: Path):
    script = tmp_path / "mine.py"
    script.write_text("from lessons.path_of_module import PathOfModule\nprint(PathOfModule)\n")
    done = python("-m", "kata", "run", str(script), "a", "b")
    assert "PathOfModule" in done.stdout, done.stderr
    assert "lent by the reference: path_of_module" in done.stderr


def test_what_is_written_is_the_participants_own(learner, tmp_path: Path):
    (learner.lessons / "path_of_module.py").write_text("PathOfModule = 'mine'\n")
    script = tmp_path / "mine.py"
    script.write_text(
        "import sys\nfrom lessons.path_of_module import PathOfModule as P\nprint(P, sys.argv[1:])\n"
    )
    played = play("run", str(script), "a", "b")
    assert (played.code, played.screen) == (0, "mine ['a', 'b']\n")


def test_a_script_imports_torchvision_beside_any_torch(tmp_path: Path):
    script = tmp_path / "mine.py"
    script.write_text(
        "import torchvision\nfrom torchvision.models import resnet18\nprint('both')\n"
    )
    done = python("-m", "kata", "run", str(script))
    assert (done.returncode, done.stdout) == (0, "both\n"), done.stderr


def test_a_script_that_is_not_there_is_an_error_in_one_line(learner):
    played = play("run", "nowhere.py")
    assert (played.code, played.screen) == (1, "error: there is no file nowhere.py\n")


# --- reset and its undoing: byte for byte, with one copy, and no other file touched

ANY_LESSON = st.sampled_from(NAMES)
# None: the learner has deleted the file.
CONTENT = st.none() | st.binary(max_size=200)


def work_on(lesson: str, folder: Path, content: bytes | None) -> dict[Path, bytes]:
    """Leave the learner's work in the lesson's file; return what is there then."""
    file = folder / f"{lesson}.py"
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    return everything_in(folder)


@settings(max_examples=50, deadline=None)
@given(lesson=ANY_LESSON, content=CONTENT)
def test_a_reset_lesson_is_its_stub_and_comes_back_byte_for_byte(lesson, content):
    with a_learner(lesson) as place:
        before = everything_in(place.lessons)
        worked = work_on(lesson, place.lessons, content)
        assert play("reset", lesson).code == 0
        assert everything_in(place.lessons) == before
        if worked and worked != before:
            assert play("reset", lesson, "--undo").code == 0
            assert everything_in(place.lessons) == worked


@settings(max_examples=30, deadline=None)
@given(lesson=ANY_LESSON, content=CONTENT, other=st.binary())
def test_a_reset_touches_no_file_but_the_lessons(lesson, content, other):
    with a_learner(lesson, "tracer", "exec_order") as place:
        work_on(lesson, place.lessons, content)
        strangers = [each for each in everything_in(place.lessons) if each.stem != lesson]
        strangers.append(Path("notes.txt"))
        for path in strangers:
            (place.lessons / path).write_bytes(other)
        play("reset", lesson)
        assert all((place.lessons / path).read_bytes() == other for path in strangers)
        assert {path.name for path in place.lessons.parent.iterdir()} <= {"lessons", ".kata"}


def test_a_pristine_lesson_is_left_alone(learner):
    assert "nothing to do" in play("reset", "tracer").screen
    assert not (learner.memory / "kept").exists()


def test_undo_is_undone_by_undo(learner):
    file = learner.lessons / "tracer.py"
    file.write_text("first = 1\n")
    play("reset", "tracer")
    file.write_text("second = 2\n")
    for text in ("first = 1\n", "second = 2\n"):
        assert play("reset", "tracer", "--undo").code == 0
        assert file.read_text() == text


def test_without_a_copy_there_is_nothing_to_undo(learner):
    played = play("reset", "tracer", "--undo")
    assert (played.code, "no copy of tracer is kept" in played.screen) == (1, True)
