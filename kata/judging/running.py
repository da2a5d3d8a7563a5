"""A run in progress: it can be asked, stopped and waited for."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field, replace

from kata.judging.ending import EventLog, ending_of
from kata.judging.process import WorkerProcess, ask_for_frames, kill_group
from kata.judging.request import Request, RunFiles
from kata.judging.sandbox import seconds_computed
from kata.verdict import End, Ending, Verdict

TICK = 0.01
# How long a run has to write down where it is, and a worker to notice that a run is dead.
LAST_WORDS, GRACE = 0.1, 2.0
# On a busy machine a run computes for a small part of the time; one that computes less than this
# part is waiting for something that doesn't come.
WAITING = 0.02
# However busy the machine is: this many times its limit on the clock is enough.
ENOUGH = 20


@dataclass
class Timer:
    """How long something may take: by the processor's clock, or waiting by the one on the wall.

    So a busy machine stops no run, and neither a loop nor a lock goes on forever.
    """

    limit: float
    since: float = field(default_factory=time.monotonic)
    computed_before: float = 0.0

    def is_over(self, computed: float | None) -> bool:
        """Return whether the time is up for a process that has computed for so long in all."""
        waited = time.monotonic() - self.since
        if computed is None:
            return waited > self.limit
        computed -= self.computed_before
        is_waiting = waited > self.limit and computed < WAITING * waited
        return computed > self.limit or is_waiting or waited > ENOUGH * self.limit


class Running:
    """A run in progress.

    ``poll`` it now and then: that is what keeps its time. It begins as soon as the worker is warm.
    """

    def __init__(self, request: Request, files: RunFiles, worker: WorkerProcess) -> None:
        self.request = request
        self.files = files
        self.name = str(files.folder)
        self.worker = worker
        self.log = EventLog(files.events)
        self.is_sent = False
        self.is_stopped = False
        self.overdue = ""
        self.killed_at = float("inf")
        self.begin_timers()
        self.verdict: Verdict | None = None

    def begin_timers(self) -> None:
        warm_up = (self.worker.once and seconds_computed(self.worker.process.pid)) or 0.0
        self.test_timer = Timer(self.request.seconds, computed_before=warm_up)
        self.total_timer = Timer(self.request.total or float("inf"), computed_before=warm_up)

    def poll(self) -> Verdict | None:
        """The verdict, or ``None`` while the run goes on."""
        if self.verdict is None:
            self.send_when_ready()
            # The order counts: all output that was written before the end can be read after it.
            is_over = self.is_over
            self.listen()
            if is_over:
                self.verdict = self.concluded()
            elif self.is_sent:
                self.keep_time()
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
    def partial_verdict(self) -> Verdict:
        """What is known while the run goes on."""
        return self.verdict_with(Ending(End.RUNNING))

    def send_when_ready(self) -> None:
        if not self.is_sent and self.worker.is_ready and not self.is_stopped:
            self.is_sent = True
            self.begin_timers()
            request = replace(self.request, folder=self.files.lessons)
            self.worker.order(self.name, request.to_json())

    def listen(self) -> None:
        if self.log.listen():
            self.test_timer = Timer(self.request.seconds, computed_before=self.computed or 0.0)

    @property
    def computed(self) -> float | None:
        pid = self.worker.pids.get(self.name)
        return None if pid is None else seconds_computed(pid)

    def keep_time(self) -> None:
        """Stop a run that takes too long; it may have stopped the worker, which is killed then."""
        now = time.monotonic()
        if now - self.killed_at > GRACE:
            self.worker.process.kill()
        elif self.killed_at == float("inf"):
            computed = self.computed
            if self.test_timer.is_over(computed):
                limit = f"{self.request.seconds:g} s"
                self.stop_late(
                    f"still running after {limit}, so it was stopped: endless loop or wait?"
                )
            elif self.total_timer.is_over(computed):
                limit = f"{self.request.total:g} s"
                self.stop_late(f"all tests together took more than {limit}, so they were stopped")

    def stop_late(self, sentence: str) -> None:
        self.overdue = sentence
        if pid := self.worker.pids.get(self.name):
            ask_for_frames(pid)
            time.sleep(LAST_WORDS)
        self.kill()

    @property
    def is_over(self) -> bool:
        if self.is_stopped and not self.is_sent:
            return True
        return self.name in self.worker.codes or self.worker.is_silent

    def kill(self) -> None:
        deadline = time.monotonic() + GRACE
        while self.is_sent and not self.is_over and self.name not in self.worker.pids:
            time.sleep(TICK / 10)
            if time.monotonic() > deadline:
                break
        self.killed_at = min(self.killed_at, time.monotonic())
        if self.is_sent and not self.is_over and self.name in self.worker.pids:
            kill_group(self.worker.pids[self.name])

    def concluded(self) -> Verdict:
        exit_code = self.worker.codes.get(self.name)
        if exit_code is None and self.name in self.worker.pids:
            kill_group(self.worker.pids[self.name])  # its worker died first
        ending = ending_of(
            self.log,
            self.files,
            exit_code=exit_code,
            is_stopped=self.is_stopped,
            overdue=self.overdue,
            worker_log=self.worker.log_tail(),
        )
        verdict = self.verdict_with(ending)
        shutil.rmtree(self.files.folder, ignore_errors=True)
        return verdict

    def verdict_with(self, ending: Ending) -> Verdict:
        return Verdict(
            lesson=self.request.lesson,
            reports=tuple(self.log.reports.values()),
            ending=ending,
            planned=self.log.planned,
            lent=self.log.lent,
            borrowed=self.log.borrowed,
            step=self.request.step,
        )
