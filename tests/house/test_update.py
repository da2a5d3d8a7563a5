"""``update``: a changed stub is merged into the learner's file, and no line of theirs is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kata import bases, merging
from kata.copies import copies_of
from kata.merging import CannotMergeError, merge
from kata.stubs import modules_of, stub_of
from tests.house.stage import a_learner, play, pristine

LINE = st.sampled_from(["", "x = 1", "    return x", "# why", "\tif x:", "y = '\u00e9'", "\f", "z"])
LESSON = st.sampled_from(["path_of_module", "inversion", "custom_tracers", "exec_order"])


@st.composite
def edits(draw: st.DrawFn, lines: list[str], *, own: str = "") -> list[str]:
    """The lines after a few edits: some inserted, some replaced, some deleted."""
    edited = list(lines)
    for number in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(edited)))
        deleted = draw(st.integers(0, 3))
        fresh = draw(st.lists(LINE, max_size=3))
        edited[at : at + deleted] = [f"{line}  # {own} {number}" if own else line for line in fresh]
    return edited


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[str, Path, bytes, bytes]:
    """A lesson's file, the older stub that the learner began with, and their file."""
    lesson = draw(LESSON)
    module = draw(st.sampled_from(modules_of(lesson)))
    today = pristine()[module.stub].splitlines()
    older = draw(edits(today))
    yours = draw(edits(older, own="mine"))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    last = draw(st.sampled_from(["", end]))
    return (
        lesson,
        module.stub,
        ("\n".join(older) + "\n").encode(),
        (end.join(yours) + last).encode(),
    )


@settings(max_examples=50, deadline=None)
@given(scenarios())
def test_no_line_of_the_learners_is_lost_and_a_copy_is_kept(scenario):
    lesson, path, older, yours = scenario
    with a_learner(lesson) as place:
        (place.memory / "stubs" / path).parent.mkdir(parents=True, exist_ok=True)
        (place.memory / "stubs" / path).write_bytes(older)
        (place.lessons / path).write_bytes(yours)
        code = play("update", lesson).code
        merged = (place.lessons / path).read_bytes()
        assert is_subsequence(own_lines(yours, older), lines_of(merged))
        assert (code == 1) == (b"<<<<<<< yours" in merged)
        assert merged == yours or copies_of(lesson)[0].files[path] == yours


def own_lines(yours: bytes, older: bytes) -> list[bytes]:
    """The lines of the learner's file that weren't in the stub: what is theirs."""
    return [line for line in lines_of(yours) if line not in set(lines_of(older))]


def lines_of(text: bytes) -> list[bytes]:
    return [line.rstrip(b"\r") for line in text.split(b"\n")]


def is_subsequence(part: list[bytes], whole: list[bytes]) -> bool:
    rest = iter(whole)
    return all(line in rest for line in part)


@pytest.fixture
def learner():
    with a_learner() as place:
        yield place


OLDER_DOCSTRING = '"""Lesson: what it said before.'


def began_with_an_older_stub(place, *, body: str) -> Path:
    """Let the learner have begun with another docstring, and have written a body since."""
    today = pristine()[Path("path_of_module.py")]
    older = "\n".join([OLDER_DOCSTRING, *today.splitlines()[1:]]) + "\n"
    file = place.lessons / "path_of_module.py"
    file.write_text(older)
    (place.memory / "stubs").mkdir(parents=True, exist_ok=True)
    (place.memory / "stubs" / file.name).write_text(older)
    file.write_text("\n".join(older.splitlines()[:-1]) + f"\n{body}\n")
    return file


def test_the_new_docstring_comes_in_and_the_learners_body_stays(learner):
    file = began_with_an_older_stub(learner, body="        return 'mine'")
    played = play("update")
    assert played.code == 0
    assert "lessons/path_of_module.py has the new stub in it" in played.screen
    today = pristine()[Path("path_of_module.py")].splitlines()
    assert file.read_text().splitlines() == [*today[:-1], "        return 'mine'"]


def test_both_versions_stay_where_both_have_changed(learner):
    file = began_with_an_older_stub(learner, body="        return 'mine'")
    file.write_text(file.read_text().replace(OLDER_DOCSTRING, '"""My own notes.'))
    played = play("update", "path_of_module")
    assert played.code == 1
    assert "has both versions at line 1: settle them" in played.screen
    first = pristine()[Path("path_of_module.py")].splitlines()[0]
    assert all(text in file.read_text() for text in ("My own notes", "before", first))


