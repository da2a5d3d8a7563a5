"""All pictures of the site, by name. Each is made while the site is built."""

from __future__ import annotations

from functools import cache

from tools.pictures.changed import chained, inlining, rewriting, splitting, unflattening
from tools.pictures.grouped import loops
from tools.pictures.recorded import captured, recorded_gate, recorded_line
from tools.pictures.stepped import called, interpreted, lifetimes, ring
from tools.pictures.timed import prefetched, schedules
from tools.pictures.traced import (
    arguments,
    generated,
    inverted,
    lowered,
    module_paths,
    resnet18,
    signature,
)

# The pictures, in the order of the lessons. A page asks for one by the function's name.
ENGINE = (recorded_line, ring, generated, lifetimes, interpreted)
TRACING = (module_paths, arguments, signature, recorded_gate, called, resnet18)
TRANSFORMS = (lowered, inlining, inverted, rewriting, splitting)
BELOW_THE_MODULES = (captured, unflattening, loops)
MACHINES = (prefetched, schedules, chained)
GALLERY = {
    make.__name__: cache(make)
    for make in (*ENGINE, *TRACING, *TRANSFORMS, *BELOW_THE_MODULES, *MACHINES)
}
