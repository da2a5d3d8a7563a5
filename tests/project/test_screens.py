"""What the terminal shows for each command, to the letter: ``tests/golden/commands/``.

Each scene is played in 80 columns, in 40, and where the terminal has ASCII alone. After a wanted
change, write the screens anew:
``GOLDEN=write pytest --impl full tests/project/test_screens.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kata import progress, terminal
from kata.commands import check, hint, overview
from kata.judging import End, Ending, Report, Verdict
from kata.paths import ROOT
from kata.workspace import Workspace
from tests.project.stage import a_learner, play

GOLDEN = ROOT / "tests" / "golden" / "commands"
TERMINALS = {"80": 80, "40": 40, "ascii": 80}
LESSON = "path_of_module"
TESTS = f"tests/test_{LESSON}.py::test_"


def report(sentence: str, outcome: str = "passed", **more: object) -> Report:
    nodeid = TESTS + sentence.replace(" ", "_")
    return Report(nodeid, sentence, outcome, **{"is_stretch": False, **more})


A_FAILURE = """\
expected:     'first'
got:          'second'
likely cause: the last name overwrote the first registered name in your index…
try:          keep a name that is there already; torch keeps the first
              registered name"""
ANOTHER = """\
AttributeError: 'Plugged' object has no attribute 'separator'
  lessons/path_of_module.py:4, in path_of_module
      return self.prefix(names, mod)"""
RED = Verdict(
    LESSON,
    (
        report("the root is the empty string"),
        report(
            "the first of two names is the path", "failed", text=A_FAILURE, printed="→ 1\n\x1b[2J"
        ),
        report("a foreign module is refused", "failed", text=ANOTHER),
        report("a late module has a path", "failed", text=ANOTHER, is_stretch=True),
    ),
    Ending(End.FINISHED),
    planned=(3, 1),
    lent=("create_arg",),
)
HUNG = Verdict(
    "create_arg",
    (),
    Ending(End.TIME, "still running after 10 s, so it was stopped: an endless loop?"),
    planned=(3, 0),
)
DONE = Verdict("placeholders", (report("a"),), Ending(End.FINISHED), planned=(1, 0))
TODO = Verdict("inversion", (), Ending(End.FINISHED))


@pytest.fixture
def learner(monkeypatch) -> Iterator[Workspace]:
    """A learner whose surroundings are the same on every machine."""
    monkeypatch.setattr(hint, "PAGES", GOLDEN)
    monkeypatch.setattr(check, "judged", lambda *asked: iter([RED, HUNG, DONE, TODO]))
    with a_learner() as place:
        yield place


def edit(place: Workspace, name: str, text: str = "mine = 1\n") -> None:
    with (place.lessons / name).open("a") as file:
        file.write(text)


def half_way(place: Workspace) -> None:
    """One lesson is done, one was judged before its last change, one was never judged."""
    edit(place, "placeholders.py")
    progress.remember(DONE, progress.key_of("placeholders"))
    progress.remember(RED, "another key")
    edit(place, f"{LESSON}.py")
    edit(place, "create_arg.py")


def everything_done(place: Workspace) -> None:
    for row in overview.standings():
        edit(place, f"{row.lesson.name}.py")
        verdict = Verdict(row.lesson.name, DONE.reports, DONE.ending, DONE.planned)
        progress.remember(verdict, progress.key_of(row.lesson.name))


def reset_once(place: Workspace) -> None:
    edit(place, f"{LESSON}.py")
    play("reset", LESSON)


def nothing(place: Workspace) -> None:
    """The learner has just begun."""


SCENES: dict[str, tuple[Callable[[Workspace], None], list[str]]] = {
    "overview_at_first": (nothing, []),
    "overview_half_way": (half_way, []),
    "overview_at_the_end": (everything_done, []),
    "check": (nothing, ["check"]),
    "hint": (nothing, ["hint", LESSON]),
    "reset": (lambda place: edit(place, f"{LESSON}.py"), ["reset", LESSON]),
    "reset_of_a_stub": (nothing, ["reset", LESSON]),
    "reset_undo": (reset_once, ["reset", LESSON, "--undo"]),
    "reset_undo_of_nothing": (nothing, ["reset", LESSON, "--undo"]),
    "solution_before_a_pass": (nothing, ["solution", LESSON]),
}


@pytest.mark.parametrize("terminal_of", TERMINALS)
@pytest.mark.parametrize("scene", SCENES)
def test_the_screen_is_the_golden_one(
    scene: str, terminal_of: str, learner: Workspace, monkeypatch
):
    monkeypatch.setenv("COLUMNS", str(TERMINALS[terminal_of]))
    prepare, words = SCENES[scene]
    prepare(learner)
    monkeypatch.setattr(terminal, "is_ascii_only", lambda: terminal_of == "ascii")
    seen = play(*words).screen
    golden = GOLDEN / f"{scene}.{terminal_of}.txt"
    if os.environ.get("GOLDEN") == "write":
        golden.write_text(seen, encoding="utf-8")
    assert seen == golden.read_text(encoding="utf-8")


def golden(terminal_of: str) -> list[Path]:
    return sorted(GOLDEN.glob(f"*.{terminal_of}.txt"))


@pytest.mark.parametrize("terminal_of", TERMINALS)
def test_there_is_a_screen_for_each_scene_and_none_besides(terminal_of: str):
    assert [path.name.split(".")[0] for path in golden(terminal_of)] == sorted(SCENES)


@pytest.mark.parametrize("path", golden("80"), ids=lambda path: path.name)
def test_a_screen_fits_80_columns(path: Path):
    assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 80


@pytest.mark.parametrize("path", golden("40"), ids=lambda path: path.name)
def test_on_40_columns_nothing_is_wider_but_what_cannot_be_broken(path: Path):
    wide = [line for line in path.read_text(encoding="utf-8").splitlines() if len(line) > 40]
    # A path, or a line of code that would no longer be one.
    assert all("/" in line or ": ..." in line for line in wide), wide


@pytest.mark.parametrize("path", golden("ascii"), ids=lambda path: path.name)
def test_an_ascii_screen_says_the_same_in_the_same_places(path: Path):
    ascii_lines = path.read_text(encoding="ascii").splitlines()
    lines = (
        path.with_name(path.name.replace("ascii", "80")).read_text(encoding="utf-8").splitlines()
    )
    assert [len(line) for line in ascii_lines] == [len(line) for line in lines]


@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene.startswith("overview")])
def test_where_you_are_fits_one_screen(scene: str):
    assert len((GOLDEN / f"{scene}.80.txt").read_text(encoding="utf-8").splitlines()) <= 30
