"""What is patched while traces run: methods of ``nn.Module``, and functions in modules' globals.

Patches are for all threads, so each name is patched once, even if several traces run, and the last
trace to end restores all of them. The patched methods ask who is tracing in their own thread.
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

from given.tracer import tracing_flag

from ...tracer import ORIGINAL_CALL, ORIGINAL_GETATTR
from ..proxy import Proxy as OwnProxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from . import TracerOfAnyGraph

    # A name belongs to a class, or to the globals of a module.
    Owner = type | dict[str, Any]


class Patch(NamedTuple):
    """A name that has another value while traces run, and the value that it had before."""

    owner: Owner
    name: str
    before: Any


class Recorders(NamedTuple):
    """What a module call and an attribute read are sent to."""

    call: Callable[..., Any]
    get: Callable[[nn.Module, str], Any]


LOCK = threading.RLock()  # for changes of these two
TRACES: list[TracerOfAnyGraph] = []
PATCHES: dict[tuple[int, str], Patch] = {}  # by the owner's id and the name

# A subclass may make our own proxies in the place of torch's.
PROXIES = Proxy, OwnProxy

# The value of a name that doesn't exist.
MISSING = object()

UNTRACED = Recorders(ORIGINAL_CALL, ORIGINAL_GETATTR)
# Those of this thread.
RECORDERS = ContextVar("RECORDERS", default=UNTRACED)


@contextmanager
def recording(tracer: TracerOfAnyGraph) -> Iterator[None]:
    """Send module calls and attribute reads of this thread to a tracer while the block runs."""
    proxies: dict[str, Proxy] = {}

    def call(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        tracer.autowrap(getattr(module.forward, "__globals__", {}))
        return tracer.call_module(module, functools.partial(ORIGINAL_CALL, module), args, kwargs)

    def get(module: nn.Module, name: str) -> Any:
        return tracer.getattr(name, ORIGINAL_GETATTR(module, name), proxies)

    token = RECORDERS.set(Recorders(call, get))
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
    patch(nn.Module, "__call__", call_module)
    patch(nn.Module, "__getattr__", getattr_of_module)
    for (_, name), namespace in torch_fx._wrapped_fns_to_patch.copy().items():
        wrap(namespace, name)
    for owner, name in torch_fx._wrapped_methods_to_patch:
        patch(owner, name, recorded(getattr(owner, name), "call_method", name))


def call_module(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
    """Replace ``nn.Module.__call__``."""
    return RECORDERS.get().call(module, *args, **kwargs)


def getattr_of_module(module: nn.Module, name: str) -> Any:
    """Replace ``nn.Module.__getattr__``."""
    return RECORDERS.get().get(module, name)


def wrap(namespace: dict[str, Any], name: str) -> None:
    """Record the calls of a function, as long as the trace runs."""
    function: Any = namespace.get(name, getattr(builtins, name, None))
    if callable(function):
        record = recorded(function, "call_function", function)
        record.recorded_function = function  # type: ignore[attr-defined]
        patch(namespace, name, record)


def recorded(function: Callable[..., Any], op: str, target: Any) -> Callable[..., Any]:
    """Return a function that records its calls with a proxy; the tracer is the proxy's."""

    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        map_aggregate((args, kwargs), leaves.append)
        tracer = next((leaf.tracer for leaf in leaves if isinstance(leaf, PROXIES)), None)
        if tracer is None:
            return function(*args, **kwargs)
        result = tracer.create_proxy(op, target, args, kwargs)
        if op == "call_function":
            result.node.meta["is_wrapped"] = True
        return result

    return record


def patch(owner: Owner, name: str, value: Any) -> None:
    """Give a name another value until the last trace ends, unless it is patched already."""
    with LOCK:
        if (id(owner), name) not in PATCHES:
            values = owner if isinstance(owner, dict) else vars(owner)
            before = values.get(name, MISSING)
            PATCHES[id(owner), name] = Patch(owner, name, before)
            assign(owner, name, value)


def assign(owner: Owner, name: str, value: Any) -> None:
    """Give a name a value, or take the name away with ``MISSING``."""
    if isinstance(owner, dict):
        owner.pop(name, None) if value is MISSING else owner.update({name: value})
    elif value is MISSING:  # it is inherited
        delattr(owner, name)
    else:
        setattr(owner, name, value)
