"""What is different in Python while a trace runs, and nothing else.

``nn.Module.__call__`` and ``__getattr__`` ask the tracer first, functions under
``torch.fx.wrap`` record a call when they are given a proxy, and torch's ``is_fx_tracing`` says
yes. All of that is global, so all of it goes through one table of patches that counts its
users: traces may be nested, and traces in several threads may overlap. The patched functions
look up who is tracing *in their own thread*; a thread that traces nothing gets the original.
"""

from __future__ import annotations

import functools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.fx import Proxy
from torch.fx import _symbolic_trace as torch_fx
from torch.fx.node import map_aggregate

from .._torch import tracing_flag
from ._patches import ABSENT, PATCHES, TORCH_STATE, Patch, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from . import Tracer


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
        self._wanted = set(tracer._autowrap_function_ids)
        self._wrapped: set[int] = set()
        self._searched: set[int] = set()

    def start(self) -> None:
        """Send what modules and wrapped functions do in this thread to the tracer."""
        _THREAD.recordings.append(self)
        self._hold(*tracing_flag(), lambda _: True)
        self._hold(TORCH_STATE, "CURRENT_PATCHER", lambda _: PATCHES)
        self._hold(nn.Module, "__call__", _call_recorder)
        self._hold(nn.Module, "__getattr__", _getattr_recorder)
        for (_, name), namespace in torch_fx._wrapped_fns_to_patch.copy().items():
            original = PATCHES.original(namespace, name)
            if original is not ABSENT:
                self._wrap(namespace, name, original)
        for cls, name in torch_fx._wrapped_methods_to_patch:
            self._hold(cls, name, functools.partial(_method_recorder, name))
        for module in self.tracer._autowrap_search:
            self._wanted |= _ids_of_public_functions(vars(module))
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
        for name, original in PATCHES.originals(namespace).items():
            if id(original) in self._wanted and not name.startswith("_"):
                self._wrap(namespace, name, original)

    def wraps(self, function: Callable[..., Any]) -> bool:
        """Return whether calls of this function are recorded."""
        return id(function) in self._wrapped

    def call_module(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Let the tracer decide what a call of a module comes to."""
        self.autowrap(getattr(module.forward, "__globals__", {}))
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


def _ids_of_public_functions(namespace: dict[str, Any]) -> set[int]:
    # Not of what is found there: another trace may have patched it.
    originals = PATCHES.originals(namespace).items()
    return {id(each) for name, each in originals if callable(each) and not name.startswith("_")}


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
