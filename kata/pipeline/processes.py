"""All stages, from the process that starts them: it watches them, and ends them."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing import connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

from kata.pipeline.plan import PipelineError, Plan
from kata.pipeline.results import Result, collect
from kata.pipeline.worker import Failures, run_stage

PROCESSES = multiprocessing.get_context("spawn")
# How long a stage that was asked to end may take before it is killed.
GRACE = 2.0


def run_pipeline(
    plan: Plan, started: Callable[[int, int], None] = lambda stage, pid: None
) -> Result:
    """Run every stage in a process of its own, and put together what they give.

    Args:
        plan: what to run.
        started: is told the number and the process id of each stage.

    Returns:
        The output of the last stage, and the gradients of all.

    Raises:
        PipelineError: a stage died; the message says which, and of what. The others are ended, and
            no process is left.
    """
    with tempfile.TemporaryDirectory(prefix="pipeline-") as name:
        folder = Path(name).resolve()
        failures: Failures = PROCESSES.SimpleQueue()
        with running_stages(plan, folder, failures) as stages:
            for number, process in enumerate(stages):
                started(number, process.pid or 0)
            wait_for(stages, failures)
        return collect(plan, folder)


@contextlib.contextmanager
def running_stages(plan: Plan, folder: Path, failures: Failures) -> Iterator[list[SpawnProcess]]:
    """Start the processes, and leave none behind."""
    stages = [
        PROCESSES.Process(target=run_stage, args=(plan, stage, folder, failures), daemon=True)
        for stage in range(plan.stages)
    ]
    try:
        with deaf_to_interrupts():
            for process in stages:
                process.start()
        yield stages
    finally:
        end([process for process in stages if process.pid is not None])


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Let what is started here ignore Ctrl-C: this process hears it too, and ends the others."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end(stages: list[SpawnProcess]) -> None:
    """Ask the processes to end, and kill those that do not."""
    for process in stages:
        process.terminate()
    deadline = time.monotonic() + GRACE
    for process in stages:
        process.join(max(0.0, deadline - time.monotonic()))
        process.kill()
        process.join()


def wait_for(stages: list[SpawnProcess], failures: Failures) -> None:
    """Wait until all stages are done, or one of them is not going to be.

    Raises:
        PipelineError: with the first failure.
    """
    while running := [process for process in stages if process.exitcode is None]:
        # Asked after that list was made: what fails from here on wakes the wait.
        if any(has_failed(process) for process in stages):
            break
        connection.wait([process.sentinel for process in running])
    if any(has_failed(process) for process in stages):
        raise PipelineError(first_failure(stages, failures))


def has_failed(process: SpawnProcess) -> bool:
    return process.exitcode not in (None, 0)


def first_failure(stages: list[SpawnProcess], failures: Failures) -> str:
    """Tell the cause from what it led to: a stage killed from outside comes before any report."""
    for number, process in enumerate(stages):
        exit_code = process.exitcode or 0
        if exit_code < 0:
            name = signal.Signals(-exit_code).name
            return f"stage {number} was killed by {name}; the other stages were ended"
    if failures.empty():
        return "a stage ended without a word; the other stages were ended"
    number, text = failures.get()
    return f"stage {number} failed; the other stages were ended\n\n{text}"
