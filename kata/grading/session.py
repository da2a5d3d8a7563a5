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
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue

from kata.grading.container import Container
from kata.grading.flags import flags_of
from kata.grading.grades import grade_of, not_judged
from kata.grading.report import Grade, Limits, Person, State, Summary
from kata.grading.submissions import Submission, stage
from kata.judging import Judge, Request
from kata.naming import NAMES

# A submission, by its position, and those of its lessons that are judged in one go.
Work = tuple[int, tuple[str, ...]]
# Judges lessons of a folder that holds a folder of a person.
Judging = Callable[[Path, tuple[str, ...]], list[Grade]]
PERSON = "person"


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
        self.grades: dict[tuple[int, str], Grade] = {}
        self.flags = flags_of(submissions)

    @property
    def work(self) -> list[Work]:
        """What is judged: a lesson in each run, the long ones first, or a person in a container."""
        touched = [
            [
                lesson
                for lesson in self.lessons
                if not submission.is_untouched(lesson) and lesson not in submission.unreadable
            ]
            for submission in self.submissions
        ]
        if self.container:
            return [(number, tuple(lessons)) for number, lessons in enumerate(touched) if lessons]
        singles = [(number, (each,)) for number, lessons in enumerate(touched) for each in lessons]
        return sorted(singles, key=lambda work: NAMES.index(work[1][0]), reverse=True)

    def judge_everybody(self) -> Iterator[str]:
        """Judge all, and yield a few words after each lesson."""
        work = self.work
        with ExitStack() as stack:
            judging = self.judging(stack, min(self.jobs, len(work)))
            yield from self.judge(work, judging, self.jobs)
            hung = [run for run, grade in self.grades.items() if grade.state is State.HUNG]
            again = self.judge([(number, (each,)) for number, each in hung], judging, 1)
            yield from (f"{words} (once more, alone)" for words in again)

    def judging(self, stack: ExitStack, jobs: int) -> Judging:
        """How lessons are judged; what that needs is closed with the stack."""
        if self.container:
            return self.container.grades
        judges: SimpleQueue[Judge] = SimpleQueue()
        for _ in range(jobs):
            judges.put(stack.enter_context(Judge()))

        def in_processes(folder: Path, lessons: tuple[str, ...]) -> list[Grade]:
            judge = judges.get()
            try:
                requests = [request(lesson, folder, self.limits) for lesson in lessons]
                return [grade_of(judge.run(each)) for each in requests]
            finally:
                judges.put(judge)

        return in_processes

    def judge(self, work: list[Work], judging: Judging, jobs: int) -> Iterator[str]:
        """Judge so many at a time."""
        pool = ThreadPoolExecutor(jobs)
        try:
            pending = {pool.submit(self.grades_of, each, judging): each[0] for each in work}
            for done in as_completed(pending):
                number = pending[done]
                for grade in done.result():
                    self.grades[number, grade.lesson] = grade
                    yield f"{self.submissions[number].name}: {grade.lesson} {grade.state}"
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def grades_of(self, work: Work, judging: Judging) -> list[Grade]:
        """One person's grades of some lessons; whatever goes wrong here is these grades' alone."""
        number, lessons = work
        try:
            with tempfile.TemporaryDirectory(prefix="kata-grade-") as folder:
                stage(self.submissions[number], Path(folder, PERSON))
                return judging(Path(folder), lessons)
        except Exception as error:
            return [not_judged(lesson, error) for lesson in lessons]

    def summary(self) -> Summary:
        return Summary(
            people=tuple(map(self.person, range(len(self.submissions)))),
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - self.began, 1),
            versions={"Python": platform.python_version(), "torch": version("torch")},
            limits=asdict(self.limits),
        )

    def person(self, number: int) -> Person:
        submission = self.submissions[number]
        grades = tuple(self.grade_so_far(number, lesson) for lesson in self.lessons)
        borrowed = [f"{grade.lesson}: {each}" for grade in grades for each in grade.borrowed]
        return Person(submission.name, grades, (*borrowed, *self.flags[number]), submission.notes)

    def grade_so_far(self, number: int, lesson: str) -> Grade:
        """The grade, or why there is none; tests are counted where somebody ran them."""
        submission = self.submissions[number]
        state = State.TODO if submission.is_untouched(lesson) else State.WAITING
        if lesson in submission.unreadable:
            state = State.UNREADABLE
        return self.grades.get((number, lesson), Grade(lesson, state))


def request(lesson: str, folder: Path, limits: Limits) -> Request:
    """A run on somebody else's code: it may start no program."""
    return Request(
        lesson,
        folder / PERSON,
        seconds=limits.seconds,
        total=limits.total,
        memory=int(limits.memory * 2**30),
        may_execute=False,
    )
