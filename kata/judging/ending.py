"""What a run said, and how it ended, as far as what it left behind tells."""

from __future__ import annotations

import contextlib
import json
import linecache
import re
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kata.judging.request import RunFiles
from kata.judging.sandbox import FILE_BYTES, OUT_OF_MEMORY
from kata.verdict import CodeLine, End, Ending, Report

# What is shown of the output of a run that could not be told apart from its beginning.
LAST_LINES, LAST_BYTES = 5, 2000
# pytest's exit codes: all passed, some failed, none were there to run.
THROUGH = (0, 1, 5)
# And those of a run that was interrupted: `pytest.exit` may choose any.
EARLY = (*THROUGH, 2)
SIGKILL = 9
FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)


@dataclass
class EventLog:
    """What a run has written so far."""

    file: Path
    tests: list[dict[str, Any]] = field(default_factory=list)
    reports: dict[str, Report] = field(default_factory=dict)
    lent: tuple[str, ...] = ()
    borrowed: tuple[str, ...] = ()
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
            # The judged code can write here too: only our own events count.
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                self.take(json.loads(line))
        return bool(whole)

    def take(self, content: dict[str, Any]) -> None:
        match content.pop("event"):
            case "plan":
                self.tests = content["tests"]
            case "lent":
                self.lent = tuple(content["pieces"])
                self.borrowed = tuple(content.get("borrowed", ()))
            case "begin":
                self.running = content["nodeid"]
            case "report":
                self.enter(Report(**content))
            case "finish":
                self.code = content["code"]

    def enter(self, report: Report) -> None:
        """Keep one report per test: the first that says it isn't passed."""
        before = self.reports.get(report.nodeid)
        if before is None or before.outcome == "passed":
            self.reports[report.nodeid] = report

    @property
    def during(self) -> str:
        """The sentence of the test that has begun."""
        return next((t["sentence"] for t in self.tests if t["nodeid"] == self.running), "")

    @property
    def is_whole(self) -> bool:
        """Whether every test has a report."""
        return all(test["nodeid"] in self.reports for test in self.tests)

    @property
    def planned(self) -> tuple[int, int]:
        stretch = sum(test["is_stretch"] for test in self.tests)
        return len(self.tests) - stretch, stretch


def ending_of(
    log: EventLog,
    files: RunFiles,
    *,
    exit_code: int | None,
    is_stopped: bool,
    overdue: str,
    worker_log: str,
) -> Ending:
    """Return how a run that is over has ended: the first line of the table that holds says so.

    Args:
        log: What it wrote.
        files: Where.
        exit_code: That of its process; below zero: a signal; ``None``: no process could report it.
        is_stopped: Whether we stopped it because its result isn't wanted any more.
        overdue: Why we stopped it, if it was because it took too long.
        worker_log: The end of what the worker wrote.
    """
    code, said = exit_code, output_tail(files) or worker_log
    is_full = files.output.exists() and files.output.stat().st_size >= FILE_BYTES
    could_not = f"the tests could not be run:\n{said}\n`kata doctor` checks your setup"
    table = (
        (log.code in THROUGH and log.is_whole, End.FINISHED, ""),
        (is_stopped, End.STOPPED, "stopped before its end"),
        (overdue, End.TIME, overdue),
        (is_full, End.CRASHED, "it printed more than a run may write"),
        (log.code in EARLY, End.INTERRUPTED, "the code interrupted the tests (pytest.exit?)"),
        (log.code is not None or not log.tests, End.BROKEN, could_not),
        (code is None, End.CRASHED, "the code killed the process that runs the tests"),
        # A run that meets its limit ends itself; a kill that we didn't send is the system's.
        (code == OUT_OF_MEMORY, End.MEMORY, "it asked for more memory than a run may have"),
        (code == -SIGKILL, End.MEMORY, "the system killed it: most likely it took too much memory"),
        ((code or 0) < 0, End.CRASHED, f"Python crashed ({signal_name(-(code or 0))})"),
        (True, End.EXITED, f"the code ended Python itself (os._exit, exit code {code})"),
    )
    how, sentence = next((how, sentence) for holds, how, sentence in table if holds)
    if how is End.FINISHED:
        return Ending(how)
    place = last_line(files) if how in (End.TIME, End.CRASHED) else None
    # Before the first report, it may still have been the import that went wrong.
    is_clear = place or log.reports or not log.during
    during = log.during if is_clear else f"the import of the lesson, or {log.during}"
    return Ending(how, sentence, during, place)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def output_tail(files: RunFiles) -> str:
    """The end of what the process wrote, however much that was."""
    if not files.output.exists():
        return ""
    with files.output.open("rb") as output:
        output.seek(max(0, files.output.stat().st_size - LAST_BYTES))
        text = output.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-LAST_LINES:])


def last_line(files: RunFiles) -> CodeLine | None:
    """The judged code's innermost line in what faulthandler wrote, the running thread's first."""
    text = files.frames.read_text("utf-8", "replace") if files.frames.exists() else ""
    threads = sorted(text.split("\n\n"), key=lambda part: not part.startswith("Current"))
    frames = [frame.groupdict() for thread in threads for frame in FRAME.finditer(thread)]
    frames = [each for each in frames if Path(each["file"]).is_relative_to(files.lessons)]
    if not frames:
        return None
    file, line = Path(frames[0]["file"]), int(frames[0]["line"])
    name = f"lessons/{file.relative_to(files.lessons).as_posix()}"
    return CodeLine(name, line, frames[0]["function"], linecache.getline(str(file), line).strip())
