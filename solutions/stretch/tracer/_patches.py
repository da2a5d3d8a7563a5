"""Names that mean something else for a while, counted by those who use them.

A name is patched once, however many traces want it, and put back when the last of them leaves.
"""

from __future__ import annotations

import builtins
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.fx import _symbolic_trace as torch_fx

from .._torch import tracing_flag

if TYPE_CHECKING:
    from collections.abc import Callable

# Where a name can be patched: a class, or the globals of a module.
Place = type | dict[str, Any]

# What a name means where nothing has that name.
ABSENT: Any = object()
# The globals of torch's own tracer, where it notes that a trace is on.
TORCH_STATE: dict[str, Any] = torch_fx.__dict__


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
                before = _entries(place).get(name, ABSENT)
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
        with self._lock:  # or another thread could patch or restore it between the two looks
            patch = self._patches.get((id(place), name))
            return _meaning(place, name) if patch is None else patch.original

    def originals(self, namespace: dict[str, Any]) -> dict[str, Any]:
        """Return what all the names in the globals of a module mean when nobody traces."""
        patches = [patch for patch in self._patches.copy().values() if patch.place is namespace]
        return namespace | {patch.name: patch.original for patch in patches}

    # torch.compile calls these two when it compiles something in the middle of a trace. The flag
    # that says whether fx is tracing is its own business.

    def revert_all_patches(self) -> list[Patch]:
        """Undo the patches for a while."""
        with self._lock:
            patches = self._not_torchs_own()
            for patch in patches:
                patch.undo()
            return patches

    def reapply_all_patches(self) -> list[Patch]:
        """Apply the patches again."""
        with self._lock:
            patches = self._not_torchs_own()
            for patch in patches:
                patch.apply()
            return patches

    def _not_torchs_own(self) -> list[Patch]:
        notes = (id(TORCH_STATE), id(tracing_flag()[0]))
        return [patch for (place, _), patch in self._patches.items() if place not in notes]


PATCHES = PatchTable()


def _meaning(place: Place, name: str) -> Any:
    """Return what a name stands for in a place, inherited or built in though it may be."""
    if isinstance(place, type):
        return getattr(place, name)
    return place[name] if name in place else getattr(builtins, name, ABSENT)


def _entries(place: Place) -> Any:
    return place if isinstance(place, dict) else vars(place)


def _put(place: Place, name: str, value: Any) -> None:
    if isinstance(place, dict):
        if value is ABSENT:
            place.pop(name, None)
        else:
            place[name] = value
    elif value is ABSENT:
        delattr(place, name)
    else:
        setattr(place, name, value)
