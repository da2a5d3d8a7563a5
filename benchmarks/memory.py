"""Peak memory of one call, each side in a process of its own, measured in two ways.

``python -m benchmarks.memory`` prints a table of both. With a lesson, the name of a case and a side
(``ours`` or ``torch``) it prints the two figures of that side as JSON:

- *process*: the most memory that the process had during the call, less what it had before; Linux
  alone tells (``VmHWM``, set back by ``clear_refs``), elsewhere it is not a number;
- *Python*: the most that Python's allocator had given out during a second call (``tracemalloc``).
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.case import Call, all_cases, sides_of

MEGABYTE = 2**20
CLEAR_PEAK, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
# What is measured: one large case a lesson that has one which torch can do in seconds.
MEASURED = (
    ("path_of_module", "10 000 leaves, paths of all"),
    ("create_arg", "10 000 constants"),
    ("tracer", "10 000 leaf calls"),
    ("exec_order", "10 000 leaf calls watched"),
    ("inversion", "10 000 steps turned round"),
    ("split_module", "8 partitions of 10 000 nodes"),
    ("split_module", "1 000 partitions of 10 000 nodes"),
    ("unflatten", "1 000 linear layers"),
)


@dataclass
class Peak:
    """Peaks of one case in megabytes, as ``{"process": ..., "python": ...}``; plain data."""

    lesson: str
    case: str
    ours: dict[str, float]
    torch: dict[str, float]


def peaks() -> list[Peak]:
    """Measure both sides of every case, a process each."""
    return [
        Peak(
            lesson,
            case,
            in_own_process(lesson, case, "ours"),
            in_own_process(lesson, case, "torch"),
        )
        for lesson, case in MEASURED
    ]


def in_own_process(lesson: str, case: str, side: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.memory", lesson, case, side]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    peak: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return peak


def measure(lesson: str, name: str, side: str) -> dict[str, float]:
    """Both peaks of a call in this process, after a small one, which imports what it needs."""
    cases = all_cases()[lesson]
    case = next(case for case in cases if case.name == name)
    module: Any = sides_of(lesson, case)[side]
    min((each for each in cases if each.size), key=lambda each: each.size).call_of(module)()
    gc.collect()
    return {"process": of_process(case.call_of(module)), "python": of_python(case.call_of(module))}


def of_process(call: Call) -> float:
    if not CLEAR_PEAK.exists():
        return float("nan")
    # What earlier calls have freed would take the new call in, and hide it.
    ctypes.CDLL(None).malloc_trim(0)
    CLEAR_PEAK.write_text("5")
    before = resident("VmRSS")
    call()
    return resident("VmHWM") - before


def resident(field: str) -> float:
    """A field of this process's status, in megabytes."""
    fields = dict(line.split(":") for line in STATUS.read_text().splitlines())
    return int(fields[field].removesuffix("kB")) * 1024 / MEGABYTE


def of_python(call: Call) -> float:
    gc.collect()
    tracemalloc.start()
    call()
    return tracemalloc.get_traced_memory()[1] / MEGABYTE


def main() -> None:
    """Measure what the command line asks for."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(*sys.argv[1:])))
        return
    from benchmarks import tables

    print(tables.memory_of(peaks()))


if __name__ == "__main__":
    main()
