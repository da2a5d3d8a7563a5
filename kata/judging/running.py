"""A run in progress: it can be asked, stopped and waited for."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kata.judging.ending import ending_of, kill
from kata.judging.process import WorkerProcess
from kata.judging.request import Request
from kata.judging.run import Run
from kata.judging.verdict import End, Ending, Report, Verdict

TICK = 0.01
# How much longer than allowed a run may take before it is killed from outside: as a rule it ends
# itself, and writes down where it was.
GRACE = 2.0


@dataclass
class Heard:
    """What a run has written so far."""

    file: Path
    tests: list[dict[str, Any]] = field(default_factory=list)
    reports: dict[str, Report] = field(default_factory=dict)
    lent: tuple[str, ...] = ()
    running: str = ""
    code: int | None = None
    position: int = 0

    def listen(self) -> bool:
        """Read the lines that are new and whole; return whether there were any."""
        if not self.file.exists():
            return False
        with self.file.open("rb") as events:
            events.seek(self.position)
            whole, newline, _ = events.read().rpartition(b"\n")
        self.position += len(whole + newline)
        for line in whole.splitlines():
            # The judged code can write here too: what is no event of ours says nothing.
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                self.take(json.loads(line))
        return bool(whole)

    def take(self, content: dict[str, Any]) -> None:
        match content.pop("event"):
            case "plan":
                self.tests = content["tests"]
            case "lent":
                self.lent = tuple(content["pieces"])
            case "begin":
                self.running = content["nodeid"]
            case "report":
                self.enter(Report(**content))
            case "finish":
                self.code = content["code"]

    def enter(self, report: Report) -> None:
        """Keep one report a test: the first that says it isn't passed."""
        before = self.reports.get(report.nodeid)
        if before is None or before.outcome == "passed":
            self.reports[report.nodeid] = report

    @property
    def during(self) -> str:
        """The sentence of the test that has begun."""
        return next((t["sentence"] for t in self.tests if t["nodeid"] == self.running), "")

    @property
    def planned(self) -> tuple[int, int]:
        stretch = sum(test["is_stretch"] for test in self.tests)
        return len(self.tests) - stretch, stretch


class Running:
    """A run in progress.

    ``poll`` it now and then: that is what keeps its time. It begins as soon as the worker is warm.
    """

    def __init__(self, request: Request, run: Run, worker: WorkerProcess) -> None:
        self.request = request
        self.files = run
        self.name = str(run.folder)
        self.worker = worker
        self.heard = Heard(run.events)
        self.is_sent = False
        self.is_stopped = False
        self.is_overdue = False
        self.began = self.moved = time.monotonic()
        self.verdict: Verdict | None = None

    def poll(self) -> Verdict | None:
        """The verdict, or ``None`` while the run goes on."""
        if self.verdict is None:
            self.send_when_ready()
            # The order counts: what was written before the end is there to be heard after it.
            is_over = self.is_over
            self.listen()
            if is_over:
                self.verdict = self.settled()
            elif self.is_late:
                self.is_overdue = True
                self.kill()
        return self.verdict

    def wait(self) -> Verdict:
        """Wait for the verdict."""
        while (verdict := self.poll()) is None:
            time.sleep(TICK)
        return verdict

    def stop(self) -> Verdict:
        """Kill the run with all that it started; its verdict says what was known until then."""
        self.is_stopped = self.verdict is None
        self.kill()
        return self.wait()

    @property
    def so_far(self) -> Verdict:
        """What is known while the run goes on."""
        return self.verdict_with(Ending(End.RUNNING))

    def send_when_ready(self) -> None:
        if not self.is_sent and self.worker.is_ready and not self.is_stopped:
            self.is_sent = True
            self.began = self.moved = time.monotonic()
            self.worker.order(self.name, self.request.on(self.files.lessons).to_json())

    def listen(self) -> None:
        if self.heard.listen():
            self.moved = time.monotonic()

    @property
    def is_over(self) -> bool:
        if self.is_stopped and not self.is_sent:
            return True
        return self.name in self.worker.codes or self.worker.is_silent

    @property
    def is_late(self) -> bool:
        if not self.is_sent or self.is_overdue:
            return False
        now, total = time.monotonic(), self.request.total or float("inf")
        return now - self.moved > self.request.seconds + GRACE or now - self.began > total + GRACE

    @property
    def exit_code(self) -> int | None:
        """The exit code of its process; below zero: a signal; ``None``: nobody was left to tell."""
        return self.worker.codes.get(self.name)

    @property
    def seconds_so_far(self) -> float:
        return time.monotonic() - self.began

    def kill(self) -> None:
        while self.is_sent and not self.is_over and self.name not in self.worker.pids:
            time.sleep(TICK / 10)
        if self.is_sent and not self.is_over:
            kill(self.worker.pids[self.name])

    def settled(self) -> Verdict:
        if self.exit_code is None and self.name in self.worker.pids:
            kill(self.worker.pids[self.name])  # its worker died first
        verdict = self.verdict_with(ending_of(self))
        shutil.rmtree(self.files.folder, ignore_errors=True)
        return verdict

    def verdict_with(self, ending: Ending) -> Verdict:
        return Verdict(
            lesson=self.request.lesson,
            reports=tuple(self.heard.reports.values()),
            ending=ending,
            planned=self.heard.planned,
            lent=self.heard.lent,
            seconds=self.seconds_so_far,
        )
