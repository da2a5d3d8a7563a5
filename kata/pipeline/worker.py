"""One stage, in a process of its own: it finds the others, runs, and tells what went wrong."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
import traceback
from collections.abc import Iterator
from datetime import timedelta
from multiprocessing import connection
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import torch
import torch.distributed as dist

from kata.pipeline.plan import Plan
from kata.pipeline.results import save
from kata.pipeline.training import train

# How long the processes wait for each other before they give up.
PATIENCE = timedelta(seconds=60)

# The number of a stage, and the traceback of what went wrong there; the first comes first.
Failures = SimpleQueue[tuple[int, str]]


def run_stage(plan: Plan, stage: int, folder: Path, failures: Failures) -> None:
    """Run one stage from start to end; this is what each process does.

    A failure is reported before the process ends: the others notice that this one is gone, and
    fail as well, but theirs is not the failure to show.
    """
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        with process_group(plan, stage, folder):
            save(folder, stage, train(plan, stage))
    except BaseException:
        failures.put((stage, traceback.format_exc()))
        # Not sys.exit: the engine's threads may wait for a stage that is gone.
        os._exit(1)


def end_with_parent() -> None:
    """End this process when the one that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextlib.contextmanager
def process_group(plan: Plan, stage: int, folder: Path) -> Iterator[None]:
    """Let the processes find each other through a file, and part in the end.

    After a failure they don't part: the process ends, and must not wait for the others first.
    """
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // plan.stages))
    if plan.on_gpus:
        torch.cuda.set_device(stage)
    dist.init_process_group(
        plan.backend,
        init_method=(folder / "rendezvous").as_uri(),
        rank=stage,
        world_size=plan.stages,
        timeout=PATIENCE,
    )
    yield
    dist.barrier()
    dist.destroy_process_group()
