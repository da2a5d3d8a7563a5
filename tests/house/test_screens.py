"""What the terminal shows for each command, to the letter: ``tests/golden/commands/``.

Each scene is played in 80 columns, in 40, and where the terminal has ASCII alone. After a wanted
change, write the screens anew:
``GOLDEN=write pytest --impl solutions tests/house/test_screens.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kata import check, copies, doctor, hints, overview, results, terminal, update
from kata.health import Finding, State
from kata.judging import End, Ending, Report, Verdict
from kata.places import Place
from kata.stubs import ROOT
from tests.house.stage import a_learner, play

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
  lessons/path_of_module.py, line 4, in path_of_module
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
FOUND = [
    Finding("Python", State.OK, "3.11.7"),
    Finding("import torchvision", State.NOTE, "its operators don't load", "none is needed"),
    Finding(
        "torch and torchvision",
        State.PROBLEM,
        "torchvision 0.28.0 is made for torch ==2.13.0, and 2.4.1 is here",
        "pip install --constraint constraints.txt torch torchvision",
    ),
]


@pytest.fixture
def learner(monkeypatch) -> Iterator[Place]:
    """A learner whose surroundings are the same on every machine."""
    monkeypatch.setattr(hints, "PAGES", GOLDEN)
    monkeypatch.setattr(copies.time, "strftime", lambda form: "2026-01-31-120000")
    monkeypatch.setattr(check, "judged", lambda lessons, progress: iter([RED, HUNG, DONE, TODO]))
    monkeypatch.setattr(doctor, "findings", lambda: FOUND)
    with a_learner() as place:
        yield place


def edit(place: Place, name: str, text: str = "mine = 1\n") -> None:
    with (place.lessons / name).open("a") as file:
        file.write(text)


def half_way(place: Place) -> None:
    """One lesson is done, one was judged before its last change, one was never judged."""
    edit(place, "placeholders.py")
    results.remember(DONE, results.key_of("placeholders"))
    results.remember(RED, "another key")
    edit(place, f"{LESSON}.py")
    edit(place, "create_arg.py")


def everything_done(place: Place) -> None:
    for row in overview.standings():
        path = next(iter(copies.pristine(row.lesson.name)))
        edit(place, str(path))
        verdict = Verdict(row.lesson.name, DONE.reports, DONE.ending, DONE.planned)
        results.remember(verdict, results.key_of(row.lesson.name))


def reset_twice(place: Place) -> None:
    for text in ("mine = 1\n", "mine = 2\n"):
        edit(place, f"{LESSON}.py", text)
        play("reset", LESSON)


def an_older_stub(place: Place) -> None:
    """The stub had another first line; the learner has kept it, and changed it in one lesson."""
    for name, line in ((f"{LESSON}.py", '"""Before.'), ("create_arg.py", '"""My notes.')):
        today = (place.lessons / name).read_text().splitlines(keepends=True)
        (place.lessons / name).write_text("".join([f"{line}\n", *today[1:]]))
        update.write(place.memory / "stubs" / name, "".join(['"""Before.\n', *today[1:]]).encode())


def nothing(place: Place) -> None:
    """The learner has just begun."""


SCENES: dict[str, tuple[Callable[[Place], None], list[str]]] = {
    "overview_at_first": (nothing, []),
    "overview_half_way": (half_way, []),
    "overview_at_the_end": (everything_done, []),
    "list_half_way": (half_way, ["list"]),
    "check": (nothing, ["check"]),
    "hint": (nothing, ["hint", LESSON]),
    "hint_all": (nothing, ["hint", LESSON, "--all"]),
    "reset": (lambda place: edit(place, f"{LESSON}.py"), ["reset", LESSON]),
    "reset_of_a_stub": (nothing, ["reset", LESSON]),
    "restore": (reset_twice, ["restore", LESSON]),
    "restore_list": (reset_twice, ["restore", LESSON, "--list"]),
    "restore_of_nothing": (nothing, ["restore", LESSON]),
    "update": (an_older_stub, ["update"]),
    "update_of_nothing": (nothing, ["update"]),
    "solution_before_a_pass": (nothing, ["solution", LESSON]),
    "doctor": (nothing, ["doctor"]),
}


@pytest.mark.parametrize("terminal_of", TERMINALS)
@pytest.mark.parametrize("scene", SCENES)
def test_the_screen_is_the_golden_one(scene: str, terminal_of: str, learner: Place, monkeypatch):
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
    assert len((GOLDEN / f"{scene}.80.txt").read_text(encoding="utf-8").splitlines()) <= 24
