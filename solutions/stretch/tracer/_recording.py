"""The patches that are active while a trace runs.

They are global: methods of ``nn.Module``, functions in the globals of modules. So each name is
patched once, even if several traces run, and the last trace to end restores all of them. Traces
may be nested, and may overlap in any order. A patched method of ``nn.Module`` calls the tracer of
the current thread; a wrapped function calls the tracer of the proxies among its arguments.
"""

from __future__ import annotations

import builtins
import functools
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn
from torch.fx import Proxy
from torch.fx import _symbolic_trace as torch_fx
from torch.fx.node import map_aggregate

from ...tracer import ORIGINAL_CALL, ORIGINAL_GETATTR, tracing_flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from . import Tracer

    # A name belongs to a class, or to the globals of a module.
    Owner = type | dict[str, Any]

# The value of a name that doesn't exist.
MISSING = object()

# What a module call and an attribute read are sent to in this thread.
RECORDERS = ContextVar("RECORDERS", default=(ORIGINAL_CALL, ORIGINAL_GETATTR))


class Patch(NamedTuple):
    """One patched name, with its value before and now."""

    owner: Owner
    name: str
    before: Any
    now: Any


class Patches(dict[tuple[int, str], Patch]):
    """All patched names in this process, by the identity of the owner and the name."""

    # torch.compile calls these two when it compiles something during a trace. Torch's own flag and
    # patcher, which aren't callable, keep their values.

    def revert_all_patches(self) -> None:
        """Restore the originals temporarily."""
        for each in self.values():
            assign(each.owner, each.name, each.before if callable(each.now) else each.now)

    def reapply_all_patches(self) -> None:
        """Apply the patches again."""
        for each in self.values():
            assign(each.owner, each.name, each.now)


PATCHES = Patches()
TRACES: list[Tracer] = []
LOCK = threading.RLock()  # for changes of these two


@contextmanager
def recording(tracer: Tracer) -> Iterator[None]:
    """Send module calls and attribute reads of this thread to a tracer while the block runs."""
    proxies: dict[str, Proxy] = {}

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        tracer.autowrap(getattr(module.forward, "__globals__", {}))
        return tracer.call_module(module, functools.partial(ORIGINAL_CALL, module), args, kwargs)

    def get(module: nn.Module, name: str) -> Any:
        return tracer.getattr(name, ORIGINAL_GETATTR(module, name), proxies)

    token = RECORDERS.set((call, get))
    with LOCK:
        TRACES.append(tracer)
    try:
        patch_everything()
        yield
    finally:
        RECORDERS.reset(token)
        with LOCK:
            TRACES.remove(tracer)
            if not TRACES:
                for each in PATCHES.values():
                    assign(each.owner, each.name, each.before)
                PATCHES.clear()


def patch_everything() -> None:
    """Patch every name that is patched while any trace runs."""
    flag_owner, flag = tracing_flag()
    patch(vars(flag_owner), flag, True)
    patch(vars(torch_fx), "CURRENT_PATCHER", PATCHES)
    patch(nn.Module, "__call__", call_module)
    patch(nn.Module, "__getattr__", getattr_of_module)
    for (_, name), namespace in torch_fx._wrapped_fns_to_patch.copy().items():
        wrap(namespace, name)
    for cls, name in torch_fx._wrapped_methods_to_patch:
        wrap(cls, name)


def call_module(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    return RECORDERS.get()[0](module, *args, **kwargs)


def getattr_of_module(module: nn.Module, name: str) -> Any:
    return RECORDERS.get()[1](module, name)


def wrap(owner: Owner, name: str) -> None:
    """Record calls with proxies of a function, or of a method if a class owns it."""
    function = original(owner, name)

    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        map_aggregate((args, kwargs), leaves.append)
        tracer: Any = next((leaf.tracer for leaf in leaves if isinstance(leaf, Proxy)), None)
        if tracer is None:
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
            PATCHES[id(owner), name] = Patch(owner, name, lookup(owner, name), value)
            assign(owner, name, value)


def original(owner: Owner, name: str) -> Any:
    """Return the value of a name without patches; it may be a builtin."""
    with LOCK:  # or another thread could patch or restore it between the two lookups
        patched = PATCHES.get((id(owner), name))
        value = patched.before if patched else lookup(owner, name)
    return getattr(builtins, name, MISSING) if value is MISSING else value


def lookup(owner: Owner, name: str) -> Any:
    """Return the current value of a name."""
    return owner.get(name, MISSING) if isinstance(owner, dict) else getattr(owner, name)


def assign(owner: Owner, name: str, value: Any) -> None:
    """Give a name a value, or take the name away with ``MISSING``."""
    if not isinstance(owner, dict):
        setattr(owner, name, value)
    elif value is MISSING:
        owner.pop(name, None)
    else:
        owner[name] = value
