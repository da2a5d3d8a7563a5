"""Without fork, as on Windows: lessons are judged, watched and graded all the same."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from kata.judge import Judge
from kata.paths import CORES, ROOT
from kata.verdict import End
from tests.project.stage import python, request
from tests.project.submissions import STARRED, answer, hand_in, solved
from tests.project.terminal import terminal

LESSON = "path_of_module"
NO_FORK = "import os\n\ndel os.fork, os.forkpty\n"
RED = answer("return 'somewhere'")
ENDS = answer("os._exit(0)", head="import os\n")


@pytest.fixture(scope="module")
def no_fork(tmp_path_factory) -> Iterator[None]:
    """Let no Python that is started from here have ``os.fork``."""
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(NO_FORK)
    with mock.patch.dict(os.environ, PYTHONPATH=str(site)):
        yield


@pytest.fixture(scope="module")
def judge(no_fork) -> Iterator[Judge]:
    with Judge(fork=False) as judge:
        yield judge


def test_a_run_is_a_process_of_its_own(judge: Judge, lessons: Path):
    for source, how, state in ((ENDS, End.EXITED, "red"), (STARRED, End.FINISHED, "starred")):
        (lessons / f"{LESSON}.py").write_text(source)
        verdict = judge.run(request(lessons, LESSON, seconds=60.0))
        assert (verdict.ending.how, verdict.state) == (how, state), verdict.ending


@pytest.mark.slow
@pytest.mark.parametrize("lesson", ["proxy", "tracer", "capture", "schedule"])
def test_a_core_is_done(judge: Judge, lesson: str):
    verdict = judge.run(request(CORES, lesson, seconds=120.0))
    assert verdict.is_finished, verdict.ending
    assert verdict.count(stretch=False).is_green, verdict.first_failure


@pytest.mark.slow
def test_a_watch_goes_from_red_to_green(no_fork, lessons: Path):
    command = [sys.executable, "-m", "kata", "watch", LESSON, "--lessons", str(lessons)]
    with terminal(command, ROOT) as watch:
        watch.until("todo", "Ctrl-C: quit")
        (lessons / f"{LESSON}.py").write_text(RED)
        watch.until("got:          'somewhere'", "red       path_of_module")
        (lessons / f"{LESSON}.py").write_text(STARRED)
        watch.until("starred   path_of_module")


@pytest.mark.slow
def test_submissions_are_graded(no_fork, tmp_path: Path):
    hand_in(tmp_path, "ada", solved(LESSON))
    hand_in(tmp_path, "grace", {f"{LESSON}.py": RED})
    done = python("-m", "kata", "grade", str(tmp_path), "--json", "--lesson", LESSON)
    people = json.loads(done.stdout)["people"]
    assert [each["grades"][0]["state"] for each in people] == ["done", "red"]
