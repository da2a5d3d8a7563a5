"""What a run on somebody else's code is worth, and what a hostile one doesn't get."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from kata.grading.checking import Exam, Limits, clipped, diagnosis
from kata.grading.report import Grade, Person, State
from kata.grading.room import NAMES, Room
from kata.grading.submissions import find_submissions
from kata.judging import End, Ending, Verdict
from kata.judging import Report as Said
from kata.stubs import ROOT
from tests.house.stage import a_learner, play
from tests.house.submissions import ENDLESS, a_room_of_thirty, hand_in, solved, wrong_answers
from tests.house.tampering import TAMPERING

ONE = ("path_of_module",)
FILE = "path_of_module.py"
SECONDS_FOR_THIRTY = 180
# A test beside this one may take the processor for a while.
PATIENT = Limits(seconds=30, total=300)


# --- what a run is worth ------------------------------------------------------------------------


def said(name: str, outcome: str, text: str = "", *, is_stretch: bool = False) -> Said:
    return Said(f"tests/test_path_of_module.py::test_{name}", name, outcome, is_stretch, text)


CONTROL = Said("tests/suite/controls.py::test_it", "it", "failed", True, "E   word")
EXAM = Exam(
    lesson="path_of_module",
    tests={each.nodeid: each for each in (said("a", "todo"), said("b", "todo", is_stretch=True))},
    skipped=frozenset({said("gpu", "skipped").nodeid}),
    controls=frozenset({CONTROL.nodeid}),
)
FINISHED = Ending(End.FINISHED)


def state_of(*reports: Said, ending: Ending = FINISHED) -> State:
    return EXAM.grade(Verdict("path_of_module", reports, ending), "word").state


def test_a_run_is_graded_by_its_tests():
    stretch = said("b", "failed", is_stretch=True)
    assert state_of(said("a", "passed"), said("b", "passed"), CONTROL) is State.STARRED
    assert state_of(said("a", "passed"), stretch, said("gpu", "skipped"), CONTROL) is State.DONE
    assert state_of(said("a", "failed"), said("b", "passed"), CONTROL) is State.RED
    assert state_of(said("a", "todo"), said("b", "passed"), CONTROL) is State.STARTED
    assert state_of(said("a", "todo"), said("b", "todo"), CONTROL) is State.TODO


def test_a_skipped_test_is_red_unless_the_stub_skips_it_too():
    assert state_of(said("a", "skipped"), said("b", "passed"), CONTROL) is State.RED


@pytest.mark.parametrize(
    "reports",
    [
        (said("a", "passed"), CONTROL),
        (said("a", "passed"), said("b", "passed")),
        (said("a", "passed"), said("b", "passed"), said("c", "passed"), CONTROL),
        (said("a", "passed"), said("b", "passed"), replace(CONTROL, outcome="passed")),
        (said("a", "passed"), said("b", "passed"), replace(CONTROL, text="no such thing")),
    ],
    ids=["a test missing", "no control", "a test too many", "it passed", "another word"],
)
def test_a_run_that_says_too_little_or_too_much_is_void(reports: tuple[Said, ...]):
    assert state_of(*reports) is State.VOID


@pytest.mark.parametrize("how", [each for each in End if each is not End.FINISHED])
def test_a_run_that_was_cut_short_is_never_green(how: End):
    state = state_of(said("a", "passed"), said("b", "passed"), CONTROL, ending=Ending(how, "why"))
    assert state in (State.HUNG, State.MEMORY, State.CRASHED, State.NOT_JUDGED)


def test_the_diagnosis_is_the_likely_cause_on_one_line():
    text = "got: 1\nlikely cause: the last name\n              overwrote the first\ntry:          x"
    assert diagnosis(text) == "the last name overwrote the first"
    assert diagnosis("NameError: x\n  lessons/tracer.py, line 3") == "NameError: x"


def test_an_endless_text_is_cut():
    text = clipped("\x1b[31m" + "x" * 10**6 + "\n" * 1000)
    assert len(text) < 5000
    assert "\x1b" not in text


# --- whole rooms --------------------------------------------------------------------------------


def attack(name: str) -> dict[str, str]:
    return {FILE: TAMPERING[name].replace("REPOSITORY", repr(str(ROOT)))}


@pytest.mark.slow
def test_each_gets_what_it_earns(tmp_path: Path):
    handed_in = {
        "solved": solved(*ONE),
        "<b>=1[blink]": wrong_answers(*ONE)["the_last_of_two_names_wins"],
        "untouched": {},
        "endless": {FILE: ENDLESS},
        "copying": {FILE: f"exec(open({str(tmp_path / 'room/solved/lessons' / FILE)!r}).read())"},
        "cribbing": attack("imports_solutions_by_name"),
        "meddling": attack("replaces_the_comparison_of_the_caller"),
    }
    for name, files in handed_in.items():
        hand_in(tmp_path / "room", name, files)
    words = [
        "--lesson",
        *ONE,
        "--out",
        str(tmp_path / "out" / "week"),
        "--seconds",
        "2",
        "--jobs",
        "1",
    ]
    with a_learner(*ONE):
        played = play("grade", str(tmp_path / "room"), *words)
    assert played.code == 0, played.screen
    report = json.loads((tmp_path / "out" / "week.json").read_text())
    assert {each["name"]: each["grades"][0]["state"] for each in report["people"]} == {
        "solved": "starred",
        "<b>=1[blink]": "red",
        "untouched": "todo",
        "endless": "hung",
        "copying": "red",
        "cribbing": "red",
        "meddling": "void",
    }
    mistake = next(each for each in report["people"] if each["name"] == "<b>=1[blink]")["grades"][0]
    assert "the last name overwrote the first" in mistake["failure"]["diagnosis"]
    assert (tmp_path / "out" / "week.html").exists()
    assert "7 people" in played.screen


@pytest.mark.slow
def test_no_tampering_makes_a_lesson_green(tmp_path: Path):
    for name in TAMPERING:
        hand_in(tmp_path, name, attack(name))
    report = Room(find_submissions(tmp_path), lessons=ONE, limits=PATIENT).grade()
    states = {person.name: person.grades[0].state for person in report.people}
    assert len(states) == len(TAMPERING)
    assert not {name for name, state in states.items() if state in (State.DONE, State.STARRED)}


@pytest.mark.slow
def test_a_wrong_answer_is_never_starred_and_never_void(tmp_path: Path):
    for lesson in NAMES:
        for name, files in list(wrong_answers(lesson).items())[:2]:
            hand_in(tmp_path, f"{lesson} {name}", files)
    report = Room(find_submissions(tmp_path), limits=PATIENT).grade()
    states = {person.name: grade_of(person).state for person in report.people}
    # A mistake in the stretch alone leaves the core green.
    assert set(states.values()) <= {State.RED, State.DONE}, states


def grade_of(person: Person) -> Grade:
    lesson = person.name.split()[0]
    return next(grade for grade in person.grades if grade.lesson == lesson)


@pytest.mark.slow
def test_thirty_people_are_graded_in_three_minutes_on_two_cores(tmp_path: Path):
    a_room_of_thirty(tmp_path)
    before = seconds_of_children()
    report = Room(find_submissions(tmp_path), limits=PATIENT).grade()
    # Of the processor, not of the clock: other tests may run beside this one.
    assert (seconds_of_children() - before) / 2 < SECONDS_FOR_THIRTY
    assert len(report.people) == 30
    assert all(person.count(State.VOID, State.NOT_JUDGED) == 0 for person in report.people)
    # One of them has solved all that there is.
    assert max(person.count(State.DONE, State.STARRED) for person in report.people) == len(NAMES)


def seconds_of_children() -> float:
    """The processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
