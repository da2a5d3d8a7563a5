"""The warm process: it imports torch and the suite once, then runs tests when the judge says so.

``python -m kata.worker [--once]``, started in a judge's copy of the suite, reads an order per line
and answers with a line per event. Each order runs in a forked child; with ``--once``, the process
carries out one order itself, and ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import io
import itertools
import json
import os
import pdb
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

import pytest

from kata.judge import FILE_BYTES, OUT_OF_MEMORY, kill_group
from kata.paths import suites

try:
    import resource
except ImportError:  # Windows has none: there, only time is limited.
    resource = None  # type: ignore[assignment]

# What a run needs of pytest; the rest costs time, or would answer in its place.
OPTIONS = ("-q", "--impl=lessons", "--assert=plain", "--rootdir=.", "-c", "pyproject.toml")
SWITCHED_OFF = ("benchmark", "debugging", "faulthandler", "xdist")
# Hundreds of modules that torch imports at the first export, which would be in each run.
NEEDED_LATER = ("torch.export._trace",)
PAUSE = 0.005
NOTHING = object()


def main() -> None:
    """Warm up, say so, and serve until the judge closes the line."""
    orders, events = (
        os.fdopen(os.dup(0), "rb", buffering=0),
        os.fdopen(os.dup(1), "wb", buffering=0),
    )
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # no print of the lessons gets between
        os.dup2(nothing, stream)
    preparations = warm_up()
    tell(events, is_ready=True)
    if "--once" not in sys.argv:
        serve(orders, events, preparations)
    elif order := orders.readline():
        tell(events, pid=os.getpid())
        carry_out(json.loads(order))


def tell(events: IO[bytes], **content: object) -> None:
    events.write(json.dumps(content).encode() + b"\n")


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


def serve(orders: IO[bytes], events: IO[bytes], preparations: Preparations) -> None:
    """Fork a child per order, and tell how it ended; between the runs, prepare for the next one."""
    child = 0
    try:
        while True:
            pause = PAUSE if child else 0.0 if preparations.step() else None
            if select.select([orders], [], [], pause)[0]:
                order = json.loads(orders.readline() or b"null")
                if order is None:
                    return
                preparations.begin(order["lesson"])
                child = fork(order, orders, events)
                tell(events, pid=child)
            if child and (ended := os.waitpid(child, os.WNOHANG))[0]:
                kill_group(child)  # what it has started
                child = 0
                tell(events, code=os.waitstatus_to_exitcode(ended[1]))
    finally:
        if child:
            kill_group(child)


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
    """Run the tests of one order; the results are in the run's folder."""
    folder = Path(order["folder"])
    redirect(folder)
    if order["kernels"]:
        os.environ["KATA_KERNELS"] = order["kernels"]
    try:
        limit(order["memory"])
        with (folder / "frames.txt").open("wb") as frames:
            faulthandler.enable(frames)
            if hasattr(faulthandler, "register"):  # where it hangs, when the judge asks
                faulthandler.register(signal.SIGUSR1, file=frames)
            else:  # Windows: where it is, now and then
                faulthandler.dump_traceback_later(order["seconds"] / 4, repeat=True, file=frames)
            words = (f"--order={json.dumps(order)}", "-m", "not slow")
            run_pytest(*words, *suites(order["lesson"]), plugins=(MemoryGuard(),))
    except BaseException:
        traceback.print_exc()  # into the run's output, where the judge finds it


def redirect(folder: Path) -> None:
    """Turn the process's streams, its home and its temporary files to the run's folder."""
    home = folder / "home"
    home.mkdir()
    binary = getattr(os, "O_BINARY", 0)  # or else Windows writes each line end twice
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND | binary)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.environ.update(dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP"), str(home)))
    tempfile.tempdir = str(home)
    sys.breakpointhook = pdb.set_trace = without_terminal


def without_terminal(*_: object, **__: object) -> NoReturn:
    """Say at once what a debugger would find out when it reads its first command."""
    raise OSError("a debugger reads from stdin, and there is no terminal")


def limit(memory: int) -> None:
    """Limit this process, and all that it starts, to so many bytes more than it takes now."""
    if resource is None:
        return
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    mapped = Path("/proc/self/statm")  # Linux alone: torch maps gigabytes
    if mapped.exists():
        taken = int(mapped.read_text().split()[0]) * resource.getpagesize()
        lower(resource.RLIMIT_AS, taken + memory)


def lower(kind: int, value: int) -> None:
    """Lower a limit for good; one that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


class Preparations:
    """A pytest plugin that finds what a lesson's tests take long to make, and no lesson changes.

    A test module says so with a function ``prepare``: a generator that makes one thing per step,
    which the module then keeps. The process makes them between the runs of the lesson.
    """

    def __init__(self) -> None:
        self.steps: dict[str, Iterator[object]] = {}
        self.wanted: Iterator[object] = iter(())

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for module in {item.module for item in session.items if isinstance(item, pytest.Function)}:
            if hasattr(module, "prepare"):
                self.steps[module.__name__.rpartition("test_")[2]] = module.prepare()

    def begin(self, lesson: str) -> None:
        """Take up what a lesson's tests want. A run doesn't wait for it: it makes what it lacks."""
        self.wanted = itertools.chain(self.steps.pop(lesson, ()), self.wanted)

    def step(self) -> bool:
        """Make one thing for a lesson that was judged, and return whether there was any."""
        is_made = next(self.wanted, NOTHING) is not NOTHING
        if is_made:
            gc.freeze()  # the children's collector need not look at these objects
        return is_made


class MemoryGuard:
    """A pytest plugin that ends the run after the first test that runs out of memory.

    Taking all the memory takes seconds, and the other tests would do it again.
    """

    is_full = False

    def pytest_exception_interact(self, call: pytest.CallInfo[object]) -> None:
        self.is_full = call.excinfo is not None and call.excinfo.errisinstance(MemoryError)

    def pytest_runtest_logfinish(self) -> None:
        if self.is_full:
            os._exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main()
