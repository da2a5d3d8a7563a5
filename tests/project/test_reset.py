"""``reset`` and its undoing: byte for byte, with one copy, and no other file touched."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lessons import LESSONS
from tests.project.stage import a_learner, everything_in, play

LESSON = st.sampled_from([lesson.name for lesson in LESSONS])
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
@given(lesson=LESSON, content=CONTENT)
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
@given(lesson=LESSON, content=CONTENT, other=st.binary())
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
