"""What a run on somebody else's code is worth, what a hostile one doesn't get, and the report."""

from __future__ import annotations

import contextlib
import csv
import html
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from markupsafe import escape

from kata.grading.container import Container
from kata.grading.report import (
    EARLY,
    Failure,
    Grade,
    Person,
    State,
    Summary,
    grade_of,
    shortened,
    to_csv,
    to_html,
)
from kata.grading.session import Session
from kata.grading.submissions import find_submissions
from kata.paths import ROOT
from kata.verdict import Count, End
from lessons import NAMES
from tests.project.stage import a_learner, play, report, verdict
from tests.project.submissions import (
    DELEGATES,
    LOOPS_FOREVER,
    NAMES_THE_LAST,
    answer,
    hand_in,
    solved,
)

ONE = ("path_of_module",)
FILE = "path_of_module.py"


@pytest.mark.parametrize("how", [each for each in End if each not in (End.FINISHED, End.RUNNING)])
def test_a_run_that_was_cut_short_is_never_green_and_keeps_its_first_failure(how: End):
    assert grade_of(verdict("tracer", report("passed"), how=how)).state in EARLY
    grade = grade_of(verdict("tracer", report("failed", text="what came first"), how=how))
    assert grade.failure.text.endswith("what came first")


def test_a_very_long_text_is_cut():
    text = shortened("\x1b[31m" + "x" * 10**6 + "\n" * 1000)
    assert len(text) < 5000
    assert "\x1b" not in text


# --- all participants ---------------------------------------------------------------------------


SPAWNS = answer('return os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 600"], {})', "import os\n")


def states(session: Session) -> dict[str, str]:
    list(session.judge_all())
    return {person.name: person.grades[0].state for person in session.summary().people}


@pytest.mark.slow
def test_each_gets_what_it_earns_and_nothing_is_left_behind(tmp_path: Path, monkeypatch):
    handed_in = {
        "solved": solved(*ONE),
        "<b>=1[blink]": {FILE: NAMES_THE_LAST},
        "untouched": {},
        "endless": {FILE: LOOPS_FOREVER},
        "delegating": {FILE: DELEGATES},
        "spawning": {FILE: SPAWNS},
    }
    for name, files in handed_in.items():
        hand_in(tmp_path / "people", name, files)
    (tmp_path / "people" / "broken.zip").write_bytes(b"no archive")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    words = ["--lesson", *ONE, "--out", str(tmp_path / "out" / "week.html"), "--seconds", "2"]
    with a_learner(*ONE):
        played = play("grade", str(tmp_path / "people"), *words)
    assert played.code == 0, played.screen
    page = html.unescape((tmp_path / "out" / "week.html").read_text())
    assert dict(re.findall(r'<a href="#\d+">(.*?)</a>[^<]*</th>\s*<td class="(\w+)"', page)) == {
        "solved": "done",
        "<b>=1[blink]": "red",
        "untouched": "todo",
        "endless": "hung",
        "delegating": "done",  # and flagged
        "spawning": "red",
        "broken": "unreadable",
    }
    assert "unreadable: broken" in played.screen
    assert "look at delegating: path_of_module: torch's own" in played.screen
    assert "endless: path_of_module hung" in played.screen
    assert list((tmp_path / "tmp").iterdir()) == []


ENGINE = """#!{python}
import subprocess, sys
words = sys.argv[1:]
if words[0] == "image":
    sys.exit(0)
assert words[0] == "run" and "--network=none" in words and "--read-only" in words
mounts = dict(reversed(w[9:-3].split(":")) for w in words if w.startswith("--volume="))
inside = words[words.index("python") + 1 :]
inside = [mounts.get(word, word) for word in inside]
sys.exit(subprocess.call([sys.executable, *inside], cwd=mounts["/suite"]))
"""


@pytest.mark.slow
def test_a_container_judges_one_submission_with_the_suite_read_only(tmp_path: Path, monkeypatch):
    """The engine is a script that checks the words and runs the command without a container."""
    engine = tmp_path / "bin" / "podman"
    engine.parent.mkdir()
    engine.write_text(ENGINE.format(python=sys.executable))
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", str(engine.parent), prepend=os.pathsep)
    hand_in(tmp_path / "people", "ada", solved(*ONE))
    session = Session(find_submissions(tmp_path / "people"), ONE, container=Container())
    assert states(session) == {"ada": "done"}


