"""Grade a whole room: each touched lesson of each person is a run, two runs at a time."""

from __future__ import annotations

import platform
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from kata.grading.checking import Exam, Limits, new_word, request
from kata.grading.flags import flags_of
from kata.grading.report import Failure, Grade, Person, Report, Share, State
from kata.grading.submissions import GradingError, Submission, is_untouched, stage
from kata.judging import Judge, Verdict
from kata.stubs import ROOT, STUBS
from lessons import LESSONS

NAMES = tuple(lesson.name for lesson in LESSONS)
# The reference, and what else gives the answers away; the copies that a run sees are closed anyway.
ANSWERS = [ROOT / part for part in ("solutions", "tests/answers", "tests/oracle")]
Progress = Callable[[str], None]


@dataclass
class Room:
    """The people, the judges, and the exams of the lessons that somebody touched.

    Args:
        submissions: what was handed in.
        lessons: the names of the lessons to grade.
        limits: of each run.
        closed: folders that no run may read.
        jobs: how many runs at a time, each with a judge of its own: a run can't spoil another's.
    """

    submissions: list[Submission]
    lessons: tuple[str, ...] = NAMES
    limits: Limits = field(default_factory=Limits)
    closed: list[Path] = field(default_factory=list)
    jobs: int = 2

    def __post_init__(self) -> None:
        self.own = threading.local()
        self.judges: list[Judge] = []
        self.exams: dict[str, Exam] = {}

    @property
    def touched(self) -> list[tuple[int, str]]:
        """The runs to do: positions of submissions, and lessons; the long lessons first."""
        return [
            (number, lesson)
            for lesson in reversed(self.lessons)
            for number, submission in enumerate(self.submissions)
            if not is_untouched(submission, lesson)
        ]

    @property
    def papers(self) -> list[str]:
        """The lessons for which an exam is needed."""
        return list(dict.fromkeys(lesson for _, lesson in self.touched))

    def grade(self, progress: Progress = lambda done: None) -> Report:
        """Judge everybody; ``progress`` is called with a few words after each run."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kata-grade-") as folder:
            graded = self.graded(Path(folder), progress)
        people = tuple(
            self.person(number, submission, graded)
            for number, submission in enumerate(self.submissions)
        )
        return Report(
            people=people,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - began, 1),
            versions={"Python": platform.python_version(), "torch": version("torch")},
            limits=asdict(self.limits),
        )

    def graded(self, folder: Path, progress: Progress) -> dict[tuple[int, str], Grade]:
        for number, submission in enumerate(self.submissions):
            stage(submission, folder / str(number))
        pool = ThreadPoolExecutor(self.jobs, initializer=self.open_judge)
        try:
            for exam in pool.map(self.set_exam, self.papers):
                self.exams[exam.lesson] = exam
                progress(f"{exam.lesson}: its tests are known")
            runs = self.touched
            grades = {}
            results = pool.map(lambda run: self.sit(*run, folder / str(run[0])), runs)
            for run, grade in zip(runs, results, strict=True):
                grades[run] = grade
                progress(f"{self.submissions[run[0]].name}: {grade.lesson} {grade.state}")
            return grades
        finally:
            pool.shutdown(cancel_futures=True)
            for judge in self.judges:
                judge.close()

    def open_judge(self) -> None:
        self.own.judge = Judge()
        self.judges.append(self.own.judge)

    def run(self, lesson: str, folder: Path, word: str) -> Verdict:
        closed = [*self.closed, *ANSWERS]
        verdict: Verdict = self.own.judge.run(request(lesson, folder, self.limits, word, closed))
        return verdict

    def set_exam(self, lesson: str) -> Exam:
        """Learn the lesson's tests from a run on the instructor's own stubs."""
        with tempfile.TemporaryDirectory(prefix="kata-stubs-") as folder:
            stage(Submission("the stubs", {}), Path(folder))
            verdict = self.run(lesson, Path(folder), new_word())
        try:
            return Exam.of(verdict)
        except ValueError as error:
            raise GradingError(f"the tests cannot be graded with: {error}") from error

    def sit(self, number: int, lesson: str, folder: Path) -> Grade:
        """One person's run of one lesson; whatever goes wrong in it is this grade's alone."""
        word = new_word()
        try:
            return self.exams[lesson].grade(self.run(lesson, folder, word), word)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            return Grade(lesson, State.NOT_JUDGED, failure=Failure("", text, text))

    def person(
        self, number: int, submission: Submission, graded: dict[tuple[int, str], Grade]
    ) -> Person:
        grades = (
            graded.get((number, lesson)) or Grade(lesson, State.TODO, self.size_of(lesson))
            for lesson in self.lessons
        )
        flags = tuple(str(flag) for flag in flags_of(submission))
        return Person(submission.name, tuple(grades), flags, submission.notes)

    def size_of(self, lesson: str) -> Share:
        """The share of somebody who hasn't begun, where the number of tests is known."""
        exam = self.exams.get(lesson)
        return exam.share(set(), stretch=False) if exam else Share()


__all__ = ["STUBS", "Room"]
