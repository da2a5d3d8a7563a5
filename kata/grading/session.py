"""Grade everyone: each touched lesson of each person is a run of its own, several people at a time.

The lessons of one person are judged in the order of the course. A lesson whose core is green is
used by the later ones; otherwise the reference's is, so that each lesson is judged on its own
merit. Whatever one run does, the others go on, and what is known can be written at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from datetime import UTC, datetime
from queue import SimpleQueue

from kata.grading.container import Container
from kata.grading.report import TOTAL, Grade, Person, Summary, grade_of, not_judged
from kata.grading.submissions import Submission, flags_of
from kata.judge import Judge, Request
from kata.verdict import PASSED, State
from lessons import NAMES

# Judges some lessons of a submission.
Judging = Callable[[Submission, list[str]], list[Grade]]


class Session:
    """The people, and what is known of their lessons so far.

    Args:
        submissions: The submissions, one per participant.
        lessons: The names of the lessons to grade.
        seconds: How long a test may compute or wait.
        jobs: How many runs at a time, each with a judge of its own.
        container: How each submission is judged in a container; ``None`` for processes.
    """

    def __init__(
        self,
        submissions: list[Submission],
        lessons: tuple[str, ...] = NAMES,
        seconds: float = Request.seconds,
        jobs: int = 2,
        container: Container | None = None,
    ) -> None:
        self.submissions = submissions
        self.lessons = lessons
        self.seconds = seconds
        self.jobs = jobs
        self.container = container
        self.began = time.monotonic()
        self.grades: dict[tuple[int, str], Grade] = {}
        self.flags = flags_of(submissions)

    @property
    def work(self) -> dict[int, list[str]]:
        """What is judged: the touched lessons of each person, in the order of the course."""
        touched = {
            number: [lesson for lesson in self.lessons if submission.is_touched(lesson)]
            for number, submission in enumerate(self.submissions)
        }
        return {number: lessons for number, lessons in touched.items() if lessons}

    def judge_all(self) -> Iterator[str]:
        """Judge several people at a time, and yield a few words after each lesson."""
        work = self.work
        with ExitStack() as stack:
            judging = self.judging(stack, min(self.jobs, len(work)))
            pool = ThreadPoolExecutor(self.jobs)
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            pending = {
                pool.submit(self.grades_of, number, lessons, judging): number
                for number, lessons in work.items()
            }
            for done in as_completed(pending):
                number = pending[done]
                for grade in done.result():
                    self.grades[number, grade.lesson] = grade
                    yield f"{self.submissions[number].name}: {grade.lesson} {grade.state}"

    def judging(self, stack: ExitStack, jobs: int) -> Judging:
        """Return how lessons are judged; what that needs is closed with the stack."""
        if self.container:
            return self.container.grades
        judges: SimpleQueue[Judge] = SimpleQueue()
        for _ in range(jobs):
            judges.put(stack.enter_context(Judge()))

        def in_processes(submission: Submission, lessons: list[str]) -> list[Grade]:
            judge, grades = judges.get(), list[Grade]()
            try:
                for lesson in lessons:
                    green = tuple(each.lesson for each in grades if each.state in PASSED)
                    grades.append(grade_of(judge.run(self.request(submission, lesson, green))))
                return grades
            finally:
                judges.put(judge)

        return in_processes

    def request(self, submission: Submission, lesson: str, green: tuple[str, ...]) -> Request:
        sources = {name: submission.files[name] for name in (lesson, *green)}
        return Request(lesson, sources, green, seconds=self.seconds, total=TOTAL)

    def grades_of(self, number: int, lessons: list[str], judging: Judging) -> list[Grade]:
        """One person's grades of some lessons; an error here affects only these grades."""
        try:
            return judging(self.submissions[number], lessons)
        except Exception as error:
            return [not_judged(lesson, error) for lesson in lessons]

    def summary(self) -> Summary:
        people = tuple(map(self.person, range(len(self.submissions))))
        made = datetime.now(UTC).isoformat(timespec="seconds")
        return Summary(people, made, round(time.monotonic() - self.began, 1))

    def person(self, number: int) -> Person:
        submission = self.submissions[number]
        grades = tuple(self.grade_so_far(number, lesson) for lesson in self.lessons)
        borrowed = [f"{grade.lesson}: {each}" for grade in grades for each in grade.borrowed]
        return Person(submission.name, grades, (*borrowed, *self.flags[number]), submission.notes)

    def grade_so_far(self, number: int, lesson: str) -> Grade:
        """The grade, or why there is none; tests are counted where somebody ran them."""
        submission = self.submissions[number]
        state = State.WAITING if submission.is_touched(lesson) else State.TODO
        if lesson in submission.unreadable:
            state = State.UNREADABLE
        return self.grades.get((number, lesson), Grade(lesson, state))
