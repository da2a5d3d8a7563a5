"""Run a split model as a pipeline: every stage in a process of its own, on PyTorch's own engine.

The model is traced, cut with ``split_module`` (yours, or the reference's) and handed to
``torch.distributed.pipelining``: one process a stage, micro-batches between them, gradients back.
The same batch then runs in one process, and the numbers are compared.

The processes speak gloo on the CPU, or nccl where every stage can have a GPU.

The steps, one a module, from the innermost out: ``plan``, ``cuts``, ``stages``, ``results``,
``training``, ``worker`` (one process), ``processes`` (all of them) and ``command``.
"""

from kata.pipeline.command import add_arguments, main
from kata.pipeline.cuts import cuts_for, narrow_places
from kata.pipeline.plan import PipelineError, Plan
from kata.pipeline.processes import PROCESSES, first_failure, run_pipeline
from kata.pipeline.stages import split_into_stages, stages_of

__all__ = [
    "PROCESSES",
    "PipelineError",
    "Plan",
    "add_arguments",
    "cuts_for",
    "first_failure",
    "main",
    "narrow_places",
    "run_pipeline",
    "split_into_stages",
    "stages_of",
]
