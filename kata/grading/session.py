"""Grade everybody: each touched lesson of each person is a run of its own, some at a time.

Whatever one run does, the others go on, and what is known is there to be written at any moment. A
run that hung is done once more, alone, before it counts as hung.
"""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue

from kata.grading.container import Container
from kata.grading.flags import flags_of
from kata.grading.grades import grade_of, not_judged
from kata.grading.report import Grade, Limits, Person, State, Summary
from kata.grading.submissions import Submission, stage
from kata.judging import Judge, Request, Verdict
from kata.naming import NAMES

Run = tuple[int, str]
# Judges one lesson of a folder of lessons.
Judging = Callable[[str, Path], Verdict]


class Session:
    """The people, and what is known of their lessons so far.

    Args:
        submissions: what was handed in.
        lessons: the names of the lessons to grade.
        limits: of each run.
        jobs: how many runs at a time, each with a judge of its own.
        container: how each submission is judged in a container; ``None`` for processes.
    """

    def __init__(
        self,
        submissions: list[Submission],
        lessons: tuple[str, ...] = NAMES,
        limits: Limits | None = None,
        jobs: int = 2,
        container: Container | None = None,
    ) -> None:
        self.submissions = submissions
        self.lessons = lessons
        self.limits = limits or Limits()
        self.jobs = jobs
        self.container = container
        self.began = time.monotonic()
        self.grades: dict[Run, Grade] = {}
        self.flags = flags_of(submissions)

    @property
    def runs(self) -> list[Run]:
        """What is to be judged: positions of submissions, and lessons; the long lessons first."""
        return [
            (number, lesson)
            for lesson in reversed(self.lessons)
            for number, submission in enumerate(self.submissions)
            if not submission.is_untouched(lesson) and lesson not in submission.unreadable
        ]

    def judge_everybody(self) -> Iterator[str]:
        """Judge all, and yield a few words after each run."""
        if self.container:
            yield from self.judge_in_containers(self.container)
            return
        judges: SimpleQueue[Judge] = SimpleQueue()
        opened = [Judge() for _ in range(self.jobs if self.runs else 0)]
        for judge in opened:
            judges.put(judge)
        try:
            yield from self.judge(self.runs, partial(self.in_process, judges), self.jobs)
            yield from self.judge(self.hung(), partial(self.in_process, judges), 1)
        finally:
            for judge in opened:
                judge.close()

    def hung(self) -> list[Run]:
        return [run for run, grade in self.grades.items() if grade.state is State.HUNG]

    def judge(self, runs: list[Run], judging: Judging, jobs: int) -> Iterator[str]:
        """Judge these, so many at a time."""
        pool = ThreadPoolExecutor(jobs)
        try:
            pending = {pool.submit(self.grade, run, judging): run for run in runs}
            for done in as_completed(pending):
                run = pending[done]
                self.grades[run] = done.result()
                yield f"{self.submissions[run[0]].name}: {run[1]} {self.grades[run].state}"
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def grade(self, run: Run, judging: Judging) -> Grade:
        """One person's grade of one lesson; whatever goes wrong in it is this grade's alone."""
        number, lesson = run
        try:
            with tempfile.TemporaryDirectory(prefix="kata-grade-") as folder:
                stage(self.submissions[number], Path(folder))
                return grade_of(judging(lesson, Path(folder)))
        except Exception as error:
            return not_judged(lesson, error)

    def judge_in_containers(self, container: Container) -> Iterator[str]:
        """Judge each submission in a container of its own."""
        touched: dict[int, list[str]] = {}
        for number, lesson in self.runs:
            touched.setdefault(number, []).append(lesson)
        with ThreadPoolExecutor(self.jobs) as pool:
            pending = {
                pool.submit(container.grades, self.submissions[number], lessons): number
                for number, lessons in touched.items()
            }
            for done in as_completed(pending):
                number = pending[done]
                try:
                    grades = done.result()
                except Exception as error:
                    grades = [not_judged(lesson, error) for lesson in touched[number]]
                for grade in grades:
                    self.grades[number, grade.lesson] = grade
                    yield f"{self.submissions[number].name}: {grade.lesson} {grade.state}"

    def in_process(self, judges: SimpleQueue[Judge], lesson: str, folder: Path) -> Verdict:
        """Judge in a process of its own, behind the first judge that is free."""
        judge = judges.get()
        try:
            return judge.run(request(lesson, folder, self.limits))
        finally:
            judges.put(judge)

    def summary(self) -> Summary:
        """What is known by now."""
        return Summary(
            people=tuple(self.person(number) for number in range(len(self.submissions))),
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - self.began, 1),
            versions={"Python": platform.python_version(), "torch": version("torch")},
            limits=asdict(self.limits),
        )

    def person(self, number: int) -> Person:
        submission = self.submissions[number]
        grades = tuple(self.grade_so_far((number, lesson)) for lesson in self.lessons)
        borrowed = [f"{grade.lesson}: {each}" for grade in grades for each in grade.borrowed]
        flags = (*borrowed, *map(str, self.flags[number]))
        return Person(submission.name, grades, flags, submission.notes)

    def grade_so_far(self, run: Run) -> Grade:
        """The grade, or why there is none; tests are counted where somebody ran them."""
        if run in self.grades:
            return self.grades[run]
        number, lesson = run
        submission = self.submissions[number]
        if lesson in submission.unreadable:
            return Grade(lesson, State.UNREADABLE)
        return Grade(lesson, State.TODO if submission.is_untouched(lesson) else State.WAITING)


def request(lesson: str, folder: Path, limits: Limits) -> Request:
    """A run on somebody else's code: it may start no program."""
    return Request(
        lesson,
        folder,
        seconds=limits.seconds,
        total=limits.total,
        memory=int(limits.memory * 2**30),
        may_execute=False,
    )
