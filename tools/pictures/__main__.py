"""Write the data of the pictures, or name stale ones: ``python -m tools.pictures [--check]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.pages.graph_fence import PICTURES
from tools.pictures.gallery import GALLERY


def texts() -> dict[str, str]:
    """Each picture's data as its file holds them, by the picture's name."""
    return {name: make().text() for name, make in GALLERY.items()}


def stale_in(folder: Path) -> list[str]:
    """The names of the files in a folder that are missing, out of date, or of no picture."""
    wanted = {f"{name}.json": text for name, text in texts().items()}
    found = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.json")}
    return sorted(name for name in wanted | found if wanted.get(name) != found.get(name))


def write(folder: Path) -> list[str]:
    """Write all pictures' files, remove those of no picture, and name those that changed."""
    stale = stale_in(folder)
    for file in folder.glob("*.json"):
        if file.stem not in GALLERY:
            file.unlink()
    for name, text in texts().items():
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return stale


def main() -> int:
    parser = argparse.ArgumentParser(description="Trace what docs/pictures/ shows.")
    parser.add_argument("--check", action="store_true", help="write nothing, name stale files")
    arguments = parser.parse_args()
    stale = stale_in(PICTURES) if arguments.check else write(PICTURES)
    verdict = "is stale: run `nox -s pictures`" if arguments.check else "written"
    for name in stale:
        print(f"docs/pictures/{name} {verdict}")
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
