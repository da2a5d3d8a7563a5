"""A pytest plugin: torch's tracers answer with the proxies of the lesson ``proxy``.

``pytest -p tests.suite.plugged tests/test_tracer.py`` judges a tracer on these proxies.
"""

from __future__ import annotations

from typing import Any

from torch import fx
from torch.fx.proxy import TracerBase

from solutions.proxy import Proxy


def pytest_configure() -> None:
    """Replace ``TracerBase.proxy`` for the whole run."""
    TracerBase.proxy = proxy  # type: ignore[method-assign]


def proxy(self: Any, node: fx.Node) -> Any:
    return Proxy(node, self)
