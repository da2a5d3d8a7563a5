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
import json
import os
import pdb
import select
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import IO, Any, NoReturn
from unittest.mock import patch

import pytest

from kata.judge import FILE_BYTES, OUT_OF_MEMORY, kill_group
from kata.paths import CORES, suites

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


def main() -> None:
    """Warm up, say so, and serve until the judge closes the line."""
    orders, events = (
        os.fdopen(os.dup(0), "rb", buffering=0),
        os.fdopen(os.dup(1), "wb", buffering=0),
    )
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # no print of the lessons gets between
        os.dup2(nothing, stream)
    # The kernels of a test are small: to optimise them takes longer than to run them as they are.
    os.environ["CFLAGS"] = os.environ.get("CFLAGS", "") + " -O0"
    warm_up()
    tell(events, is_ready=True)
    if "--once" not in sys.argv:
        serve(orders, events)
    elif order := orders.readline():
        tell(events, pid=os.getpid())
        carry_out(json.loads(order))


def tell(events: IO[bytes], **content: object) -> None:
    events.write(json.dumps(content).encode() + b"\n")


def warm_up() -> None:
    """Import all that a run imports, by collecting the suite, and keep it out of the collector."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = run_pytest("--collect-only")
    if code:
        sys.exit(f"the suite cannot be collected:\n{printed.getvalue()}")
    for name in NEEDED_LATER:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def run_pytest(*arguments: str, plugins: tuple[object, ...] = ()) -> int:
    off = [word for name in SWITCHED_OFF for word in ("-p", f"no:{name}")]
    return int(pytest.main([*OPTIONS, *off, *arguments], plugins=list(plugins)))


def serve(orders: IO[bytes], events: IO[bytes]) -> None:
    """Fork a child per order, and tell how it ended; between the runs, rehearse the next one."""
    child = 0
    rehearsal = Rehearsal(orders)
    try:
        while True:
            if not child:
                rehearsal.go_on()
            if select.select([orders], [], [], PAUSE if child else None)[0]:
                order = json.loads(orders.readline() or b"null")
                if order is None:
                    return
                rehearsal.order = order
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


class Rehearsal:
    """A pytest plugin that runs a lesson's tests on the reference, between the learner's runs.

    torch imports and caches much at the first call of each thing, and the tests keep what torch
    computed for them. What this process has done once, no child has to do again.

    Attributes:
        orders: Where the next order comes from. The rehearsal stops for it, after a test.
        order: The last order.
        done: The tests that have run.
        finished: The suites of which all tests have.
    """

    def __init__(self, orders: IO[bytes]) -> None:
        self.orders = orders
        self.order: dict[str, Any] = {}
        self.done: set[str] = set()
        self.finished: set[str] = set()

    def go_on(self) -> None:
        """Run the tests that haven't run yet, until there are none or an order comes."""
        core = CORES / f"{self.order.get('lesson')}.py"
        if not core.exists() or suites(core.stem)[0] in self.finished:
            return
        with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ):
            os.environ["KATA_KERNELS"] = self.order["kernels"] or folder
            Path(folder, "lessons").mkdir()
            shutil.copy(core, Path(folder, "lessons"))
            order = json.dumps({"folder": folder, "yours": (), "step": 0})
            run_pytest(f"--order={order}", "-m", "not slow", suites(core.stem)[0], plugins=(self,))
        gc.collect()
        gc.freeze()  # the children's collector need not look at these objects

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self.done]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, bool, bool]:
        result = yield
        self.done.add(item.nodeid)
        if nextitem is None:
            self.finished.add(item.nodeid.partition("::")[0])
        if select.select([self.orders], [], [], 0)[0]:
            item.session.shouldstop = "an order has come"
        return result


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
