"""Judge a lesson: its tests run in a process of their own, and a verdict comes back.

    with Judge() as judge:
        verdict = judge.run(Request("tracer", sources))

The judge keeps one process warm, which has imported torch and the suite (``kata.worker``). With
fork, each run is a child of it. Without, a run takes the warm process itself, and the next one
warms up in the meantime. Orders and events are lines of JSON, both ways.

A run sees copies of the lessons and of the suite, its time and memory are limited, and what it did
until its end is known, however it ended. All of this protects against accidents.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from kata.paths import ROOT
from kata.verdict import End, Ending, Report, Verdict

GIGABYTE = 2**30
# What a run reads of the repository.
FOLDERS = ("given", "kata", "solutions", "tests")
FILES = ("conftest.py", "pyproject.toml", "lessons/__init__.py")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "project")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
# Settings that a shell may have for other runs of Python and pytest.
STRANGE = ("PYTEST_", "PYTHON")
TICK = 0.01
# How long a process has to end, and a run to write down where it is.
GRACE, LAST_WORDS = 2.0, 0.5
# A run that computes less than this part of the time is waiting, however busy the machine is.
WAITING = 0.02
# Nothing takes longer than this many times its limit.
ENOUGH = 20
# The largest file that a run may write; the exit code of a run that asked for too much memory.
FILE_BYTES, OUT_OF_MEMORY = 64 * 2**20, 12
# What is shown of the output of a run that couldn't begin.
LAST_LINES, LAST_BYTES = 5, 2000
# pytest's exit codes: all passed, some failed, there were none; and a run that was interrupted.
THROUGH, INTERRUPTED = (0, 1, 5), 2
EXIT = "the code interrupted the tests (pytest.exit?)"
KILLED = "the system killed it: most likely it took too much memory"
FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)


@dataclass(frozen=True)
class Request:
    """One run of one lesson's tests.

    Attributes:
        lesson: The lesson's name.
        sources: What the lessons' files hold, by lesson.
        yours: The siblings that are the learner's; the reference lends the others.
        step: The number of the step whose tests alone run; 0 for all of them.
        seconds: How long a test, or the import of the lesson, may compute or wait.
        total: How long the whole run may compute; ``None`` for as long as its tests do.
        memory: How many bytes the run may take beyond what torch takes.
        kernels: A folder for what it compiles, shared with other runs of the same person; ``None``
            for one of its own.
    """

    lesson: str
    sources: Mapping[str, bytes]
    yours: tuple[str, ...] = ()
    step: int = 0
    seconds: float = 10.0
    total: float | None = None
    memory: int = 4 * GIGABYTE
    kernels: Path | None = None


class Judge:
    """Runs the suite on lessons, one run at a time.

    It starts to warm up when it is made, and imports neither torch nor the lessons itself. Runs of
    one person may share its folder ``kernels`` for what they compile.
    """

    # On macOS, system libraries may crash in a forked child, and Windows has no fork.
    def __init__(self, *, fork: bool = sys.platform == "linux" and hasattr(os, "fork")) -> None:
        self.fork = fork
        self.temporary = tempfile.TemporaryDirectory(prefix="kata-", ignore_cleanup_errors=True)
        self.folder = Path(self.temporary.name).resolve()
        self.kernels = self.folder / "kernels"
        self.kernels.mkdir(mode=0o700)
        self.runs = 0
        self.warm_up()

    def warm_up(self) -> None:
        """Copy the suite, and start a process that imports it."""
        self.suite = Path(tempfile.mkdtemp(prefix="suite-", dir=self.folder))
        for folder in FOLDERS:
            shutil.copytree(ROOT / folder, self.suite / folder, ignore=LEFT_OUT)
        (self.suite / "lessons").mkdir()
        for file in FILES:
            shutil.copy(ROOT / file, self.suite / file)
        self.copied = signature(self.suite)
        self.process = WarmProcess(self.suite, self.folder / "worker.log", fork=self.fork)

    def start(self, request: Request) -> Run:
        """Begin a run."""
        if not self.process.is_alive or signature(self.suite) != self.copied:
            self.process.close()
            self.warm_up()
        self.runs += 1
        run = Run(request, self.folder / f"run-{self.runs}", self.process)
        if not self.fork:
            self.process = WarmProcess(self.suite, self.folder / "worker.log", fork=False)
        return run

    def run(self, request: Request) -> Verdict:
        """Run to the end."""
        return self.start(request).wait()

    def close(self) -> None:
        """End the process, and with it the run; remove the copies."""
        self.process.close()
        self.temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def signature(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """What changes when code writes a file of a folder, or removes one."""
    files = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    stats = {file: file.lstat() for file in files if file.suffix != ".pyc"}
    return {file: (each.st_ino, each.st_size, each.st_mtime_ns) for file, each in stats.items()}


class WarmProcess:
    """A process that has imported torch and the suite, or is about to, and waits for an order.

    Attributes:
        is_ready: Whether it has imported all.
        pid: The process of the run; ``None`` until that has begun.
        code: The exit code of the run; ``None`` until that has ended. Below zero: the signal.
    """

    def __init__(self, suite: Path, log: Path, *, fork: bool) -> None:
        self.fork = fork
        self.log = log
        self.is_ready = False
        self.pid: int | None = None
        self.code: int | None = None
        path = os.pathsep.join(filter(None, (str(suite), os.environ.get("PYTHONPATH"))))
        known = {name: each for name, each in os.environ.items() if not name.startswith(STRANGE)}
        # By default, hypothesis writes into the folder of the suite, which then counts as changed.
        known["HYPOTHESIS_STORAGE_DIRECTORY"] = str(log.with_name("hypothesis"))
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kata.worker", *["--once"] * (not fork)],
                cwd=suite,
                env={**dict.fromkeys(THREADS, "1"), **known, "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self) -> None:
        """Note what the process says until it ends."""
        assert self.process.stdout is not None
        with self.process.stdout as events:
            for line in events:
                vars(self).update(json.loads(line))
        if not self.fork and self.pid:
            self.code = self.process.wait()

    @property
    def is_alive(self) -> bool:
        # What is killed falls silent a moment before it is over.
        return self.listener.is_alive() and self.process.poll() is None

    def order(self, **content: object) -> None:
        """Ask for a run. If the process has just died, ``is_alive`` says so."""
        self.pid, self.code = None if self.fork else self.process.pid, None
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(content, default=str).encode() + b"\n")
            self.process.stdin.flush()

    def ask_for_frames(self) -> None:
        """Let the run write where it is. Only then: to look at a run that goes on can crash it."""
        if self.pid and self.code is None and hasattr(signal, "SIGUSR1"):
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGUSR1)

    def kill_run(self) -> None:
        """Kill the run with all that it started, if it goes on."""
        if self.pid and self.code is None:
            kill_group(self.pid)

    def close(self) -> None:
        """End it, and the run."""
        assert self.process.stdin is not None
        self.kill_run()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE if self.is_ready else 0)
        kill_group(self.process.pid)
        self.process.wait()
        self.listener.join(GRACE)


def kill_group(pid: int) -> None:
    """Kill a process with its group, or alone where there are no groups."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)


