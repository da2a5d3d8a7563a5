"""The process in which lessons are judged: it imports torch and the suite once, then waits.

``python -m kata.judging.worker [--once]``, started in a judge's copy of the suite, reads one order
per line and answers with one line per event. With fork each order runs in a child, and the worker
stays as it was. With ``--once`` it carries out one order itself, and ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import io
import json
import os
import pdb
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

import pytest

from kata.judging.process import kill_group
from kata.judging.request import Request, RunFiles
from kata.judging.sandbox import OUT_OF_MEMORY, adopt_orphans, children_of, confine, limit
from kata.paths import suites

# What a run needs of pytest; the rest costs time, or would answer in its place.
OPTIONS = ("-q", "--impl=lessons", "--assert=plain", "--rootdir=.", "-c", "pyproject.toml")
# Hundreds of modules that torch imports at the first export, which would be in each run.
NEEDED_LATER = ("torch.export._trace",)
SWITCHED_OFF = ("benchmark", "debugging", "faulthandler", "xdist")
NOTHING = object()


def main() -> None:
    """Warm up, say so, and serve until the judge closes the line."""
    orders, answers = lines_to_the_judge()
    preparations = warm_up()
    answer(answers, event="ready")
    if "--once" in sys.argv:
        serve_once(orders, answers)
    else:
        serve_by_fork(orders, answers, preparations)


def lines_to_the_judge() -> tuple[IO[bytes], IO[bytes]]:
    """Take the standard streams for orders and answers, so that no print gets between."""
    orders = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    return orders, answers


def answer(answers: IO[bytes], **content: object) -> None:
    answers.write(json.dumps(content).encode() + b"\n")


def warm_up() -> Preparations:
    """Import all that a run imports, by collecting the suite, and keep it out of the collector."""
    preparations = Preparations()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = run_pytest("--collect-only", plugins=(preparations,))
    if code:
        sys.exit(f"the suite cannot be collected:\n{printed.getvalue()}")
    for name in NEEDED_LATER:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    return preparations


def run_pytest(*arguments: str, plugins: tuple[object, ...] = ()) -> int:
    off = [word for name in SWITCHED_OFF for word in ("-p", f"no:{name}")]
    return int(pytest.main([*OPTIONS, *off, *arguments], plugins=list(plugins)))


def serve_once(orders: IO[bytes], answers: IO[bytes]) -> None:
    order = json.loads(orders.readline() or b"null")
    if order:
        answer(answers, event="started", run=order["run"], pid=os.getpid())
        carry_out(order)


def serve_by_fork(orders: IO[bytes], answers: IO[bytes], preparations: Preparations) -> None:
    """Fork a child per order, and tell how each ended; without a judge there are no children."""
    children: dict[int, str] = {}
    adopt_orphans()
    try:
        for line in lines_or_pauses(orders, children, preparations):
            if line:
                order = json.loads(line)
                preparations.begin(Request.from_json(order["request"]).lesson)
                pid = fork(order, orders, answers)
                children[pid] = order["run"]
                answer(answers, event="started", run=order["run"], pid=pid)
            for pid, code in ended(children):
                answer(answers, event="ended", run=children.pop(pid), code=code)
    finally:
        for pid in children:
            kill_group(pid)


def lines_or_pauses(
    orders: IO[bytes], children: dict[int, str], preparations: Preparations
) -> Iterator[bytes]:
    """Yield the judge's lines, and nothing now and then while children run; else prepare."""
    while True:
        has_more = not children and preparations.step()
        pause = 0.0 if has_more else 0.005 if children else None
        ready, _, _ = select.select([orders], [], [], pause)
        line = orders.readline() if ready else b""
        if ready and not line:
            return
        yield line


def ended(children: dict[int, str]) -> Iterator[tuple[int, int]]:
    """The children that ended since the last look, and their exit codes."""
    for pid in list(children):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            kill_group(pid)  # what it has started itself
            kill_orphans(children)
            yield pid, os.waitstatus_to_exitcode(status)


