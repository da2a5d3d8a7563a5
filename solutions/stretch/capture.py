"""Unlike the core: nothing yet."""

from __future__ import annotations

from ..capture import *  # noqa: F403
