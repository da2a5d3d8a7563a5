"""Grading a room: what is read, what a report says, and what a hostile submission doesn't get."""

from __future__ import annotations

import csv
import io
import json
import re
import time
import zipfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

import pytest

from kata.grading.checking import Exam, clipped, diagnosis
from kata.grading.flags import flags_of
from kata.grading.page import to_html
from kata.grading.report import (
    Failure,
    Grade,
    Person,
    Report,
    Share,
    State,
    to_csv,
    to_json,
)
from kata.grading.room import Room
from kata.grading.submissions import (
    NAMES,
    GradingError,
    Submission,
    find_submissions,
    is_untouched,
    read_submission,
    stage,
)
from kata.judging import End, Ending, Verdict
from kata.judging import Report as Said
from kata.stubs import ROOT, stubs
from tests.house.stage import a_learner, play
from tests.house.submissions import (
    ENDLESS,
    a_room_of_thirty,
    hand_in,
    solved,
    wrong_answers,
)
from tests.house.tampering import TAMPERING

ONE = ("path_of_module",)
FILE = "path_of_module.py"
SECONDS_FOR_THIRTY = 180


def write(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


# --- what is read -------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "lessons/", "ada/", "ada/lessons/", "fx-kata/lessons/"])
def test_lessons_are_found_where_people_put_them(place: str, tmp_path: Path):
    folder = write(tmp_path / "Ada", {f"{place}{FILE}": "mine", f"{place}split_module/x.py": "too"})
    assert read_submission(folder).files == {
        PurePosixPath(FILE): b"mine",
        PurePosixPath("split_module/x.py"): b"too",
    }


def test_of_a_whole_repository_the_lessons_are_read(tmp_path: Path):
    others = {f"{room}/{FILE}": room for room in ("solutions", "tests/oracle", "tests/answers")}
    folder = write(tmp_path / "Ada", {f"lessons/{FILE}": "mine", **others})
    assert read_submission(folder).files == {PurePosixPath(FILE): b"mine"}


def test_what_is_no_lesson_is_not_read(tmp_path: Path):
    own = ["tests/test_tracer.py", "conftest.py", "solutions/tracer.py", "sitecustomize.py"]
    strange = [
        *own,
        "pytest.ini",
        "lessons/conftest.py",
        "lessons/__init__.py",
        "lessons/_paths.py",
    ]
    folder = write(tmp_path / "Ada", {**dict.fromkeys(strange, "bad"), f"lessons/{FILE}": "mine"})
    submission = read_submission(folder)
    stage(submission, tmp_path / "staged")
    staged = {str(f.relative_to(tmp_path / "staged")) for f in (tmp_path / "staged").rglob("*.py")}
    assert staged == {str(path) for path in stubs()}
    assert (tmp_path / "staged" / FILE).read_text() == "mine"


def test_an_archive_is_read_like_a_folder(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "Ada.zip", "w") as archive:
        archive.writestr(f"lessons/{FILE}", "mine")
        archive.writestr("../../tracer.py", "bad")
        archive.writestr("/tracer.py", "bad")
    submission = read_submission(tmp_path / "Ada.zip")
    assert (submission.name, submission.files) == ("Ada", {PurePosixPath(FILE): b"mine"})


def test_a_broken_archive_is_said_to_be_one(tmp_path: Path):
    (tmp_path / "Ada.zip").write_bytes(b"no archive")
    assert "cannot be read" in read_submission(tmp_path / "Ada.zip").notes[0]


def test_a_link_is_left_out(tmp_path: Path):
    folder = write(tmp_path / "Ada", {"tracer.py": "mine"})
    (folder / FILE).symlink_to(ROOT / "solutions" / FILE)
    (folder / "inlining").symlink_to(ROOT / "solutions" / "inlining")
    submission = read_submission(folder)
    assert set(submission.files) == {PurePosixPath("tracer.py")}
    assert "it is a link" in submission.notes[0]


def test_a_huge_file_is_left_out(tmp_path: Path):
    folder = write(tmp_path / "Ada", {FILE: "#" * 600_000, "tracer.py": "mine"})
    submission = read_submission(folder)
    assert set(submission.files) == {PurePosixPath("tracer.py")}
    assert "larger than 512 KiB" in submission.notes[0]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_stub_is_untouched_whatever_its_line_ends(ends: str, tmp_path: Path):
    text = stubs()[Path(FILE)].replace("\n", ends)
    (tmp_path / "Ada").mkdir()
    (tmp_path / "Ada" / FILE).write_bytes(text.encode())
    submission = read_submission(tmp_path / "Ada")
    assert all(is_untouched(submission, lesson) for lesson in NAMES)


def test_one_byte_more_is_touched():
    text = stubs()[Path(FILE)] + " "
    submission = Submission("Ada", {PurePosixPath(FILE): text.encode()})
    assert [name for name in NAMES if not is_untouched(submission, name)] == ["path_of_module"]


def test_a_folder_without_submissions_is_refused(tmp_path: Path):
    with pytest.raises(GradingError, match="is empty"):
        find_submissions(tmp_path)
    with a_learner(*ONE):
        played = play("grade", str(tmp_path / "nowhere"))
    assert played.code == 1
    assert "is no folder" in " ".join(played.screen.split())


# --- what is flagged ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "import solutions",
        "from solutions.tracer import Tracer",
        "__import__('solutions')",
        "exec('import solutions.tracer')",
        "open('../solutions/tracer.py')",
        "from kata.stubs import SOLUTIONS",
        "from tests.suite import expect",
        "import _pytest.reports",
        "import gc",
        "e.__traceback__.tb_frame",
        "os._exit(0)",
    ],
)
def test_a_line_that_no_lesson_needs_is_flagged(line: str):
    flags = flags_of(Submission("Ada", {PurePosixPath(FILE): f"x = 1\n{line}\n".encode()}))
    assert flags
    assert str(flags[0]).startswith(f"lessons/{FILE}, line 2: ")


