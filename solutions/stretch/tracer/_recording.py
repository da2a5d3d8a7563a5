"""What is different in Python while a trace runs, and nothing else.

All of it is global: methods of ``nn.Module``, functions in the globals of modules. So a name is
patched once, however many traces run, and the last trace to end undoes all patches. Traces may be
nested, and may overlap in any order. What a patch does depends on who asks: a call of a module on
the trace that *this thread* runs, a call of a wrapped function on the tracer of its arguments.
"""

from __future__ import annotations

import builtins
import functools
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.fx import Proxy
from torch.fx import _symbolic_trace as torch_fx
from torch.fx.node import map_aggregate

from ...tracer import ORIGINAL_CALL, ORIGINAL_GETATTR, _recorders, tracing_flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from . import Tracer

# A name belongs to a class, or to the globals of a module.
Owner = type | dict[str, Any]

# What a name means where nothing has that name.
MISSING: Any = object()

# What becomes of a call of a module, and of a look at its attributes, in this thread.
RECORDERS = ContextVar("RECORDERS", default=(ORIGINAL_CALL, ORIGINAL_GETATTR))


class Patches(dict[tuple[int, str], tuple[Owner, str, Any, Any]]):
    """All patched names in this process: owner, name, the value before, the value now."""

    # torch.compile calls these two when it compiles something in the middle of a trace. What torch
    # itself notes, its flag and its patcher, can't be called; it stays.

    def revert_all_patches(self) -> None:
        """Undo the patches for a while."""
        for owner, name, before, now in self.values():
            assign(owner, name, before if callable(now) else now)

    def reapply_all_patches(self) -> None:
        """Apply the patches again."""
        for owner, name, _, now in self.values():
            assign(owner, name, now)


PATCHES = Patches()
TRACES: list[Tracer] = []
LOCK = threading.RLock()  # for changes of these two


class Recording:
    """One trace in progress: its tracer, and where it has looked for functions to wrap."""

    def __init__(self, tracer: Tracer) -> None:
        self._call, self.getattr = _recorders(tracer)
        self._function_ids = tracer._autowrap_function_ids
        self._searched: set[int] = set()

    def call(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        """Let the tracer decide what a call of a module comes to."""
        self.autowrap(getattr(module.forward, "__globals__", {}))
        return self._call(module, *args, **kwargs)

    def autowrap(self, namespace: dict[str, Any]) -> None:
        """Wrap the functions in a module's globals that the tracer wants wrapped everywhere."""
        if id(namespace) not in self._searched:
            self._searched.add(id(namespace))
            for name, value in list(namespace.items()):
                if id(value) in self._function_ids and not name.startswith("_"):
                    wrap(namespace, name, by_all=False)


@contextmanager
def recording(tracer: Tracer) -> Iterator[Recording]:
    """Let the tracer see what this thread does while the block runs."""
    record = Recording(tracer)
    token = RECORDERS.set((record.call, record.getattr))
    with LOCK:
        TRACES.append(tracer)
    try:
        patch_everything()
        yield record
    finally:
        RECORDERS.reset(token)
        with LOCK:
            TRACES.remove(tracer)
            if not TRACES:
                for owner, name, before, _ in PATCHES.values():
                    assign(owner, name, before)
                PATCHES.clear()


def patch_everything() -> None:
    """Patch all that is different while any trace runs."""
    flag_owner, flag = tracing_flag()
    patch(vars(flag_owner), flag, True)
    patch(vars(torch_fx), "CURRENT_PATCHER", PATCHES)
    patch(nn.Module, "__call__", call_module)
    patch(nn.Module, "__getattr__", getattr_of_module)
    for (_, name), namespace in torch_fx._wrapped_fns_to_patch.copy().items():
        wrap(namespace, name)
    for cls, name in torch_fx._wrapped_methods_to_patch:
        wrap(cls, name)


@functools.wraps(ORIGINAL_CALL)
def call_module(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    return RECORDERS.get()[0](module, *args, **kwargs)


@functools.wraps(ORIGINAL_GETATTR)
def getattr_of_module(module: nn.Module, name: str) -> Any:
    return RECORDERS.get()[1](module, name)


def wrap(owner: Owner, name: str, by_all: bool = True) -> None:
    """Let calls with a proxy be recorded, of a function or, where a class owns it, a method.

    Args:
        owner: Where it has the name.
        name: Its name.
        by_all: Whether all tracers record it, or those that want it wrapped everywhere.
    """
    function = original(owner, name)

    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        map_aggregate((args, kwargs), leaves.append)
        tracer: Any = next((leaf.tracer for leaf in leaves if isinstance(leaf, Proxy)), None)
        wanted = getattr(tracer, "_autowrap_function_ids", ())
        if not (tracer and by_all) and id(function) not in wanted:
            return function(*args, **kwargs)
        if isinstance(owner, type):
            return tracer.create_proxy("call_method", name, args, kwargs)
        result = tracer.create_proxy("call_function", function, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    if callable(function):
        patch(owner, name, record)


def patch(owner: Owner, name: str, value: Any) -> None:
    """Give a name another value, unless it has one already."""
    with LOCK:
        if (id(owner), name) not in PATCHES:
            PATCHES[id(owner), name] = owner, name, lookup(owner, name), value
            assign(owner, name, value)


def original(owner: Owner, name: str) -> Any:
    """Return what a name means when nobody traces, built in though it may be."""
    with LOCK:  # or another thread could patch or restore it between the two looks
        value = PATCHES.get((id(owner), name), (0, 0, lookup(owner, name)))[2]
    return getattr(builtins, name, MISSING) if value is MISSING else value


def lookup(owner: Owner, name: str) -> Any:
    """Return the value that a name has right now."""
    return owner.get(name, MISSING) if isinstance(owner, dict) else getattr(owner, name)


def assign(owner: Owner, name: str, value: Any) -> None:
    """Give a name a value, or take the name away with ``MISSING``."""
    if not isinstance(owner, dict):
        setattr(owner, name, value)
    elif value is MISSING:
        owner.pop(name, None)
    else:
        owner[name] = value
