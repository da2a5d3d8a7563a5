"""Write the data of all pictures: ``python -m tools.pictures``."""

from __future__ import annotations

from pathlib import Path

from tools.pages.graph_fence import PICTURES
from tools.pictures.changed import chained, inlining, rewriting, splitting, unflattening
from tools.pictures.grouped import loops, slices
from tools.pictures.recorded import captured, recorded_gate, recorded_line
from tools.pictures.stepped import called, interpreted, lifetimes, ring
from tools.pictures.timed import prefetched, schedules, two_stages
from tools.pictures.traced import (
    arguments,
    generated,
    inverted,
    lowered,
    module_paths,
    partitions,
    resnet18,
    signature,
)
from tools.pictures.trees import exec_order

# The pictures, in the order of the lessons. A page asks for one by the function's name.
ENGINE = (recorded_line, ring, generated, lifetimes, interpreted)
TRACING = (module_paths, arguments, signature, recorded_gate, called, resnet18)
TRANSFORMS = (lowered, inlining, inverted, rewriting)
BELOW_THE_MODULES = (captured, unflattening, slices, loops)
MACHINES = (exec_order, prefetched, splitting, partitions, schedules, chained, two_stages)
GALLERY = (*ENGINE, *TRACING, *TRANSFORMS, *BELOW_THE_MODULES, *MACHINES)


def texts() -> dict[str, str]:
    """Each picture's data as its file holds them, by the file's name."""
    return {f"{make.__name__}.json": make().text() for make in GALLERY}


def stale_in(folder: Path) -> list[str]:
    """The names of the files in a folder that are missing, out of date, or of no picture."""
    wanted = texts()
    found = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.json")}
    return sorted(name for name in wanted | found if wanted.get(name) != found.get(name))


def write(folder: Path) -> None:
    """Write all pictures' files, and remove those of no picture."""
    wanted = texts()
    for file in folder.glob("*.json"):
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(PICTURES)
