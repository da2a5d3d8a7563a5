"""The command line: its commands, its words, and what a misspelt one is answered."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import draw
from kata import progress
from kata.command_line import COMMANDS
from kata.commands.card import course
from kata.paths import ROOT
from kata.progress import all_needs, next_of
from kata.verdict import PASSED
from lessons import CHAIN, COURSE, FINALE, NAMES, TOGETHER, Lesson
from tests.project.stage import a_learner, everything_in, play, python

QUICK = """
import contextlib, io, sys
from tests.project.stage import a_learner, play
with a_learner("tracer"):
    for words in ([], ["hint", "tracer"], ["reset", "tracer"], ["check", "tracer"]):
        play(*words)
print(*(name for name in ("torch", "pytest", "hypothesis") if name in sys.modules))
"""


def test_the_commands_are_the_modules_and_those_of_the_page():
    files = {file.stem for file in (ROOT / "kata" / "commands").glob("[a-z]*.py")}
    assert files == {*COMMANDS, "overview"}
    text = (ROOT / "docs" / "commands.md").read_text()
    assert {line.split()[2] for line in text.splitlines() if line.startswith("$ kata ")} <= files
    pages = "".join(page.read_text() for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
    assert not [name for name in COMMANDS if f"kata {name}" not in pages]


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


def rows(states: dict[str, str]) -> list[SimpleNamespace]:
    """Return where somebody is with lessons in these states, and stubs for all others."""
    return [
        SimpleNamespace(
            lesson=each,
            is_pristine=not written(each).issubset(states),
            is_done=states.get(each.name) in PASSED,
            is_stale=False,
        )
        for each in COURSE
    ]


def written(lesson: Lesson) -> set[str]:
    """The lessons whose files a row is about."""
    return set(lesson.needs if lesson.name in TOGETHER else [lesson.name])


FIRST, SECOND, THIRD, *_, LAST = NAMES


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({}, FIRST),
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


def test_a_script_runs_with_torchvision_and_the_reference_lends_what_is_not_written(tmp_path: Path):
    script = tmp_path / "mine.py"
    script.write_text(
        "import torchvision\nfrom torchvision.models import resnet18\n"
        "from lessons.path_of_module import PathOfModule\nprint(PathOfModule)\n"
    )
    done = python("-m", "kata", "run", str(script))
    assert "PathOfModule" in done.stdout, done.stderr
    assert "lent by the reference: path_of_module" in done.stderr


@pytest.mark.parametrize(
    "imported",
    [
        "from lessons.path_of_module import PathOfModule as P",
        "from lessons import path_of_module; P = path_of_module.PathOfModule",
        "import lessons.path_of_module as lesson; P = lesson.PathOfModule",
    ],
)
def test_what_is_written_is_the_participants_own(learner, tmp_path: Path, imported: str):
    (learner.lessons / "path_of_module.py").write_text("PathOfModule = 'mine'\n")
    script = tmp_path / "mine.py"
    script.write_text(f"import sys\n{imported}\nprint(P, sys.argv[1:])\n")
    assert play("run", str(script), "a", "b") == (0, "mine ['a', 'b']\n")
    assert play("run", "nowhere.py") == (1, "error: there is no file nowhere.py\n")


# --- reset and its undoing: byte for byte, with one copy, and no other file touched

ANY_LESSON = st.sampled_from(NAMES)
# None: the learner has deleted the file.
CONTENT = st.none() | st.binary(max_size=200)


@settings(max_examples=50, deadline=None)
@given(lesson=ANY_LESSON, content=CONTENT)
def test_a_reset_lesson_is_its_stub_and_comes_back_byte_for_byte(lesson, content):
    with a_learner(lesson, "tracer", "exec_order") as place:
        (place.lessons / "notes.txt").write_text("mine")
        before = everything_in(place.lessons)
        if content is None:
            progress.file_of(lesson).unlink()
        else:
            progress.write(progress.file_of(lesson), content)
        worked = everything_in(place.lessons)
        assert play("reset", lesson).code == 0
        assert everything_in(place.lessons) == before
        if content is not None and worked != before:
            assert play("reset", lesson, "--undo").code == 0
            assert everything_in(place.lessons) == worked


def test_undo_is_undone_by_undo(learner):
    file = learner.lessons / "tracer.py"
    file.write_text("first = 1\n")
    play("reset", "tracer")
    file.write_text("second = 2\n")
    for text in ("first = 1\n", "second = 2\n"):
        assert play("reset", "tracer", "--undo").code == 0
        assert file.read_text() == text


# --- the card, and the course as a graph


def test_every_lesson_is_below_those_that_it_needs_directly_or_not():
    (shown,), titles = course().panels, draw(course(), "fx").svg
    reached: dict[str, set[str]] = {}
    for node in shown.nodes:
        reached[node.name] = set(node.inputs).union(*(reached[each] for each in node.inputs))
        assert reached[node.name] == set(all_needs(node.name))
        assert not any(reached[each] & {*node.inputs} for each in node.inputs)
        needs = f"<title>{node.name} needs {', '.join(node.inputs)}</title>"
        assert (needs in titles) is bool(node.inputs)
    assert [node.name for node in shown.nodes] == [lesson.name for lesson in COURSE]


def test_a_card_has_the_lessons_that_are_done_and_comes_after_the_finale(
    learner, tmp_path: Path, monkeypatch
):
    words = ("card", "--out", str(tmp_path / "card.html"))
    early = play(*words)
    assert (early.code, "after the finale" in early.screen) == (1, True)
    assert not (tmp_path / "card.html").exists()
    done = [lesson for lesson in COURSE if lesson.name in (*FINALE.needs, FINALE.name)]
    rows = [SimpleNamespace(lesson=lesson, is_done=True) for lesson in done]
    monkeypatch.setattr("kata.commands.card.standings", lambda: rows)
    played = play(*words)
    assert played.code == 0
    assert f"#done={','.join([*FINALE.needs, FINALE.name])}" in "".join(played.screen.split())
    assert (tmp_path / "card.html").read_text().count(">done</text>") == len(done)
