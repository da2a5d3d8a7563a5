"""Unlike the core: an error names the stage that keeps the others waiting.

If a stage dies or hangs, the others wait for it, or lose their connection and fail as well. So each
process says what it does, and the one that started them all finds out which stage is the cause.
"""

from __future__ import annotations

import multiprocessing.connection
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import torch.distributed as dist
from torch import Tensor

from ...schedule import Action, Channel, Order, Schedule, Step, cut_batch, orders_for, together


@dataclass
class Worker:
    """A process that runs one stage, as the process that started it sees it.

    Attributes:
        stage: The stage's number.
        process: The process.
        line: Where the worker says what it does.
        doing: What it said last: ``("starts", "")``, ``("runs", "F0")``,
            ``("waits for", "F0 of stage 0")``, ``("failed", <the traceback>)``,
            ``("lost", "stage 0")`` or ``("done", "")``.
    """

    stage: int
    process: Any
    line: multiprocessing.connection.Connection
    doing: tuple[str, str] = ("starts", "")

    @classmethod
    def start(cls, stage: int, work: Callable[..., None]) -> Worker:
        """Start a process that calls ``work(stage, say)``.

        The process is a fork: it has the model, the data and the loss as they are, and nothing is
        pickled. So it must not be started after this process has used a GPU.
        """
        line, far_end = multiprocessing.Pipe(duplex=False)
        target = _reporting(work, stage, far_end)
        process = multiprocessing.get_context("fork").Process(target=target, daemon=True)
        with warnings.catch_warnings():  # our forks leave the threads of this process alone
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        far_end.close()
        return cls(stage, process, line)

    def listen(self) -> None:
        """Take in all that the worker has said since."""
        while self.line.poll():
            try:
                self.doing = self.line.recv()
            except EOFError:
                return

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self.process.exitcode is not None

    @property
    def state(self) -> str:
        """What the worker does, or how it ended, as part of a sentence."""
        what, detail = self.doing
        if what == "done" or not self.has_ended:
            return f"stage {self.stage} {what} {detail}".rstrip()
        if what == "failed":
            return f"stage {self.stage} failed:\n{detail}"
        if what == "lost":
            return f"stage {self.stage} lost {detail}"
        died = f"stage {self.stage} died (exit code {self.process.exitcode})"
        return f"{died} after it said: {what} {detail}".rstrip()

    def end(self) -> None:
        """Kill the process if it still runs, and wait for its end."""
        self.process.kill()
        self.process.join()
        self.line.close()


def _reporting(
    work: Callable[..., None], stage: int, line: multiprocessing.connection.Connection
) -> Callable[[], None]:
    """Return a function that does a worker's work, and says how it ended."""

    def run() -> None:
        def say(what: str, detail: object = "") -> None:
            line.send((what, str(detail)))

        try:
            work(stage, say)
            say("done")
        except ConnectionError as error:
            say("lost", error)
        except BaseException:
            say("failed", traceback.format_exc())

    return run


def watch(workers: list[Worker], timeout: float) -> None:
    """Wait until all workers are done; name the one that keeps the others from it.

    Args:
        workers: One per stage.
        timeout: For how many seconds all of them may be silent.

    Raises:
        RuntimeError: A worker has ended before its work was done, or none has said anything for
            ``timeout`` seconds. The message has the ``state`` of the worker that is the cause:

            - a worker that failed or died. A worker that only lost another one isn't the cause,
              unless there is no other; it says so up to a second earlier than the cause;
            - of silent workers, those that don't wait for another; all, if each of them waits.

    >>> worker = Worker.start(0, lambda stage, say: 1 / 0)
    >>> try:
    ...     watch([worker], 5)
    ... except RuntimeError as error:
    ...     print(str(error).splitlines()[-1])
    ZeroDivisionError: division by zero
    """
    while running := [worker for worker in workers if not worker.has_ended]:
        if _failed(workers):
            break
        events = [each for worker in running for each in (worker.line, worker.process.sentinel)]
        if not multiprocessing.connection.wait(events, timeout):
            at_work = [worker for worker in running if worker.doing[0] != "waits for"]
            states = "; ".join(worker.state for worker in at_work or running)
            raise RuntimeError(f"no progress for {timeout} seconds: {states}")
    causes = _causes(workers)
    if causes:
        raise RuntimeError("; ".join(worker.state for worker in causes))


