"""Every picture of the site, by the name that a page asks for."""

from __future__ import annotations

from collections.abc import Callable

from drawing import Picture
from tools.pictures.called import called
from tools.pictures.changed import inlining, rewriting, splitting, unflattening
from tools.pictures.grouped import loops, slices
from tools.pictures.measured import memory
from tools.pictures.recorded import captured, recorded_gate, recorded_line, recorded_net
from tools.pictures.stepped import interpreted, lifetimes, reflected, ring
from tools.pictures.timed import prefetched, schedules
from tools.pictures.traced import (
    arguments,
    generated,
    lowered,
    module_paths,
    resnet18,
    signature,
)
from tools.pictures.transformed import (
    fused,
    inverted,
    partitions,
)
from tools.pictures.trees import exec_order

GALLERY: dict[str, Callable[[], Picture]] = {
    "ring": ring,
    "reflected": reflected,
    "lifetimes": lifetimes,
    "generated": generated,
    "interpreted": interpreted,
    "memory": memory,
    "module_paths": module_paths,
    "arguments": arguments,
    "signature": signature,
    "recorded_line": recorded_line,
    "recorded_net": recorded_net,
    "recorded_gate": recorded_gate,
    "called": called,
    "resnet18": resnet18,
    "lowered": lowered,
    "exec_order": exec_order,
    "prefetched": prefetched,
    "inlining": inlining,
    "inverted": inverted,
    "rewriting": rewriting,
    "fused": fused,
    "splitting": splitting,
    "partitions": partitions,
    "schedules": schedules,
    "captured": captured,
    "loops": loops,
    "slices": slices,
    "unflattening": unflattening,
}
