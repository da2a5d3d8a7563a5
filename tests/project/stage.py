"""A stage for tests of the commands: a learner's folders of their own, and the words typed."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from kata import progress
from kata.command_line import run
from kata.judge import Request
from kata.paths import CORES, ROOT
from kata.progress import Workspace, write
from kata.stubs import stubs
from kata.verdict import End, Ending, Report, Verdict


class Played(NamedTuple):
    """What a command came to."""

    code: int
    screen: str


@contextlib.contextmanager
def a_learner(*lessons: str) -> Iterator[Workspace]:
    """Let the commands work on pristine stubs in a folder of their own.

    Args:
        lessons: Those whose stubs are there; of none, all are.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        progress.working_in(Path(folder, "lessons")) as place,
        mock.patch.dict(os.environ, COLUMNS="80"),
    ):
        os.environ.pop("FORCE_COLOR", None)  # no colours unless it is a terminal
        for name, text in pristine(lessons).items():
            write(place.lessons / name, text.encode())
        yield place


@cache
def pristine(lessons: tuple[str, ...] = ()) -> dict[str, str]:
    """The stubs of these lessons, or of all, by the names of their files."""
    own = {f"{lesson}.py" for lesson in lessons}
    return {name: text for name, text in stubs().items() if name in own or not lessons}


def solve(*lessons: str) -> None:
    """Let the learner have written these lessons: as the cores are."""
    for lesson in lessons:
        write(progress.file_of(lesson), (CORES / f"{lesson}.py").read_bytes())


def turn_green(*lessons: str) -> None:
    """Let the learner have written these lessons, and have seen that their cores are green."""
    solve(*lessons)
    for lesson in lessons:
        progress.remember(verdict(lesson, report("passed")), progress.hash_of(lesson))


def play(*words: str) -> Played:
    """Type a command; a word that argparse refuses ends it as it does on a terminal."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        try:
            code = run(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return Played(code, "\n".join(lines) + "\n")


def python(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run Python in the repository's root, in a process of its own."""
    options = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 300, **options}
    return subprocess.run([sys.executable, *words], **options)


def request(folder: Path, lesson: str, **limits: object) -> Request:
    """Return a run of a lesson in a folder, where all that is written is the learner's."""
    sources = progress.sources_in(folder)
    return Request(lesson, sources, progress.written(sources), **limits)


def report(outcome: str, text: str = "", *, is_stretch: bool = False) -> Report:
    """What a test said."""
    nodeid = f"tests/test_a.py::test_{outcome}"
    return Report(nodeid, "a sentence", outcome, is_stretch, text)


def verdict(lesson: str, *reports: Report, how: End = End.FINISHED, skip: int = 0) -> Verdict:
    """What a run said; of the core's tests, so many never began."""
    core, stretch = (sum(each.is_stretch == part for each in reports) for part in (False, True))
    return Verdict(lesson, reports, Ending(how, "why"), planned=(core + skip, stretch))


def everything_in(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder with its bytes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}
