"""Results for other tools: what they document is what they get."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from typing import Any

import pytest

from kata.commands import check
from kata.judging import End, Ending, Report, Verdict
from kata.paths import ROOT
from tools import results

# What the two tools document: a field's types, and whether it has to be there.
GRADESCOPE = {
    "score": (float, int),
    "execution_time": (int,),
    "output": (str,),
    "output_format": (str,),
    "test_output_format": (str,),
    "test_name_format": (str,),
    "visibility": (str,),
    "stdout_visibility": (str,),
    "extra_data": (dict,),
    "tests": (list,),
    "leaderboard": (list,),
}
GRADESCOPE_TEST = {
    "score": (float, int),
    "max_score": (float, int),
    "status": (str,),
    "name": (str,),
    "name_format": (str,),
    "number": (str,),
    "output": (str,),
    "output_format": (str,),
    "tags": (list,),
    "visibility": (str,),
    "extra_data": (dict,),
}
CLASSROOM50 = {
    "schema": (str,),
    "classroom": (str,),
    "assignment": (str,),
    "submission": (str,),
    "commit": (str,),
    "release": (str,),
    "review": (str,),
    "datetime": (str,),
    "score": (int,),
    "max-score": (int,),
    "tests": (list,),
}
CLASSROOM50_TEST = {"test-name": (str,), "passed": (bool,), "score": (int,), "max-score": (int,)}
ENVIRONMENT = {
    "CLASSROOM": "fx",
    "ASSIGNMENT": "proxy",
    "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
    "COMMIT_URL": "https://example.org/commit/1",
    "RELEASE_URL": "https://example.org/release/1",
}


def verdict(*outcomes: str, how: End = End.FINISHED, stretch: str = "", more: int = 0) -> Verdict:
    reports = [
        Report(f"t::test_{number}", f"sentence {number}", outcome, is_stretch=False, text="why")
        for number, outcome in enumerate(outcomes)
    ]
    if stretch:
        reports.append(Report("t::test_s", "the stretch", stretch, is_stretch=True, text="stretch"))
    planned = (len(outcomes) + more, int(bool(stretch)))
    return Verdict("proxy", tuple(reports), Ending(how, "it hung"), planned=planned, seconds=1.4)


VERDICTS = {
    "stub": (Verdict("proxy", (), Ending(End.FINISHED)), 0, "not started"),
    "red": (verdict("passed", "failed", "todo"), 33, "sentence 1\nwhy"),
    "done": (verdict("passed", "passed", stretch="failed"), 100, "2 of 2"),
    "starred": (verdict("passed", stretch="passed"), 100, "1 of 1"),
    "skipped": (verdict("passed", "skipped"), 100, "1 of 2"),
    "hung": (verdict("passed", "passed", how=End.TIME, more=2), 50, "it hung"),
    "nearly": (verdict(*["passed"] * 999, "failed"), 99, "999 of 1000"),
}


def checked(*verdicts: Verdict) -> dict[str, Any]:
    """Return what ``kata check --json`` prints of these verdicts."""
    return json.loads(json.dumps(check.as_json(list(verdicts), stretch=False)))


def conforms(content: dict[str, Any], fields: dict[str, tuple[type, ...]]) -> bool:
    return all(type(value) in fields[name] for name, value in content.items())


@pytest.mark.parametrize("name", VERDICTS)
def test_gradescope_gets_what_it_documents(name: str):
    judged, points, words = VERDICTS[name]
    content = results.gradescope(checked(judged), {})
    (test,) = content["tests"]
    assert conforms(content, GRADESCOPE) and conforms(test, GRADESCOPE_TEST)
    assert (test["name"], test["score"], test["max_score"]) == ("proxy", points, 100)
    assert test["status"] == ("passed" if points == 100 else "failed")
    assert words in test["output"]


@pytest.mark.parametrize("name", VERDICTS)
def test_classroom_50_gets_what_it_documents(name: str):
    judged, points, _ = VERDICTS[name]
    content = results.classroom50(checked(judged, judged), ENVIRONMENT)
    first, second = content["tests"]
    assert set(content) == set(CLASSROOM50) and conforms(content, CLASSROOM50)
    # Further fields of a test are kept as they are.
    assert set(CLASSROOM50_TEST) <= set(first)
    assert conforms({key: first[key] for key in CLASSROOM50_TEST}, CLASSROOM50_TEST)
    assert (content["score"], content["max-score"]) == (2 * points, 200)
    assert first["passed"] == second["passed"] == (points == 100)
    assert content["review"] == ENVIRONMENT["COMMIT_URL"]
    assert datetime.strptime(content["datetime"], "%Y-%m-%dT%H:%M:%SZ")


def test_a_failure_of_the_stretch_is_not_told_as_one_of_the_core():
    judged, *_ = VERDICTS["done"]
    (test,) = results.gradescope(checked(judged), {})["tests"]
    assert "stretch" not in test["output"]


def converted(text: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.results", *words]
    bare = {name: text for name, text in os.environ.items() if name not in ENVIRONMENT}
    return subprocess.run(
        command, cwd=ROOT, input=text, env=bare | environment, capture_output=True, text=True
    )


def test_the_command_reads_verdicts_and_prints_results():
    text = json.dumps(checked(VERDICTS["red"][0]))
    assert json.loads(converted(text, "gradescope").stdout)["tests"][0]["score"] == 33
    assert json.loads(converted(text, "classroom50", **ENVIRONMENT).stdout)["score"] == 33


@pytest.mark.parametrize(
    ("text", "form", "words"),
    [
        ("", "gradescope", "isn't output of `kata check --json`"),
        ('{"schema": 2}', "gradescope", "schema 2 of `kata check --json` isn't known"),
        (json.dumps({"schema": 1, "lessons": []}), "classroom50", "'CLASSROOM' isn't set"),
        ("{}", "moodle", "invalid choice"),
    ],
)
def test_what_cannot_be_converted_is_refused(text: str, form: str, words: str):
    done = converted(text, form)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_the_page_gives_both_commands():
    page = (ROOT / "docs/grading.md").read_text(encoding="utf-8")
    assert all(f"tools.results {name}" in page for name in results.FORMATS)
    assert results.SCHEMA == check.SCHEMA
