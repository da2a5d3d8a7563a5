"""Write the stubs of all lessons, or name stale ones: ``python -m tools.stubs [--check]``."""

from __future__ import annotations

import argparse
import sys
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


def main() -> int:
    """Write the stubs, or check that they are fresh; the exit code is 1 if some are stale."""
    parser = argparse.ArgumentParser(description="Write the stubs in lessons/ from solutions/.")
    parser.add_argument("--check", action="store_true", help="write nothing, name stale stubs")
    arguments = parser.parse_args()
    stale = stale_in(STUBS) if arguments.check else write(STUBS)
    for name in stale:
        print(f"lessons/{name} {'is stale: run `nox -s stubs`' if arguments.check else 'written'}")
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
