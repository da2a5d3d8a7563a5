"""Tell how a run ended, from what it left behind: the first rule that knows it says so."""

from __future__ import annotations

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


def ending_of(run: Evidence) -> Ending:
    """How a run that is over has ended: the first line of the table that holds says so."""
    code, said = run.exit_code, output_tail(run.files) or run.log
    could_not = f"the tests could not be run:\n{said}\n`kata doctor` checks your setup"
    table = (
        (run.code in THROUGH, End.FINISHED, ""),
        (run.is_stopped, End.STOPPED, "stopped before its end"),
        (run.overdue, End.TIME, run.overdue),
        (run.code == INTERRUPTED, End.INTERRUPTED, "the code interrupted the tests (pytest.exit?)"),
        (run.code is not None or not run.has_plan, End.BROKEN, could_not),
        (code is None, End.CRASHED, "the code killed the process that runs the tests"),
        # A run that meets its limit ends itself; a kill that nobody of us sent is the system's.
        (code == OUT_OF_MEMORY, End.MEMORY, "it asked for more memory than a run may have"),
        (code == -SIGKILL, End.MEMORY, "the system killed it: most likely it took too much memory"),
        ((code or 0) < 0, End.CRASHED, f"Python crashed ({signal_name(-(code or 0))})"),
        (True, End.EXITED, f"the code ended Python itself (os._exit, exit code {code})"),
    )
    how, sentence = next((how, sentence) for holds, how, sentence in table if holds)
    if how is End.FINISHED:
        return Ending(how)
    place = last_line(run.files) if how in (End.TIME, End.CRASHED) else None
    return Ending(how, sentence, run.during, place)


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
