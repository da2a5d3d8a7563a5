"""The reference on torch's own tracer: how the suite judges a lesson that torch has no code for.

Some lessons build on a tracer, and torch has the tracer and not the rest. Here the reference of
such a lesson imports torch's ``Tracer`` where it says ``from .tracer import Tracer``. Its tests
are then true of torch's tracer too, and not just of ours.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from kata.paths import CORES

PACKAGE = "reference_on_torch"


def on_torch(lesson: str) -> ModuleType:
    """Import the reference of a lesson with ``tests.oracle.tracer`` as its sibling ``tracer``.

    Args:
        lesson: The lesson's name; it needs the tracer alone.

    Returns:
        The lesson's module.
    """
    package = ModuleType(PACKAGE)
    package.__path__ = [str(CORES)]
    sys.modules.setdefault(PACKAGE, package)
    oracle = importlib.import_module("tests.oracle.tracer")
    for name in ("tracer", "stretch.tracer"):
        sys.modules.setdefault(f"{PACKAGE}.{name}", oracle)
    return importlib.import_module(f"{PACKAGE}.stretch.{lesson}")
