"""Your code: one file per lesson, in the order of ``LESSONS``.

``LESSONS`` is the one table of the lessons. The runner, the README, the site's navigation and the
reports are derived from it or checked against it.
"""

from __future__ import annotations

from typing import NamedTuple


class Lesson(NamedTuple):
    """One row of the table.

    Attributes:
        name: The lesson's name in every folder: ``lessons/<name>.py``, ``tests/test_<name>.py``, …
        part: The part of the course to which it belongs.
        title: What the learner builds, as a heading.
        minutes: How long the core takes somebody who uses PyTorch every week, reading included.
        needs: The lessons from which its core imports.
        summary: What the learner writes, in one line.
    """

    name: str
    part: str
    title: str
    minutes: int
    needs: tuple[str, ...]
    summary: str


LESSONS = (
    Lesson(
        name="proxy",
        part="the engine",
        title="A value that writes down what is done to it",
        minutes=50,
        needs=(),
        summary="write a value that records every operation on it",
    ),
    Lesson(
        name="graph",
        part="the engine",
        title="Nodes that know their users",
        minutes=95,
        needs=(),
        summary="write the nodes, and the list in which you edit them",
    ),
    Lesson(
        name="code",
        part="the engine",
        title="A graph becomes Python again",
        minutes=115,
        needs=("graph",),
        summary="turn a graph back into Python, and into a module that runs it",
    ),
    Lesson(
        name="interpreter",
        part="the engine",
        title="Run a graph node by node",
        minutes=55,
        needs=("proxy", "graph", "code"),
        summary="run a graph node by node, and see every shape",
    ),
    Lesson(
        name="path_of_module",
        part="the engine",
        title="Where a module lives",
        minutes=20,
        needs=(),
        summary="name a module by its path",
    ),
    Lesson(
        name="create_arg",
        part="the engine",
        title="What a node may hold",
        minutes=55,
        needs=(),
        summary="turn any value into a node argument",
    ),
    Lesson(
        name="placeholders",
        part="the engine",
        title="A signature becomes placeholders",
        minutes=60,
        needs=(),
        summary="turn the root's signature into placeholders",
    ),
    Lesson(
        name="tracer",
        part="the engine",
        title="Record a run as a graph",
        minutes=110,
        needs=("proxy", "graph", "code", "path_of_module", "create_arg", "placeholders"),
        summary="record a run as a graph",
    ),
    Lesson(
        name="custom_tracers",
        part="transforms",
        title="Decide what is recorded",
        minutes=30,
        needs=("proxy", "graph", "tracer"),
        summary="decide what a tracer records",
    ),
    Lesson(
        name="inlining",
        part="transforms",
        title="Replace a call with the operations inside it",
        minutes=65,
        needs=("proxy", "graph", "code", "tracer"),
        summary="replace a call with the callee's nodes",
    ),
    Lesson(
        name="inversion",
        part="transforms",
        title="Run a graph backwards",
        minutes=65,
        needs=("graph", "code", "tracer", "inlining"),
        summary="run a graph backwards, one inverse operation at a time",
    ),
    Lesson(
        name="rewriting",
        part="transforms",
        title="Find a pattern, put another in its place",
        minutes=75,
        needs=("graph", "code", "tracer", "inlining"),
        summary="find a pattern in a graph, and put another in its place",
    ),
    Lesson(
        name="split_module",
        part="transforms",
        title="Cut a graph into partitions",
        minutes=100,
        needs=("graph", "code"),
        summary="cut a graph into partitions",
    ),
    Lesson(
        name="capture",
        part="below the modules",
        title="Record what torch runs",
        minutes=95,
        needs=("graph", "code"),
        summary="record the operators that torch's dispatcher runs",
    ),
    Lesson(
        name="unflatten",
        part="below the modules",
        title="A flat graph gets its modules back",
        minutes=120,
        needs=("graph", "code", "interpreter", "split_module", "capture"),
        summary="give a flat exported graph its module tree back",
    ),
    Lesson(
        name="backend",
        part="below the modules",
        title="A compiler for torch.compile",
        minutes=120,
        needs=("graph", "code", "split_module"),
        summary="fuse elementwise operations, print them as C, compile them",
    ),
    Lesson(
        name="exec_order",
        part="many machines",
        title="Watch the order of execution",
        minutes=75,
        needs=("proxy", "graph", "tracer"),
        summary="record the order in which modules and parameters are used",
    ),
    Lesson(
        name="schedule",
        part="many machines",
        title="Keep the stages busy",
        minutes=110,
        needs=("graph", "code", "interpreter", "split_module"),
        summary="train a cut model as a pipeline of stages",
    ),
)

# What has no file of its own: the lessons that it needs are judged together.
FINALE = Lesson(
    name="finale",
    part="the engine",
    title="All of it is yours",
    minutes=0,
    needs=tuple(lesson.name for lesson in LESSONS if lesson.part == "the engine"),
    summary="run your pieces as one engine",
)
CHAIN = Lesson(
    name="chain",
    part="many machines",
    title="From a model to a pipeline",
    minutes=0,
    needs=("graph", "code", "interpreter", "capture", "unflatten", "split_module", "schedule"),
    summary="train a captured model in two stages",
)
TOGETHER = {each.name: each for each in (FINALE, CHAIN)}

NAMES = tuple(lesson.name for lesson in LESSONS)
PARTS = tuple(dict.fromkeys(lesson.part for lesson in LESSONS))
# All of it, in order: each part ends with its lessons together.
COURSE = tuple(sorted((*LESSONS, *TOGETHER.values()), key=lambda each: PARTS.index(each.part)))
