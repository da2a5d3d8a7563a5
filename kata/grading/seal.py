"""Notice that a run replaced what judges it: functions of the suite, of pytest, of torch's own side.

Each function and each method of the watched modules is marked before the lesson is imported, by
identity, code and defaults. What differs afterwards is named. Code that fails to put something back
is found as well as code that means it: either way the tests judged by something else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from pluggy import PluginManager

SUITE = ("tests",)
WATCHED = (
    "_pytest",
    "builtins",
    "json",
    "kata",
    "operator",
    "os",
    "pluggy",
    "tests",
    "torch._tensor",
    "torch.distributed.fsdp._trace_utils",
    "torch.export",
    "torch.fx",
    "torch.nn.modules.module",
    "torch.testing",
)
MOST = 5
# What belongs to the judge in a test's module; the rest is the test's own, which a trace may wrap.
JUDGING = ("tests.suite", "kata.comparing", "_pytest")


class Mark(NamedTuple):
    """One function, where it hangs, and what it was."""

    name: str
    owner: Mapping[str, Any]
    key: str
    value: object
    function: FunctionType | None
    inside: tuple[object, ...]

    @property
    def is_broken(self) -> bool:
        if self.owner.get(self.key) is not self.value:
            return True
        return self.function is not None and not same(inside_of(self.function), self.inside)


class Seal:
    """The marks of one run, and the names of those that were found broken."""

    def __init__(self, plugins: PluginManager) -> None:
        modules = [module for name, module in list(sys.modules.items()) if is_in(name, WATCHED)]
        self.marks = [mark for module in modules for mark in marks_of(module)]
        self.suite = [mark for mark in self.marks if is_in(mark.name, SUITE)]
        self.plugins = plugins
        self.hooks = hooks_of(plugins)
        self.found: dict[str, None] = {}

    def look_at_the_suite(self) -> None:
        """Note what is broken in the suite now; cheap enough to do after each test."""
        self.found.update((mark.name, None) for mark in self.suite if mark.is_broken)

    def broken(self) -> list[str]:
        """The names of all that was found broken so far, or is broken now."""
        self.found.update((mark.name, None) for mark in self.marks if mark.is_broken)
        if hooks_of(self.plugins) != self.hooks:
            self.found["the plugins of pytest"] = None
        return list(self.found)[:MOST]


def marks_of(module: ModuleType) -> Iterator[Mark]:
    """The functions that a module defines or uses to judge, and the methods of its classes."""
    for key, value in list(vars(module).items()):
        if not callable(value) or not is_judging(value, module.__name__):
            continue
        yield mark(module.__name__, vars(module), key, value)
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from (
                mark(f"{module.__name__}.{value.__name__}", vars(value), name, member)
                for name, member in list(vars(value).items())
                if callable(member) or isinstance(member, property | classmethod | staticmethod)
            )


def is_judging(value: object, module: str) -> bool:
    if not module.startswith("tests.test_"):
        return True
    return is_in(str(getattr(value, "__module__", "")), JUDGING)


def mark(prefix: str, owner: Mapping[str, Any], key: str, value: object) -> Mark:
    function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    if not isinstance(function, FunctionType):
        return Mark(f"{prefix}.{key}", owner, key, value, None, ())
    return Mark(f"{prefix}.{key}", owner, key, value, function, inside_of(function))


def inside_of(function: FunctionType) -> tuple[object, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def same(ours: tuple[object, ...], theirs: tuple[object, ...]) -> bool:
    return all(our is their for our, their in zip(ours, theirs, strict=True))


def hooks_of(plugins: PluginManager) -> list[tuple[str, int]]:
    """Each hook's implementations, in the order in which they are called."""
    names = sorted(name for name in vars(plugins.hook) if name.startswith("pytest_"))
    return [
        (name, id(implementation.function))
        for name in names
        for implementation in getattr(plugins.hook, name).get_hookimpls()
    ]


def is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in packages)
