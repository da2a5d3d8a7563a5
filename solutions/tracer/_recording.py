"""What is different in Python while a trace runs, and nothing else.

``nn.Module.__call__`` and ``__getattr__`` ask the tracer first, functions under
``torch.fx.wrap`` record a call when they are given a proxy, and torch's ``is_fx_tracing`` says
yes. All of that is global, so all of it goes through one table of patches that counts its
users: traces may be nested, and traces in several threads may overlap. The patched functions
look up who is tracing *in their own thread*; a thread that traces nothing gets the original.
"""

from __future__ import annotations

import builtins
import functools
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.fx import Proxy
from torch.fx import _symbolic_trace as torch_fx
from torch.fx.node import map_aggregate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from . import Tracer

# Where a name can be patched: a class, or the globals of a module.
Place = type | dict[str, Any]

_ABSENT: Any = object()
_TORCH_STATE: dict[str, Any] = torch_fx.__dict__


@dataclass(eq=False)
class Patch:
    """A name with another value for as long as somebody uses it."""

    place: Place
    name: str
    original: Any
    before: Any
    after: Any
    users: int = 0

    def apply(self) -> None:
        """Give the name its new value."""
        _put(self.place, self.name, self.after)

    def undo(self) -> None:
        """Put back what was there, be it nothing."""
        _put(self.place, self.name, self.before)


class PatchTable:
    """Every patch in force in this process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._patches: dict[tuple[int, str], Patch] = {}

    def hold(self, place: Place, name: str, replace: Callable[[Any], Any]) -> Patch:
        """Patch ``name`` with ``replace(original)``, or share the patch that is there already."""
        key = (id(place), name)
        with self._lock:
            patch = self._patches.get(key)
            if patch is None:
                original = _meaning(place, name)
                before = _entries(place).get(name, _ABSENT)
                patch = self._patches[key] = Patch(place, name, original, before, replace(original))
                patch.apply()
            patch.users += 1
            return patch

    def release(self, patch: Patch) -> None:
        """Give a patch back; the last user's leaving undoes it."""
        with self._lock:
            patch.users -= 1
            if not patch.users:
                patch.undo()
                del self._patches[id(patch.place), patch.name]

    def original(self, place: Place, name: str) -> Any:
        """Return what a name means when nobody traces."""
        patch = self._patches.get((id(place), name))
        return _meaning(place, name) if patch is None else patch.original

    # torch.compile calls these two when it compiles something in the middle of a trace. The flag
    # that says whether fx is tracing is its own business.

    def revert_all_patches(self) -> list[Patch]:
        """Undo the patches for a while."""
        with self._lock:
            patches = [p for p in self._patches.values() if p.place is not _TORCH_STATE]
            for patch in patches:
                patch.undo()
            return patches

    def reapply_all_patches(self) -> list[Patch]:
        """Apply the patches again."""
        with self._lock:
            patches = [p for p in self._patches.values() if p.place is not _TORCH_STATE]
            for patch in patches:
                patch.apply()
            return patches


PATCHES = PatchTable()


class _Thread(threading.local):
    """The traces in progress in this thread, the innermost last."""

    def __init__(self) -> None:
        self.recordings: list[Recording] = []


_THREAD = _Thread()


