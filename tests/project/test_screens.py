"""What the terminal shows, to the letter, on 80 columns: ``screens.txt``.

A screen is there under its scene, after the files that it is about: ``scene/file``. After a wanted
change, rewrite the screens: ``GOLDEN=write pytest --impl full tests/project/test_screens.py``.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kata import progress
from kata.commands import check
from kata.paths import ROOT
from kata.progress import Workspace
from kata.terminal import clipped, harmless, open_console, show_prose
from kata.verdict import End, Ending, Report, Verdict
from lessons import COURSE
from tests.project.stage import play, python
from tests.suite.answers import judge_folder
from tests.suite.expect import WIDTH

SCREENS = Path(__file__).with_name("screens.txt")
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
    (report("a tensor becomes an attribute", "failed", text="KeyError: 1"),),
    Ending(
        End.TIME,
        "still running after 10 s, so it was stopped: infinite loop or deadlock?",
        during="a list of lists ends",
    ),
    planned=(3, 0),
)
DONE = Verdict("placeholders", (report("a"),), Ending(End.FINISHED), planned=(1, 0))
TODO = Verdict("inversion", (), Ending(End.FINISHED))


def edit(place: Workspace, name: str) -> None:
    with (place.lessons / name).open("a") as file:
        file.write("mine = 1\n")


def half_way(place: Workspace) -> None:
    """One lesson is done, one was judged before its last change, one was never judged."""
    edit(place, "placeholders.py")
    progress.remember(DONE, progress.hash_of("placeholders"))
    progress.remember(RED, "another hash")
    edit(place, f"{LESSON}.py")
    edit(place, "create_arg.py")


def nothing(place: Workspace) -> None:
    """The learner has just begun."""


SCENES: dict[str, tuple[Callable[[Workspace], None], list[str]]] = {
    "overview_half_way": (half_way, []),
    "check": (nothing, ["check"]),
    "reset": (lambda place: edit(place, f"{LESSON}.py"), ["reset", LESSON]),
    "reset_of_a_stub": (nothing, ["reset", LESSON]),
    "reset_undo_of_nothing": (nothing, ["reset", LESSON, "--undo"]),
    "solution_before_a_pass": (nothing, ["solution", LESSON]),
}


def golden() -> dict[str, str]:
    """The screens and their files, by name."""
    _, *parts = re.split(r"^#### (.+)\n", SCREENS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: f"{text.rstrip()}\n" for name, text in zip(parts[::2], parts[1::2], strict=True)}


def write_files(scene: str, folder: Path) -> None:
    """Write the files of a scene into a folder."""
    for name, text in golden().items():
        if name.startswith(f"{scene}/"):
            (folder / name.removeprefix(f"{scene}/")).write_text(text, encoding="utf-8")


def assert_golden(seen: str, scene: str) -> None:
    """Compare a screen with the golden one, or rewrite it."""
    if os.environ.get("GOLDEN") == "write":
        texts = {**golden(), scene: seen}.items()
        SCREENS.write_text("\n".join(f"#### {name}\n{text}" for name, text in texts), "utf-8")
    assert seen == golden()[scene]


@pytest.mark.parametrize("scene", SCENES)
def test_a_command_has_the_golden_screen_which_fits_the_terminal(scene: str, learner, monkeypatch):
    monkeypatch.setattr(check, "verdicts", lambda *asked: iter([RED, HUNG, DONE, TODO]))
    prepare, words = SCENES[scene]
    prepare(learner)
    seen = play(*words).screen
    assert_golden(seen, scene)
    assert max(map(len, seen.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "60")
    wide = [line for line in play(*words).screen.splitlines() if len(line) > 60]
    # A path, or a line of code that would no longer be one.
    assert all("/" in line or ": ..." in line for line in wide), wide


def test_at_the_end_the_overview_asks_for_the_stars(learner):
    for lesson in COURSE:
        edit(learner, f"{lesson.name}.py")
        verdict = Verdict(lesson.name, DONE.reports, DONE.ending, DONE.planned)
        progress.remember(verdict, progress.hash_of(lesson.name))
    *_, last = play().screen.split("\n\n")
    assert last.startswith("All lessons are done. `kata check --stretch` asks for what is left")


@pytest.mark.parametrize("outcome", ["failed", "todo"])
def test_a_done_lesson_has_one_line_about_its_stretch(outcome, learner, monkeypatch):
    lacking = report("a late module has a path", outcome, is_stretch=True, text=ANOTHER)
    verdict = Verdict(LESSON, (report("a"), lacking), Ending(End.FINISHED), planned=(1, 1))
    monkeypatch.setattr(check, "verdicts", lambda *asked: iter([verdict]))
    screen = play("check", LESSON).screen
    assert screen.splitlines()[-1].startswith(
        f"optional: `kata check {LESSON} --stretch`: a late module has a path"
    ), screen


# --- plain pytest: played on few tests, so that a screen stays as it is when the suite grows

PATH, ARG = "tests/test_path_of_module.py::test_", "tests/test_create_arg.py::test_"
RUNS = {
    "wrong_graph": [f"{ARG}a_trace_with_it_is_the_trace_of_torch[NestedContainers]"],
    "syntax_error": [f"{PATH}the_root_is_the_empty_string", f"{PATH}a_foreign_module_is_refused"],
}


@pytest.mark.parametrize("scene", RUNS)
def test_a_run_has_the_golden_screen(scene: str, lessons: Path, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    write_files(scene, lessons)
    verdict = judge_folder(lessons, *RUNS[scene])
    assert len(verdict.reports) == len(RUNS[scene])
    # Times differ from run to run.
    screen = re.sub(r" in \d+\.\d+s( \(.*\))?", " in N s", verdict.terminal)
    screen = re.sub(r"^=+ (.*?) =+$", r"=== \1 ===", screen, flags=re.MULTILINE)
    assert_golden(screen, scene)


# --- the terminal: lines that fit, in characters that it has


def test_control_characters_are_shown_not_obeyed_and_a_long_line_is_clipped():
    assert (clipped("abcdef", 4), clipped("ab", 4, fill="-")) == ("abc…", "ab--")
    assert harmless("a\x1b[2J\rb\tc\n") == "a\\x1b[2J\\rb\tc\n"


def test_prose_is_filled_and_code_keeps_its_lines():
    stream = io.StringIO()
    code = ["```python", "x =  1; y =  2; z =  3", "```"]
    text = "\n".join(["a paragraph of words", "", "1. an item of words", *code])
    show_prose(open_console(stream=stream, width=12), text)
    lines = ["a paragraph", "of words", "", "1. an item", "   of words", *code]
    assert stream.getvalue().splitlines() == lines


def test_a_terminal_that_lacks_a_character_stops_no_command():
    code = "from kata.terminal import open_console; open_console().print('a \\u2603')"
    done = python("-c", code, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.stdout == "a ?\n"


def test_a_reader_that_has_seen_enough_reads_no_error():
    command = f"{sys.executable} -m kata | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, check=True)
    assert done.stderr == b""