def test_a_second_update_has_nothing_to_do(learner):
    file = began_with_an_older_stub(learner, body="        return 'mine'")
    play("update")
    merged = file.read_bytes()
    assert "nothing to do" in play("update").screen
    assert file.read_bytes() == merged


def test_an_update_is_undone_by_restore(learner):
    file = began_with_an_older_stub(learner, body="        return 'mine'")
    before = file.read_bytes()
    play("update")
    play("restore", "path_of_module")
    assert file.read_bytes() == before


def test_a_conflict_that_waits_to_be_settled_is_not_merged_into(learner):
    file = began_with_an_older_stub(learner, body="<<<<<<< yours")
    before = file.read_bytes()
    played = play("update", "path_of_module")
    assert (played.code, file.read_bytes()) == (1, before)
    assert "still has a conflict to" in played.screen


def test_without_git_the_file_stays_and_the_new_stub_is_set_aside(learner, monkeypatch):
    file = began_with_an_older_stub(learner, body="        return 'mine'")
    before = file.read_bytes()
    monkeypatch.setenv("PATH", "")
    played = play("update", "path_of_module")
    assert (played.code, file.read_bytes()) == (1, before)
    assert "git isn't installed" in played.screen
    new = learner.memory / "new" / "path_of_module.py"
    assert new.read_text() == pristine()[Path("path_of_module.py")]


def test_a_new_step_of_a_lesson_in_several_files_is_written(learner):
    step = modules_of("unflatten")[0].stub
    (learner.lessons / step).unlink()
    assert "is a new step" in play("update", "unflatten").screen
    assert (learner.lessons / step).read_text() == pristine()[step]


def test_a_file_that_is_no_text_stays(learner):
    file = began_with_an_older_stub(learner, body="\0")
    before = file.read_bytes()
    assert play("update", "path_of_module").code == 1
    assert file.read_bytes() == before


def test_windows_line_ends_are_no_conflict():
    base, new = b"a\nb\nc\nd\ne\n", b"A\nb\nc\nd\ne\n"
    assert merge(b"a\r\nb\r\nc\r\nd\r\nmine\r\n", base, new).text == b"A\r\nb\r\nc\r\nd\r\nmine\r\n"


def test_a_merge_that_git_refuses_is_an_error_with_its_words(monkeypatch):
    monkeypatch.setattr(merging, "LABELS", ("a", "b", "c", "d"))
    with pytest.raises(CannotMergeError, match=r"too many labels|usage"):
        merge(b"a\n", b"b\n", b"c\n")


def test_the_base_is_found_in_the_history_if_the_runner_never_saw_the_file(learner, monkeypatch):
    """The learner worked before the first command, and pulled: git knows the older stub."""
    source = (Path(__file__).parents[2] / "solutions" / "path_of_module.py").read_text()
    older = source.replace(source.splitlines()[0], OLDER_DOCSTRING)
    monkeypatch.setattr(bases, "git", lambda *words: older if words[0] == "show" else "commit\n")
    file = learner.lessons / "path_of_module.py"
    file.write_text(stub_of(older, "path_of_module") + "\nmine = 1\n")
    play("hint", "tracer")  # any command
    seen = (learner.memory / "stubs" / "path_of_module.py").read_text()
    assert seen == stub_of(older, "path_of_module")
    play("update", "path_of_module")
    assert file.read_text() == pristine()[Path("path_of_module.py")] + "\nmine = 1\n"


@pytest.mark.skipif(not bases.git("rev-parse", "HEAD"), reason="no git repository here")
def test_the_history_gives_stubs_and_no_work_of_a_learners():
    stubs = bases.earlier_stubs(modules_of("path_of_module")[0], "path_of_module")
    assert stubs
    assert all(stub_of(stub.decode(), "path_of_module").encode() == stub for stub in stubs)


def test_where_there_is_no_repository_todays_stub_is_the_base(learner, monkeypatch):
    monkeypatch.setenv("PATH", "")
    (learner.lessons / "tracer.py").write_text("mine = 1\n")
    play("hint", "tracer")
    assert (learner.memory / "stubs" / "tracer.py").read_text() == pristine()[Path("tracer.py")]
