"""Tell how a run ended, from what it left behind: the first rule that knows it says so."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from kata.judging.frames import own_place
from kata.judging.limits import OUT_OF_MEMORY
from kata.judging.verdict import End, Ending, Place

if TYPE_CHECKING:
    from kata.judging.running import Running

LAST_LINES = 5
# pytest's exit codes: all passed, some failed, none were there to run.
THROUGH = (0, 1, 5)
INTERRUPTED = 2
SIGKILL = 9


def ending_of(running: Running) -> Ending:
    """How a run that is over has ended."""
    endings = (rule(running) for rule in RULES)
    return next(ending for ending in endings if ending is not None)


def finished(running: Running) -> Ending | None:
    return Ending(End.FINISHED) if running.heard.code in THROUGH else None


def stopped(running: Running) -> Ending | None:
    return ended(running, End.STOPPED, "stopped before its end") if running.is_stopped else None


def out_of_time(running: Running) -> Ending | None:
    if not running.is_overdue and not has_text(running.files.hang):
        return None
    request, place = running.request, place_in(running, running.files.hang)
    sentence = f"still running after {request.seconds:g} s, so it was stopped: an endless loop?"
    if request.total and running.seconds_so_far >= request.total:
        sentence = f"all tests together took more than {request.total:g} s, so they were stopped"
    return ended(running, End.TIME, sentence, place)


def interrupted(running: Running) -> Ending | None:
    if running.heard.code != INTERRUPTED:
        return None
    sentence = "the code interrupted the tests (KeyboardInterrupt, or pytest.exit)"
    return ended(running, End.INTERRUPTED, sentence)


def broken(running: Running) -> Ending | None:
    """Pytest itself failed, or never came to the lesson."""
    if running.heard.tests and running.heard.code is None:
        return None
    sentence = f"the tests could not be run:\n{last_words(running)}"
    return ended(running, End.BROKEN, sentence)


def worker_killed(running: Running) -> Ending | None:
    if running.exit_code is not None:
        return None
    return ended(running, End.CRASHED, "the code killed the process that runs the tests")


def out_of_memory(running: Running) -> Ending | None:
    """It ends itself when it meets its limit; a kill that nobody of us sent is the system's."""
    sentences = {
        OUT_OF_MEMORY: "more memory was asked for than a run may have, so it was stopped",
        -SIGKILL: "the system killed it, most likely because it took too much memory",
    }
    sentence = sentences.get(running.exit_code or 0)
    return ended(running, End.MEMORY, sentence) if sentence else None


def crashed(running: Running) -> Ending | None:
    code = running.exit_code
    if code is None or code >= 0:
        return None
    name = f"signal {-code}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-code).name
    place = place_in(running, running.files.crash)
    return ended(running, End.CRASHED, f"Python crashed ({name})", place)


def exited(running: Running) -> Ending | None:
    sentence = f"the code ended Python itself (os._exit, exit code {running.exit_code})"
    return ended(running, End.EXITED, sentence)


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


def ended(running: Running, how: End, sentence: str, place: Place | None = None) -> Ending:
    return Ending(how, sentence, running.heard.during, place)


def place_in(running: Running, dump: Path) -> Place | None:
    return own_place(dump, running.files.lessons)


def has_text(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def last_words(running: Running) -> str:
    """The end of what the process wrote, or the worker, if it didn't come so far."""
    output = running.files.output
    if not has_text(output):
        return running.worker.last_words()
    return "\n".join(output.read_text(errors="replace").splitlines()[-LAST_LINES:])


def kill(pid: int) -> None:
    """Kill a process with its group, or alone where there are no groups."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)
