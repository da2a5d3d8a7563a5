"""Unlike the core: chooses the cuts, recomputes, interleaves, and names the stage that hangs.

- ``cuts``: ``cut_by_cost`` cuts where the slowest stage is fastest. A pipeline runs at the pace of
  its slowest stage, and stages with equally many calls aren't equally slow.
- ``recomputing``: ``RecomputingEngine`` keeps what a stage received, and no activations: it runs
  the forward again right before the backward. Memory for a micro-batch is then its inputs, for a
  third more time.
- ``interleaving``: ``interleaved`` gives each process several stages: it computes a later one while
  it would wait for others to finish an earlier one. ``clock`` says how much shorter the bubble
  gets, and ``Process`` runs such an order. ``SharedChannel`` sends between stages that share
  processes.
- ``workers``: ``train_step`` names the stage that dies or hangs, within seconds.
"""

from __future__ import annotations

from ...schedule import (
    Action,
    Channel,
    Description,
    Engine,
    Held,
    Order,
    Run,
    Schedule,
    Stage,
    Step,
    Timeline,
    alive,
    cut_batch,
    cut_evenly,
    differentiable,
    gpipe,
    microbatches_of,
    one_f_one_b,
    orders_for,
    run_processes,
    run_stage,
    simulate,
    stages_of,
    together,
)
from .cuts import cut_by_cost, seconds
from .interleaving import Process, SharedChannel, StageAction, clock, interleaved
from .recomputing import RecomputingEngine
from .workers import ReportingChannel, Worker, run_workers, train_step, watch

__all__ = [
    "Action",
    "Channel",
    "Description",
    "Engine",
    "Held",
    "Order",
    "Process",
    "RecomputingEngine",
    "ReportingChannel",
    "Run",
    "Schedule",
    "SharedChannel",
    "Stage",
    "StageAction",
    "Step",
    "Timeline",
    "Worker",
    "alive",
    "clock",
    "cut_batch",
    "cut_by_cost",
    "cut_evenly",
    "differentiable",
    "gpipe",
    "interleaved",
    "microbatches_of",
    "one_f_one_b",
    "orders_for",
    "run_processes",
    "run_stage",
    "run_workers",
    "seconds",
    "simulate",
    "stages_of",
    "together",
    "train_step",
    "watch",
]