@pytest.mark.parametrize("room", ["lessons", "solutions"])
def test_honest_code_is_not_flagged(room: str):
    assert flags_of(read_submission(ROOT / room)) == []


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


# --- what a report says -------------------------------------------------------------------------

HOSTILE = "<script>alert(1)</script>\"'&"
FAILURE = Failure(f"a test {HOSTILE}", f"a cause {HOSTILE}", f"</pre>{HOSTILE}")


def a_report(*names: str) -> Report:
    red = Grade("path_of_module", State.RED, Share(3, 21), Share(0, 5), 1.5, FAILURE, (HOSTILE,))
    rest = tuple(Grade(name, State.TODO) for name in NAMES[1:])
    people = tuple(Person(name, (red, *rest), (HOSTILE,), (HOSTILE,)) for name in names)
    versions, limits = {"Python": "3", "torch": "2"}, {"seconds": 10.0, "total": 1, "memory": 4}
    return Report(people, "2030-01-02T03:04:05+00:00", 12.0, versions, limits)


def test_the_json_is_what_its_description_says():
    text = (ROOT / "docs" / "grading.md").read_text(encoding="utf-8")
    table = text.split("<!-- schema -->")[1].split("<!-- /schema -->")[0]
    described = set(re.findall(r"^\| `([\w.\[\]]+)` \|", table, re.MULTILINE))
    # What a name maps to isn't listed name by name.
    mappings = ("versions.", "limits.", "lessons[].states.")
    paths = {path for path in paths_in(json.loads(to_json(a_report("Ada"))))}
    assert {path for path in paths if not path.startswith(mappings)} == described


def paths_in(value: object, path: str = "") -> set[str]:
    """The path of each field in a JSON document."""
    below: set[str] = set()
    if isinstance(value, list):
        return below.union(
            *(paths_in(each, f"{path}[]") for each in value if isinstance(each, dict))
        )
    for key, inner in value.items() if isinstance(value, dict) else ():
        here = f"{path}.{key}" if path else key
        below |= {here} | paths_in(inner, here)
    return below


def test_each_state_is_described():
    text = (ROOT / "docs" / "grading.md").read_text(encoding="utf-8")
    assert all(f"| `{state}` | " in text for state in State)


