"""Pictures of time: the time lines of schedules, and of parameters that are gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from torch import nn

from drawing import Node, Panel, Picture
from drawing.picture import Moment
from given.schedule import Run
from solutions.exec_order import ExecOrderTracer, Fetch, prefetch_plan, units_in_order
from solutions.schedule import Action, Order, Schedule, alive, gpipe, one_f_one_b, simulate
from solutions.stretch.tracer import Tracer
from tools.pictures.models import Shuffled

STAGES = MICROBATCHES = 4
KINDS = {"F": "forward", "B": "backward"}
# How long it takes to gather a layer, and to compute it
GATHER, COMPUTE = 2, 3


def moments_of(panels: Sequence[Panel], tell: Callable[[list[Node]], str]) -> tuple[Moment, ...]:
    """A moment each time something begins; its words say what goes on in each panel."""
    bars = [node for panel in panels for node in panel.nodes]
    times = sorted({node.start for node in bars} | {max(node.end for node in bars)})
    return tuple(
        Moment(end, "; ".join(f"{p.heading}: {tell(running(p, start))}" for p in panels))
        for start, end in pairwise(times)
    )


def running(panel: Panel, time: float) -> list[Node]:
    return [node for node in panel.nodes if node.start <= time < node.end]


def stages_busy(now: list[Node]) -> str:
    held = sum(node.op == "held" for node in now)
    plural = "micro-batch is" if held == 1 else "micro-batches are"
    return f"{len(now) - held} of {STAGES} stages run, and {held} {plural} held"


def at_work(now: list[Node]) -> str:
    work = [f"{node.group} {node.text}" for node in now if node.op != "held"]
    return " and ".join(work) or "all is done"


def schedules() -> Picture:
    """GPipe beside 1F1B: what each stage runs, when it waits, and what it holds."""
    panels = tuple(map(timeline_of, (gpipe, one_f_one_b)))
    end = simulate(gpipe(STAGES, MICROBATCHES)).end
    return Picture(
        "GPipe and 1F1B, four stages and four micro-batches",
        f"Two time lines of {end} units. In each, four stages run four forwards and four "
        "backwards, which take twice as long, and wait as long in one as in the other. Below, a "
        "line for the micro-batches that each stage holds: in GPipe "
        f"{counts(gpipe)}, in 1F1B {counts(one_f_one_b)}.",
        panels,
        moments=moments_of(panels, stages_busy),
    )


def counts(schedule: Schedule) -> str:
    return ", ".join(map(str, alive(schedule(STAGES, MICROBATCHES))))


def timeline_of(schedule: Schedule) -> Panel:
    """A line for what each stage runs, and one for what it holds."""
    orders = schedule(STAGES, MICROBATCHES)
    workers = list(enumerate(simulate(orders).workers))
    runs = [bar_of(stage, run) for stage, runs in workers for run in runs]
    held = [bar for stage, runs in workers for bar in held_by(stage, orders[stage], runs)]
    return Panel((*runs, *held), "GPipe" if schedule is gpipe else "1F1B")


def bar_of(stage: int, run: Run) -> Node:
    action, start, end = run
    name, label = str(action), str(action.microbatch)
    kind = KINDS[action.kind]
    return Node(name, kind, group=f"stage {stage}", label=label, start=start, end=end)


def held_by(stage: int, order: Order, runs: Sequence[Run]) -> Iterator[Node]:
    """A micro-batch is held from the start of its forward to the end of its backward."""
    run_of = dict(zip(order, runs, strict=True))
    for number in range(MICROBATCHES):
        forward, backward = (Action(stage, kind, number) for kind in "FB")
        start, end = run_of[forward].start, run_of[backward].end
        group = f"memory {stage}"
        yield Node(f"{number} in stage {stage}", "held", group=group, start=start, end=end)


def prefetched() -> Picture:
    """FSDP2 alone beside the planned prefetch: when layers are gathered, computed and held."""
    model = Shuffled()
    names = {module: name for name, module in model.named_children()}
    order = units_in_order(called_in(model), list(names))
    sizes = dict.fromkeys(order, 1)
    plan = prefetch_plan(order, sizes, budget=2)
    panels = (
        Panel(tuple(timed(order, [], names)), "FSDP2 alone"),
        Panel(tuple(timed(order, plan, names)), "with your plan"),
    )
    ends = [max(node.end for node in panel.nodes) for panel in panels]
    return Picture(
        "Four layers, gathered when they are needed and gathered ahead",
        "Two time lines of a forward through the layers d, b, a, c. On the left each layer is "
        "gathered, then computed, and neither happens during the other. On the right the next "
        f"layer is gathered while one is computed: {ends[1]:g} units of time instead of "
        f"{ends[0]:g}, and at most two layers are held at once.",
        panels,
        moments=moments_of(panels, at_work),
    )


def called_in(model: nn.Module) -> list[nn.Module]:
    """The modules in the order in which one trace calls them."""
    tracer, watcher = Tracer(), ExecOrderTracer()
    with watcher.patch_tracer(tracer, model):
        tracer.trace(model)
    assert watcher.exec_info is not None
    return watcher.exec_info.module_forward_order


def timed(
    order: Sequence[nn.Module], plan: Sequence[Fetch], names: Mapping[nn.Module, str]
) -> Iterator[Node]:
    """The bars of a forward in which all gathers follow each other, and so do all computations."""
    gathered: dict[nn.Module, float] = {}
    channel: float = 0
    now: float = 0

    def gather(module: nn.Module, earliest: float) -> Iterator[Node]:
        nonlocal channel
        start = max(channel, earliest)
        channel = gathered[module] = start + GATHER
        yield bar("gather", module, start, channel)

    def bar(op: str, module: nn.Module, start: float, end: float) -> Node:
        group = {"gather": "gathers", "compute": "computes", "held": "memory"}[op]
        name = names[module]
        return Node(f"{op} {name}", op, group=group, label=name, start=start, end=end)

    for module in order:
        if module not in gathered:
            yield from gather(module, now)
        start = max(now, gathered[module])
        for fetch in plan:
            if fetch.during is module:
                yield from gather(fetch.module, start)
        now = start + COMPUTE
        yield bar("compute", module, start, now)
        yield bar("held", module, gathered[module] - GATHER, now)
