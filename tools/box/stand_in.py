"""What stands in for torch, pytest and rich in a browser, which has none of them.

The course's own files run on it as they are. Every name of ``torch`` is a function that asks the
proxies among its arguments to record the call; there are no tensors, so nothing is computed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

MODULES = ("torch", "pytest", "rich", "tests.zoo", "kata.torchvision_compat")
NAMESPACES = ("nn.functional", "fx.proxy", "fx.node", "linalg", "special", "fft")


class Recording(ModuleType):
    """A module that has every name: a function that is recorded, and computes nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{self.__name__} has no {name}")
        setattr(self, name, recorded(name, self.__name__))
        return vars(self)[name]


def recorded(name: str, module: str, owner: str = "") -> Callable[..., Any]:
    """Return a function that the first proxy among its arguments records."""

    def function(*args: Any, **kwargs: Any) -> Any:
        for each in tree_leaves((args, kwargs)):
            if hasattr(type(each), "__torch_function__"):
                return type(each).__torch_function__(function, (type(each),), args, kwargs)
        raise TypeError(
            f"`{module}.{owner}{name}` got no proxy: this page has no tensors to compute with"
        )

    function.__name__, function.__qualname__, function.__module__ = name, owner + name, module
    return function


class Finder(MetaPathFinder, Loader):
    """Finds the modules that have every name."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module that stands in for another."""
        is_ours = f"{name}.".startswith(tuple(f"{each}." for each in MODULES))
        return ModuleSpec(name, self, is_package=True) if is_ours else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty module."""
        return Recording(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Add the names that must be more than a function."""
        vars(module).update(NAMES.get(module.__name__, {}))


def install() -> None:
    """Make the modules importable."""
    sys.meta_path.insert(0, Finder())
    for each in NAMESPACES:
        importlib.import_module(f"torch.{each}")


# --- torch


class Methods(type):
    """The class of ``Tensor``: it has every method."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(cls, name, recorded(name, "torch", "Tensor."))
        return vars(cls)[name]


def is_method(function: Any) -> bool:
    """Return whether a function is a method of ``torch.Tensor``."""
    return getattr(function, "__qualname__", "").startswith("Tensor.")


def tree_leaves(value: Any) -> list[Any]:
    """Return what is in nested lists, tuples and dicts."""
    return list(leaves(value))


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from leaves(each)
    else:
        yield value


def map_aggregate(value: Any, fn: Callable[[Any], Any]) -> Any:
    """Return a copy of nested containers, with ``fn(leaf)`` in place of each leaf."""
    if isinstance(value, list | tuple):
        copies = (map_aggregate(each, fn) for each in value)
        return type(value)(*copies) if hasattr(value, "_fields") else plain(value)(copies)
    if isinstance(value, dict):
        return {key: map_aggregate(each, fn) for key, each in value.items()}
    if isinstance(value, slice):
        return slice(*(map_aggregate(each, fn) for each in (value.start, value.stop, value.step)))
    return fn(value)


def plain(value: list | tuple) -> type:
    return list if isinstance(value, list) else tuple


# --- pytest and rich, as far as a verdict needs them


class Console:
    """A terminal of 80 columns that keeps what is printed."""

    width, height, is_terminal = 80, 25, False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def print(self, text: str = "", **style: Any) -> None:
        """Keep a line."""
        self.lines.append(text)


class Text:
    """A text without its colours."""

    @staticmethod
    def assemble(*parts: str | tuple[str, str]) -> str:
        """Return the parts in one line."""
        return "".join(each if isinstance(each, str) else each[0] for each in parts)


def parametrize(names: str, values: list[Any], **ids: Any) -> Callable[..., Any]:
    """Mark a test with its cases, as ``pytest.mark.parametrize`` does."""

    def mark(test: Any) -> Any:
        test.cases = [{names: each} for each in values]
        return test

    return mark


Skipped = SimpleNamespace(Exception=type("Skipped", (BaseException,), {}))
NAMES: dict[str, dict[str, Any]] = {
    "torch": {"__version__": "0.0", "Tensor": Methods("Tensor", (), {"__module__": "torch"})},
    "torch.nn": {"Module": type("Module", (), {})},
    "torch.fx": {"Node": type("Node", (), {}), "Graph": type("Graph", (), {})},
    "torch.fx.node": {"map_aggregate": map_aggregate},
    "torch.fx.proxy": {"TraceError": type("TraceError", (ValueError,), {})},
    "torch.overrides": {"is_tensor_method_or_property": is_method},
    "torch.utils._pytree": {"tree_leaves": tree_leaves},
    "pytest": {
        "mark": SimpleNamespace(parametrize=parametrize),
        "skip": Skipped,
        "xfail": Skipped,
    },
    "rich.console": {"Console": Console},
    "rich.text": {"Text": Text},
    "rich.theme": {"Theme": dict},
}