def test_the_most_frequent_diagnosis_comes_first():
    report = a_report("Ada", "Grace")
    assert report.diagnoses("path_of_module") == [(FAILURE.diagnosis, 2)]
    assert report.diagnoses("tracer") == []


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\t=1", ' =HYPERLINK("http://x")'])
def test_no_cell_of_the_table_is_a_formula(name: str):
    rows = list(csv.reader(io.StringIO(to_csv(a_report(name)))))
    assert rows[1][0] == f"'{name}"
    assert len(rows[0]) == len(rows[1])


class Page(HTMLParser):
    """What a browser would make of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_page_shows_hostile_text_as_text():
    page = Page(to_html(a_report(HOSTILE)))
    assert page.all("script") == []
    assert sum(HOSTILE in words for words in page.words) >= 6
    assert not [attributes for _, attributes in page.tags if any(k[:2] == "on" for k in attributes)]


def test_the_page_asks_for_nothing_from_elsewhere():
    text = to_html(a_report("Ada"))
    page = Page(text)
    links = [each["href"] for each in page.all("a")]
    targets = {attributes.get("id") for _, attributes in page.tags}
    assert all(link and link[0] == "#" and link[1:] in targets for link in links)
    assert not {"img", "link", "script", "iframe", "object"} & {name for name, _ in page.tags}
    assert "url(" not in text and "@import" not in text
    assert "default-src 'none'" in text


def test_each_cell_of_the_map_says_its_state_in_words():
    text = to_html(a_report("Ada", "Grace"))
    cells = re.findall(r'<td class="([\w-]+)">(.*?)</td>', text, re.DOTALL)
    assert len(cells) == 2 * len(NAMES)
    assert all(state in re.sub("<.*?>", "", content).split() for state, content in cells)
    scopes = [each.get("scope") for each in Page(text).all("th")]
    assert scopes.count("col") == 1 + len(NAMES)
    assert scopes.count("row") == 2


# --- whole rooms --------------------------------------------------------------------------------


def attack(name: str) -> dict[str, str]:
    return {FILE: TAMPERING[name].replace("REPOSITORY", repr(str(ROOT)))}


def test_each_gets_what_it_earns(tmp_path: Path):
    handed_in = {
        "solved": solved(*ONE),
        "<b>=1[/]": wrong_answers(*ONE)["the_last_of_two_names_wins"],
        "untouched": {},
        "endless": {FILE: ENDLESS},
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
        "<b>=1[/]": "red",
        "untouched": "todo",
        "endless": "hung",
        "cribbing": "red",
        "meddling": "void",
    }
    mistake = next(each for each in report["people"] if each["name"] == "<b>=1[/]")["grades"][0]
    assert "the last name overwrote the first" in mistake["failure"]["diagnosis"]
    assert (tmp_path / "out" / "week.html").exists()
    assert "6 people" in played.screen


@pytest.mark.slow
def test_no_tampering_makes_a_lesson_green(tmp_path: Path):
    for name in TAMPERING:
        hand_in(tmp_path, name, attack(name))
    report = Room(find_submissions(tmp_path), lessons=ONE).grade()
    states = {person.name: person.grades[0].state for person in report.people}
    assert len(states) == len(TAMPERING)
    assert not {name for name, state in states.items() if state in (State.DONE, State.STARRED)}


@pytest.mark.slow
def test_a_wrong_answer_is_never_starred_and_never_void(tmp_path: Path):
    for lesson in NAMES:
        for name, files in list(wrong_answers(lesson).items())[:2]:
            hand_in(tmp_path, f"{lesson} {name}", files)
    report = Room(find_submissions(tmp_path)).grade()
    states = {person.name: grade_of(person).state for person in report.people}
    # A mistake in the stretch alone leaves the core green.
    assert set(states.values()) <= {State.RED, State.DONE}, states


def grade_of(person: Person) -> Grade:
    lesson = person.name.split()[0]
    return next(grade for grade in person.grades if grade.lesson == lesson)


@pytest.mark.slow
def test_thirty_people_are_graded_in_three_minutes(tmp_path: Path):
    a_room_of_thirty(tmp_path)
    began = time.monotonic()
    report = Room(find_submissions(tmp_path)).grade()
    assert time.monotonic() - began < SECONDS_FOR_THIRTY
    assert len(report.people) == 30
    assert all(person.count(State.VOID, State.NOT_JUDGED) == 0 for person in report.people)
