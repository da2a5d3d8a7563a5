"""Write the stubs of all lessons from the cores: ``python -m tools.stubs``."""

from __future__ import annotations

from pathlib import Path

from kata.paths import STUBS
from kata.stubs import stubs


def write(folder: Path) -> list[str]:
    """Write every stub below ``folder``, and return the files whose text changed."""
    stale = stale_in(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in stubs().items():
        (folder / name).write_text(text, encoding="utf-8")
    return stale


def stale_in(folder: Path) -> list[str]:
    """The files below ``folder`` that are missing or aren't the stubs of today's solutions."""
    return [
        name
        for name, text in stubs().items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text
    ]


if __name__ == "__main__":
    for name in write(STUBS):
        print(f"lessons/{name} written")