def _failed(workers: list[Worker]) -> list[Worker]:
    """Return the workers that have ended before their work was done."""
    ended = [worker for worker in workers if worker.has_ended]
    for worker in workers:
        worker.listen()  # after the look at the exit codes: a worker speaks, and ends
    return [worker for worker in ended if worker.doing[0] != "done"]


def _causes(workers: list[Worker]) -> list[Worker]:
    """Return the workers that failed; those that only lost another, if there are no others."""
    deadline = monotonic() + 1
    while failed := _failed(workers):
        causes = [worker for worker in failed if worker.doing[0] != "lost"]
        if causes or monotonic() > deadline:
            return causes or failed
        sleep(0.01)
    return []


def run_workers(workers: list[Worker], timeout: float) -> None:
    """Wait until all workers are done, and end them in any case.

    Args:
        workers: The workers, which have started.
        timeout: As for ``watch``.

    Raises:
        RuntimeError: As from ``watch``.
    """
    try:
        watch(workers, timeout)
    finally:
        for worker in workers:
            worker.end()


def train_step(
    gm: Any,
    inputs: tuple[Any, ...],
    targets: Tensor,
    loss_fn: Callable[[Any, Any], Tensor],
    *,
    order: Schedule,
    microbatches: int,
    world_size: int,
    timeout: float = 30,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Run a batch through a cut model, as the core does; name the stage that is the cause.

    Args:
        gm: As for the core's.
        inputs: As for the core's.
        targets: As for the core's.
        loss_fn: As for the core's.
        order: As for the core's.
        microbatches: As for the core's.
        world_size: As for the core's.
        timeout: For how many seconds all stages may be silent.

    Raises:
        ValueError: As the core's.
        RuntimeError: The orders deadlock; or a stage failed, died or hangs. The message names the
            stage, and what it did last.
    """
    orders = orders_for(gm, order, microbatches, world_size)
    batch, goals = cut_batch(inputs, targets, microbatches)
    with tempfile.TemporaryDirectory() as folder:
        # A stage that waits isn't the cause, so it is more patient than this process.
        step = Step(gm, orders, batch, goals, loss_fn, Path(folder), 2 * timeout + 5)

        def work(number: int, say: Callable[..., None]) -> None:
            gm.zero_grad()
            with step.process_group(number):
                engine = step.engine(number, ReportingChannel(say))
                engine.run(_announced(orders[number], say))
                step.save(number, engine)

        run_workers([Worker.start(number, work) for number in range(world_size)], timeout)
        return together(step)


class ReportingChannel(Channel):
    """A channel that says what its stage waits for, and which other stage it lost."""

    def __init__(self, say: Callable[..., None]) -> None:
        super().__init__()
        self.say = say

    def send(self, value: Any, to: int, microbatch: int) -> None:
        with _connected(to):
            super().send(value, to, microbatch)

    def receive(self, source: int, microbatch: int) -> Any:
        action = Action("F" if source < dist.get_rank() else "B", microbatch)
        self.say("waits for", f"{action} of stage {source}")
        with _connected(source):
            value = super().receive(source, microbatch)
        self.say("runs", action)
        return value

    def flush(self) -> None:
        self.say("waits for", "the other stages")
        with _connected("another"):
            super().flush()
            dist.barrier()  # a stage that ends closes its connections


@contextmanager
def _connected(stage: object) -> Iterator[None]:
    """Turn torch's errors into one that names the stage at the other end."""
    try:
        yield
    except RuntimeError as error:
        raise ConnectionError(f"stage {stage}") from error


def _announced(order: Order, say: Callable[..., None]) -> Iterator[Action]:
    """Say of each action that it runs."""
    for action in order:
        say("runs", action)
        yield action