def test_without_an_engine_the_container_is_refused_with_a_reason(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    hand_in(tmp_path / "people", "ada")
    with a_learner(*ONE):
        played = play("grade", str(tmp_path / "people"), "--container")
    assert (played.code, "needs podman or docker" in played.screen) == (1, True)


def test_what_is_known_is_written_though_the_grading_ends_early(tmp_path: Path, monkeypatch):
    for name in ("ada", "bob"):
        hand_in(tmp_path / "people", name, {FILE: f"x = '{name}'"})

    def interrupted(self, number, lessons, judging):
        if self.grades:
            raise KeyboardInterrupt
        return [Grade(*lessons, State.RED)]

    monkeypatch.setattr(Session, "grades_of", interrupted)
    words = ["--jobs", "1", "--lesson", *ONE]
    with a_learner(*ONE), pytest.raises(KeyboardInterrupt):
        play("grade", str(tmp_path / "people"), "--out", str(tmp_path / "week"), *words)
    cells = re.findall(r'<td class="(\w+)">', (tmp_path / "week").read_text())
    assert cells == ["red", "waiting"]


def test_an_error_of_one_run_is_that_grades_alone(tmp_path: Path, monkeypatch):
    hand_in(tmp_path, "ada", {FILE: "x = 1"})

    judge = mock.Mock(**{"run.side_effect": OSError("no space left")})
    monkeypatch.setattr("kata.grading.session.Judge", lambda: contextlib.nullcontext(judge))
    assert states(Session(find_submissions(tmp_path), ONE)) == {"ada": "not judged"}


# --- what a report says, whatever people are called

HOSTILE = "<script>alert(1)</script>\"'&"
FAILURE = Failure(f"a test {HOSTILE}", f"a cause {HOSTILE}", f"</pre>{HOSTILE}")


def a_report(*names: str) -> Summary:
    red = Grade("path_of_module", State.RED, Count(3, 21), Count(0, 5), FAILURE, (HOSTILE,))
    grades = tuple(red if each == red.lesson else Grade(each, State.TODO) for each in NAMES)
    people = tuple(Person(name, grades, (HOSTILE,), (HOSTILE,)) for name in names)
    return Summary(people, "2030-01-02T03:04:05+00:00", 12.0)


def test_each_state_is_described():
    pages = (ROOT / "docs" / f"{name}.md" for name in ("commands", "grading"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages).replace("`", "")
    assert all(f"| {state} | " in text for state in State)


def test_the_most_frequent_diagnosis_comes_first():
    summary = a_report("Ada", "Grace")
    assert summary.diagnoses("path_of_module") == [(FAILURE.diagnosis, 2)]
    assert summary.diagnoses("tracer") == []


def test_the_page_shows_hostile_text_as_text_and_asks_for_nothing_from_elsewhere():
    text = to_html(a_report(HOSTILE))
    assert text.count(escape(HOSTILE)) >= 6
    assert not re.search(r"<script|<img|<link|url\(|@import", text)
    assert "default-src 'none'" in text
    cells = re.findall(r'<td class="([\w-]+)">(.*?)</td>', text, re.DOTALL)
    assert len(cells) == len(NAMES)
    assert all(state in re.sub("<.*?>", "", content).split() for state, content in cells)
    assert set(re.findall(r'href="#([^"]*)"', text)) <= set(re.findall(r'id="([^"]*)"', text))


def test_a_table_for_a_spreadsheet_has_a_row_per_person_and_no_formula(tmp_path: Path):
    header, ada, formula = csv.reader(io.StringIO(to_csv(a_report("Ada", "=1+1"))))
    assert header == ["name", "done", *NAMES, "look at"]
    assert ada[:2] == ["Ada", "0"]
    assert set(ada[2:-1]) <= set(State)
    assert formula[0] == "'=1+1"