@dataclass
class Timer:
    """How long something may take: by the processor's clock, or by the one on the wall if it waits.

    Time that other programs take isn't counted, and an endless loop or a deadlock is stopped.
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


class Run:
    """A run: ``poll`` it now and then, which also keeps its time.

    It begins as soon as the process is warm, and writes what it finds to a file as it finds it.
    """

    def __init__(self, request: Request, folder: Path, process: WarmProcess) -> None:
        self.request = request
        self.folder = folder
        self.process = process
        self.is_sent = self.is_stopped = False
        self.overdue = ""
        self.position = 0
        self.begun = ""
        self.finished: int | None = None
        self.tests: list[dict[str, Any]] = []
        self.reports: dict[str, Report] = {}
        self.pieces: dict[str, tuple[str, ...]] = {}
        self.verdict: Verdict | None = None
        (folder / "lessons").mkdir(parents=True)
        for lesson, source in request.sources.items():
            (folder / f"lessons/{lesson}.py").write_bytes(source)

    def poll(self) -> Verdict | None:
        """Return the verdict, or ``None`` while the run goes on."""
        if self.verdict is None:
            self.send_when_ready()
            # The order counts: what was written before the end can be read after it.
            is_over = self.is_over
            self.listen()
            if is_over:
                self.verdict = self.verdict_so_far(self.ending())
                self.process.kill_run()
                if not self.process.fork:
                    self.process.close()
                shutil.rmtree(self.folder, ignore_errors=True)
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
    def is_over(self) -> bool:
        is_told = self.process.code is not None or not self.process.listener.is_alive()
        return is_told if self.is_sent else self.is_stopped or not self.process.is_alive

    def send_when_ready(self) -> None:
        if self.process.is_ready and not (self.is_sent or self.is_stopped):
            self.is_sent = True
            request = self.request
            known = {name: each for name, each in vars(request).items() if name != "sources"}
            self.process.order(folder=str(self.folder), **known)
            self.total_timer = self.timer(request.total or float("inf"))
            self.test_timer = self.timer(request.seconds)

    # --- what it says

    def listen(self) -> None:
        """Read the lines that are new and whole."""
        file = self.folder / "events.jsonl"
        if not file.exists():
            return
        with file.open("rb") as events:
            events.seek(self.position)
            whole, newline, _ = events.read().rpartition(b"\n")
        self.position += len(whole + newline)
        for line in whole.splitlines():
            # The judged code can write here too: only our own events count.
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                self.take(**json.loads(line))
        if whole:
            self.test_timer = self.timer(self.request.seconds)

    def take(self, event: str, **content: Any) -> None:
        """Note one event: see ``tests/suite/reporting.py``."""
        match event:
            case "plan":
                self.tests = content["tests"]
            case "pieces":
                self.pieces = {name: tuple(names) for name, names in content.items()}
            case "begin":
                self.begun = content["nodeid"]
            case "report":
                report = Report(**content)
                before = self.reports.get(report.nodeid)
                # One report per test: the first that says it isn't passed.
                if before is None or before.outcome == "passed":
                    self.reports[report.nodeid] = report
            case "finish":
                self.finished = content["code"]

    def verdict_so_far(self, ending: Ending | None = None) -> Verdict:
        stretch = sum(test["is_stretch"] for test in self.tests)
        return Verdict(
            lesson=self.request.lesson,
            reports=tuple(self.reports.values()),
            ending=ending or Ending(End.RUNNING),
            planned=(len(self.tests) - stretch, stretch),
            step=self.request.step,
            **self.pieces,
        )

    # --- its limits

    def timer(self, limit: float) -> Timer:
        return Timer(limit, computed_before=self.computed or 0.0)

    @property
    def computed(self) -> float | None:
        """The processor time that it has used; ``None`` where the system doesn't say."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return None
        # After the name, which may contain anything.
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def keep_time(self) -> None:
        """Stop a run that takes too long."""
        computed, seconds, total = self.computed, self.request.seconds, self.request.total
        if self.test_timer.is_over(computed):
            self.overdue = (
                f"still running after {seconds:g} s, so it was stopped: infinite loop or deadlock?"
            )
        elif self.total_timer.is_over(computed):
            self.overdue = f"all tests together took more than {total:g} s, so they were stopped"
        if self.overdue:
            self.process.ask_for_frames()
            deadline, seen = time.monotonic() + LAST_WORDS, ""
            while not (seen and seen == self.frames()) and time.monotonic() < deadline:
                seen = self.frames()
                time.sleep(TICK)
            self.kill()

    def kill(self) -> None:
        """Kill the run, and the process that should notice it if that doesn't."""
        deadline = time.monotonic() + GRACE
        while self.is_sent and not self.is_over and time.monotonic() < deadline:
            self.process.kill_run()
            time.sleep(TICK / 10)
        if self.is_sent and not self.is_over:
            self.process.process.kill()

    # --- how it ended

    def ending(self) -> Ending:
        """Return how it has ended: the first line of the table that holds says so."""
        code, output = self.process.code, self.folder / "output.txt"
        died = signal.strsignal(-code) or f"signal {-code}" if code and code < 0 else ""
        is_full = output.exists() and output.stat().st_size >= FILE_BYTES
        said = tail(output) or tail(self.process.log)
        could_not = f"the tests could not be run:\n{said}\n`kata doctor` checks your setup"
        is_whole = all(test["nodeid"] in self.reports for test in self.tests)
        is_through = self.finished in THROUGH
        table = (
            (is_through and is_whole, End.FINISHED, ""),
            (self.is_stopped, End.STOPPED, "stopped before its end"),
            (self.overdue, End.TIME, self.overdue),
            (is_full, End.CRASHED, "it printed more than a run may write"),
            (is_through or self.finished == INTERRUPTED, End.INTERRUPTED, EXIT),
            (self.finished is not None or not self.tests, End.BROKEN, could_not),
            (code is None, End.CRASHED, "the code killed the process that runs the tests"),
            (code == OUT_OF_MEMORY, End.MEMORY, "it asked for more memory than a run may have"),
            (code == -9, End.MEMORY, KILLED),
            (died, End.CRASHED, f"Python crashed: {died}"),
            (True, End.EXITED, f"the code ended Python itself (os._exit, exit code {code})"),
        )
        how, sentence = next((how, sentence) for holds, how, sentence in table if holds)
        if how is End.FINISHED:
            return Ending(how)
        place = self.place() if how in (End.TIME, End.CRASHED) else ""
        during = next((t["sentence"] for t in self.tests if t["nodeid"] == self.begun), "")
        # Before the first report, it may still have been the import that went wrong.
        if during and not (place or self.reports):
            during = f"the import of the lesson, or {during}"
        return Ending(how, sentence, during, place)

    def frames(self) -> str:
        """What faulthandler wrote last: where the code was, thread by thread."""
        file = self.folder / "frames.txt"
        text = file.read_text("utf-8", "replace") if file.exists() else ""
        return text.rpartition("Timeout (")[2]

    def place(self) -> str:
        """The judged code's innermost line, in the thread that began first or that crashed."""
        threads = [*reversed(self.frames().split("\n\n"))]
        threads.sort(key=lambda part: "Current thread" not in part)
        lessons = self.folder / "lessons"
        for frame in FRAME.finditer("\n\n".join(threads)):
            file, line = Path(frame["file"]), int(frame["line"])
            if file.is_relative_to(lessons):
                source = linecache.getline(str(file), line).strip()
                return f"lessons/{file.name}:{line}, in {frame['function']}\n      {source}"
        return ""


def tail(file: Path) -> str:
    """The last lines of a file, however large that is."""
    if not file.exists():
        return ""
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - LAST_BYTES))
        return "\n".join(stream.read().decode(errors="replace").splitlines()[-LAST_LINES:])