def kill_orphans(children: Iterable[int]) -> None:
    """Kill what a run left to this process, by whatever session it went away; then theirs."""
    while orphans := set(children_of(os.getpid())) - set(children):
        for pid in orphans:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def fork(order: dict[str, Any], *lines: IO[bytes]) -> int:
    """Carry out an order in a child, which leaves the lines to the judge alone."""
    pid = os.fork()
    # In parent and child: whichever runs first, the group exists when it is to be killed.
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    if pid:
        return pid
    try:
        for line in lines:
            line.close()
        carry_out(order)
    finally:
        os._exit(0)


def carry_out(order: dict[str, Any]) -> None:
    """Run the tests of one request; the results are in the run's folder."""
    run, request = RunFiles(Path(order["run"])), Request.from_json(order["request"])
    redirect(run)
    if request.kernels:
        os.environ["KATA_KERNELS"] = str(request.kernels)
    try:
        folders = filter(None, (run.folder, request.kernels))
        confine(*folders, may_execute=request.may_execute)
        limit(request.memory)
        with run.frames.open("wb") as frames:
            faulthandler.enable(frames)
            if hasattr(faulthandler, "register"):
                faulthandler.register(signal.SIGUSR1, frames)
            run_pytest(*arguments(run, request), plugins=(MemoryGuard(),))
    except BaseException:
        traceback.print_exc()  # into the run's output, where the judge finds it


def redirect(run: RunFiles) -> None:
    """Turn the process's streams, its home and its temporary files to the run's folder."""
    run.home.mkdir()
    binary = getattr(os, "O_BINARY", 0)  # or else Windows writes each line end twice
    output = os.open(run.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | binary)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.environ.update(dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP"), str(run.home)))
    tempfile.tempdir = str(run.home)
    sys.breakpointhook = pdb.set_trace = without_terminal


def without_terminal(*_: object, **__: object) -> NoReturn:
    """Say at once what a debugger would find out when it reads its first command."""
    raise OSError("a debugger reads from stdin, and there is no terminal")


def arguments(run: RunFiles, request: Request) -> list[str]:
    first = [f"--first={nodeid}" for nodeid in request.first]
    yours = [] if request.yours is None else [f"--yours={','.join(request.yours)}"]
    return [
        f"--lessons={run.lessons}",
        f"--reports={run.events}",
        f"--step={request.step}",
        "-m",
        request.marks,
        *yours,
        *first,
        *suites(request.lesson),
    ]


class Preparations:
    """A pytest plugin that finds what a lesson's tests take long to make, and no lesson changes.

    A test module says so with a function ``prepare``: a generator that makes one thing a step,
    which the module then keeps for itself. The worker makes them between the runs.

    Attributes:
        steps: What is left to make, by lesson.
        begun: The lessons that were judged: for these it is worth the time.
    """

    def __init__(self) -> None:
        self.steps: dict[str, Iterator[object]] = {}
        self.begun: set[str] = set()

    def pytest_collection_finish(self, session: Any) -> None:
        for module in {item.module for item in session.items if hasattr(item, "module")}:
            if hasattr(module, "prepare"):
                self.steps[module.__name__.rpartition("test_")[2]] = module.prepare()

    def begin(self, lesson: str) -> None:
        """Take up what a lesson's tests want. A run doesn't wait for it: it makes what it lacks."""
        self.begun.add(lesson)

    def step(self) -> bool:
        """Make one thing for a lesson that was judged, and return whether there was any."""
        return any(map(self.make, self.begun))

    def make(self, lesson: str) -> bool:
        made = next(self.steps.get(lesson, iter(())), NOTHING) is not NOTHING
        if made:
            gc.freeze()  # the children's collector need not look at these objects
        return made


class MemoryGuard:
    """A pytest plugin that ends the run after the first test that met the limit of memory.

    To take all memory that there is takes seconds, and the other tests would do it again.
    """

    def __init__(self) -> None:
        self.is_full = False

    def pytest_exception_interact(self, call: pytest.CallInfo[object]) -> None:
        self.is_full = call.excinfo is not None and call.excinfo.errisinstance(MemoryError)

    def pytest_runtest_logfinish(self) -> None:
        if self.is_full:
            os._exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main()
