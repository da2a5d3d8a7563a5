"""Tell how a run ended, from what it left behind: the first rule that knows it says so."""

from __future__ import annotations

import contextlib
import linecache
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from kata.judging.request import RunFiles
from kata.judging.sandbox import OUT_OF_MEMORY
from kata.verdict import CodeLine, End, Ending

# What is shown of the output of a run that could not be told apart from its beginning.
LAST_LINES, LAST_BYTES = 5, 2000
# pytest's exit codes: all passed, some failed, none were there to run.
THROUGH = (0, 1, 5)
INTERRUPTED = 2
SIGKILL = 9
FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)


@dataclass(frozen=True)
class Evidence:
    """What is known of a run that is over.

    Attributes:
        files: what it wrote.
        has_plan: whether it came so far as to know its tests.
        during: the sentence of the test that had begun.
        code: pytest's exit code, if it came to its end.
        exit_code: that of the process; below zero: a signal; ``None``: nobody was left to tell.
        is_stopped: whether we stopped it because nobody wants its result any more.
        overdue: why we stopped it, if it was because it took too long.
        log: the end of what the worker wrote.
    """

    files: RunFiles
    has_plan: bool
    during: str
    code: int | None
    exit_code: int | None
    is_stopped: bool
    overdue: str
    log: str

    def ended(self, how: End, sentence: str, *, place: bool = False) -> Ending:
        line = last_line(self.files) if place else None
        return Ending(how, sentence, self.during, line)


def ending_of(run: Evidence) -> Ending:
    """How a run that is over has ended."""
    endings = (rule(run) for rule in RULES)
    return next(ending for ending in endings if ending is not None)


def finished(run: Evidence) -> Ending | None:
    return Ending(End.FINISHED) if run.code in THROUGH else None


def stopped(run: Evidence) -> Ending | None:
    return run.ended(End.STOPPED, "stopped before its end") if run.is_stopped else None


def out_of_time(run: Evidence) -> Ending | None:
    return run.ended(End.TIME, run.overdue, place=True) if run.overdue else None


def interrupted(run: Evidence) -> Ending | None:
    if run.code != INTERRUPTED:
        return None
    sentence = "the code interrupted the tests (KeyboardInterrupt, or pytest.exit)"
    return run.ended(End.INTERRUPTED, sentence)


def broken(run: Evidence) -> Ending | None:
    """Pytest itself failed, or never came to the lesson."""
    if run.has_plan and run.code is None:
        return None
    said = output_tail(run) or run.log
    remedy = "`kata doctor` checks your setup and suggests fixes"
    return run.ended(End.BROKEN, f"the tests could not be run:\n{said}\n{remedy}")


def worker_killed(run: Evidence) -> Ending | None:
    if run.exit_code is not None:
        return None
    return run.ended(End.CRASHED, "the code killed the process that runs the tests")


def out_of_memory(run: Evidence) -> Ending | None:
    """It ends itself when it meets its limit; a kill that nobody of us sent is the system's."""
    sentences = {
        OUT_OF_MEMORY: "more memory was asked for than a run may have, so it was stopped",
        -SIGKILL: "the system killed it, most likely because it took too much memory",
    }
    sentence = sentences.get(run.exit_code or 0)
    return run.ended(End.MEMORY, sentence) if sentence else None


def crashed(run: Evidence) -> Ending | None:
    code = run.exit_code
    if code is None or code >= 0:
        return None
    name = f"signal {-code}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-code).name
    return run.ended(End.CRASHED, f"Python crashed ({name})", place=True)


def exited(run: Evidence) -> Ending | None:
    sentence = f"the code ended Python itself (os._exit, exit code {run.exit_code})"
    return run.ended(End.EXITED, sentence)


RULES = (
    finished,
    stopped,
    out_of_time,
    interrupted,
    broken,
    worker_killed,
    out_of_memory,
    crashed,
    exited,
)


def output_tail(run: Evidence) -> str:
    """The end of what the process wrote, however much that was."""
    file = run.files.output
    if not file.exists():
        return ""
    with file.open("rb") as output:
        output.seek(max(0, file.stat().st_size - LAST_BYTES))
        text = output.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-LAST_LINES:])


def last_line(files: RunFiles) -> CodeLine | None:
    """The judged code's innermost line in what faulthandler wrote, the running thread's first."""
    if not files.frames.exists():
        return None
    text = files.frames.read_text(encoding="utf-8", errors="replace")
    for thread in sorted(text.split("\n\n"), key=lambda part: not part.startswith("Current")):
        for frame in FRAME.finditer(thread):
            file = Path(frame["file"])
            if file.is_relative_to(files.lessons):
                source = linecache.getline(str(file), int(frame["line"])).strip()
                name = f"lessons/{file.relative_to(files.lessons).as_posix()}"
                return CodeLine(name, int(frame["line"]), frame["function"], source)
    return None
