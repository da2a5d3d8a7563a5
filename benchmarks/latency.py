"""How long a learner waits: from the save of a file to the watch's verdict, beside plain pytest.

``python -m benchmarks.latency [LESSON...]`` starts ``kata watch`` on a copy of the lessons, solved,
and saves a file of each lesson many times, alternately wrong and right. It times what the learner
waits for:

- a wrong file: until the first failing test is on the screen, with its explanation;
- a right file: until the core is green, and, a few times, until all tests are through.

After a lesson's first verdict nothing is saved for a while, as a learner reads it: in this time the
judge exports programs for the lesson's tests. From then on the next save comes as soon as the
verdict is there, and ends the run before. A plain, cold ``pytest`` runs the same tests on the same
file for comparison.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kata.lesson_names import NAMES, lesson_name
from kata.paths import CORES, ROOT

# Seconds from save to verdict, in 95 of 100 saves: the first failure, and the whole green core.
TARGETS = 1.0, 2.0
PATIENCE = 300.0
GREEN = ("done", "starred")
# Seconds without a save after a lesson's first verdict.
REST = 10.0
# How many times the stretch is waited for: for some lessons it takes a quarter of a minute.
TO_THE_END = 5


@dataclass
class Waits:
    """Seconds waited, save by save."""

    failure: list[float] = field(default_factory=list)
    core: list[float] = field(default_factory=list)
    everything: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """One lesson of the table."""

    lesson: str
    waits: Waits
    cold: float

    @property
    def is_met(self) -> bool:
        """Whether the verdicts on wrong and right files came in time, 95 of 100."""
        return p95(self.waits.failure) <= TARGETS[0] and p95(self.waits.core) <= TARGETS[1]


class Watch:
    """A watch that runs, and the lines that it has written, with the time of each."""

    def __init__(self, lessons: Path) -> None:
        command = [sys.executable, "-m", "kata", "watch", "--plain", "--lessons", str(lessons)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.lines: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put((time.monotonic(), line.rstrip()))

    def until(self, *starts: str) -> tuple[float, str]:
        """Wait for a line that begins with one of these; return when it came, and the line."""
        while True:
            try:
                moment, line = self.lines.get(timeout=PATIENCE)
            except queue.Empty:
                raise TimeoutError(f"the watch never wrote any of {starts}") from None
            if line.startswith(starts):
                return moment, line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait()


@dataclass(frozen=True)
class Edited:
    """The file of a lesson that is saved, alternately wrong and right."""

    lesson: str
    file: Path

    @classmethod
    def of(cls, lesson: str, lessons: Path) -> Edited:
        return cls(lesson, lessons / f"{lesson}.py")

    def save(self, text: str) -> float:
        """Save as careful editors do, and return when."""
        beside = self.file.with_name(f"{self.file.name}~")
        beside.write_text(text)
        beside.replace(self.file)
        return time.monotonic()


def timed(lesson: str, lessons: Path, watch: Watch, saves: int) -> Waits:
    """Save a lesson's file so many times, and time each verdict."""
    edited, waits = Edited.of(lesson, lessons), Waits()
    right = edited.file.read_text()
    wrong = right.replace("    return ", "    return None  # ")
    edited.save(f"{wrong}# first save\n")
    watch.until(f"-- {lesson}: ")
    time.sleep(REST)
    for number in range(saves):
        start = edited.save(f"{wrong}# save {number}\n")
        waits.failure.append(watch.until(f"-- {lesson}: ")[0] - start)
        start = edited.save(f"{right}# save {number}\n")
        waits.core.append(watch.until(f"done      {lesson}: the core is green")[0] - start)
        if number < TO_THE_END:
            through = tuple(f"{state:<10}{lesson} " for state in GREEN)
            waits.everything.append(watch.until(*through)[0] - start)
    return waits


def cold(lesson: str, lessons: Path) -> float:
    """Seconds that a plain pytest takes for the lesson's tests."""
    command = [sys.executable, "-m", "pytest", "-q", f"--lessons={lessons}"]
    start = time.monotonic()
    subprocess.run(
        [*command, f"tests/test_{lesson}.py"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True
    )
    return time.monotonic() - start


@contextmanager
def solved_lessons() -> Iterator[Path]:
    """A folder in which every lesson is the reference."""
    with tempfile.TemporaryDirectory() as folder:
        yield shutil.copytree(
            CORES, Path(folder, "lessons"), ignore=shutil.ignore_patterns("__pycache__", "stretch")
        )


def measured(names: tuple[str, ...], saves: int, colds: int) -> Iterator[Row]:
    with solved_lessons() as lessons, Watch(lessons) as watch:
        watch.until(*(f"{state:<10}" for state in (*GREEN, "red", "todo")))
        for lesson in names:
            waits = timed(lesson, lessons, watch, saves)
            times = [cold(lesson, lessons) for _ in range(colds)]
            yield Row(lesson, waits, statistics.median(times))


def p95(seconds: list[float]) -> float:
    """The value that 95 of 100 are not above: one that was measured, none between two."""
    return sorted(seconds)[-(-95 * len(seconds) // 100) - 1]


def p50(seconds: list[float]) -> float:
    return statistics.median(seconds)


HEAD = """\
| lesson | wrong: first failure | right: core | right: all tests | cold pytest | |
|---|---|---|---|---|---|"""


def table_row(row: Row) -> str:
    waits = (row.waits.failure, row.waits.core, row.waits.everything)
    pairs = [f"{p50(seconds):.2f} / {p95(seconds):.2f}" for seconds in waits[:2]]
    pairs.append(f"{p50(waits[2]):.2f}")
    cells = (row.lesson, *pairs, f"{row.cold:.1f}", "" if row.is_met else "**too slow**")
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Measure and print the table; the exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(description="Time save to verdict, beside a plain pytest.")
    parser.add_argument("lesson", nargs="*", type=lesson_name, help="default: all")
    parser.add_argument("--saves", type=int, default=30, help="of each kind, each lesson")
    parser.add_argument("--colds", type=int, default=3, help="runs of plain pytest")
    arguments = parser.parse_args()
    load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    print(f"Seconds, p50 / p95 of {arguments.saves} saves; all tests: p50 of {TO_THE_END};")
    print(f"{os.cpu_count()} cores, {load}. Wanted: {TARGETS[0]} and {TARGETS[1]}.\n")
    print(HEAD)
    rows = []
    for row in measured(tuple(arguments.lesson) or NAMES, arguments.saves, arguments.colds):
        rows.append(row)
        print(table_row(row), flush=True)
    return int(not all(row.is_met for row in rows))


if __name__ == "__main__":
    sys.exit(main())