class Recording:
    """One trace in progress: its tracer, and what it has patched."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.parameter_proxies: dict[str, Proxy] = {}
        self._patches: list[Patch] = []
        self._wrapped: set[int] = set()
        self._searched: set[int] = set()

    def start(self) -> None:
        """Send what modules and wrapped functions do in this thread to the tracer."""
        _THREAD.recordings.append(self)
        self._hold(_TORCH_STATE, "_is_fx_tracing_flag", lambda _: True)
        self._hold(_TORCH_STATE, "CURRENT_PATCHER", lambda _: PATCHES)
        self._hold(nn.Module, "__call__", _call_recorder)
        self._hold(nn.Module, "__getattr__", _getattr_recorder)
        for (_, name), namespace in torch_fx._wrapped_fns_to_patch.copy().items():
            original = PATCHES.original(namespace, name)
            if original is not _ABSENT:
                self._wrap(namespace, name, original)
        for cls, name in torch_fx._wrapped_methods_to_patch:
            self._hold(cls, name, functools.partial(_method_recorder, name))
        for module in self.tracer._autowrap_search:
            self.autowrap(vars(module))

    def stop(self) -> None:
        """Undo all that this trace has changed."""
        _THREAD.recordings.remove(self)
        while self._patches:
            PATCHES.release(self._patches.pop())

    def autowrap(self, namespace: dict[str, Any]) -> None:
        """Wrap the functions in a module's globals that the tracer wants wrapped everywhere."""
        if id(namespace) in self._searched:
            return
        self._searched.add(id(namespace))
        wanted = self.tracer._autowrap_function_ids
        for name in list(namespace):
            original = PATCHES.original(namespace, name)
            if id(original) in wanted and not name.startswith("_"):
                self._wrap(namespace, name, original)

    def wraps(self, function: Callable[..., Any]) -> bool:
        """Return whether calls of this function are recorded."""
        return id(function) in self._wrapped

    def call_module(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Let the tracer decide what a call of a module comes to."""
        self.autowrap(getattr(getattr(module, "forward", module), "__globals__", {}))
        forward = functools.partial(torch_fx._orig_module_call, module)
        return self.tracer.call_module(module, forward, args, kwargs)

    def getattr(self, module: nn.Module, name: str) -> Any:
        """Let the tracer decide what the attribute of a module looks like."""
        value = torch_fx._orig_module_getattr(module, name)
        return self.tracer.getattr(name, value, self.parameter_proxies)

    def _wrap(self, namespace: dict[str, Any], name: str, original: Any) -> None:
        self._wrapped.add(id(original))
        hashable = type(original).__hash__ is not None
        self._hold(namespace, name, _cached_recorder if hashable else _function_recorder)

    def _hold(self, place: Place, name: str, replace: Callable[[Any], Any]) -> None:
        self._patches.append(PATCHES.hold(place, name, replace))


@contextmanager
def recording(tracer: Tracer) -> Iterator[Recording]:
    """Let ``tracer`` see what this thread does, and put everything back whatever happens."""
    record = Recording(tracer)
    try:
        record.start()
        yield record
    finally:
        record.stop()


def _call_recorder(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not _THREAD.recordings:
            return original(module, *args, **kwargs)
        return _THREAD.recordings[-1].call_module(module, args, kwargs)

    return call


def _getattr_recorder(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get(module: nn.Module, name: str) -> Any:
        if not _THREAD.recordings:
            return original(module, name)
        return _THREAD.recordings[-1].getattr(module, name)

    return get


def _function_recorder(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None or not any(r.wraps(original) for r in _THREAD.recordings):
            return original(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", original, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return record


# The same wrapper serves every trace: making one costs more than all else that a patch costs.
_cached_recorder = functools.cache(_function_recorder)


def _method_recorder(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None or not _THREAD.recordings:
            return original(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return record


def _find_proxy(*values: Any) -> Proxy | None:
    found: list[Proxy] = []
    map_aggregate(values, lambda leaf: found.append(leaf) if isinstance(leaf, Proxy) else None)
    return found[0] if found else None


def _meaning(place: Place, name: str) -> Any:
    """Return what a name stands for in a place, inherited or built in though it may be."""
    if isinstance(place, type):
        return getattr(place, name)
    return place[name] if name in place else getattr(builtins, name, _ABSENT)


def _entries(place: Place) -> Any:
    return place if isinstance(place, dict) else vars(place)


def _put(place: Place, name: str, value: Any) -> None:
    if isinstance(place, dict):
        if value is _ABSENT:
            place.pop(name, None)
        else:
            place[name] = value
    elif value is _ABSENT:
        delattr(place, name)
    else:
        setattr(place, name, value)
