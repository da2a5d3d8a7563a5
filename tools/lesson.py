"""Lay out a new lesson's files, and say what a lesson lacks: ``python -m tools.lesson [NAME]``.

The folder ``tools/templates`` is laid out as the repository is: what it holds, with a lesson's name
for ``LESSON``, is what every lesson has. The files are written once and never again. Each says
``FILL IN`` where something is to be written, and no lesson is finished while one still does.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from kata.paths import ROOT
from lessons import LESSONS

TEMPLATES = ROOT / "tools/templates"
NAME = "LESSON"
UNFILLED = re.compile(r"FILL[ _.]IN")
# Tables that have a line for each lesson, and how that line is recognised.
TABLES = {
    "lessons/__init__.py": ('name="LESSON"',),
    "tests/project/limits.py": ('"LESSON": ',),
    "README.md": ("](docs/lessons/LESSON.md)",),
    "docs/instructors.md": ("](lessons/LESSON.md)",),
    "docs/api/index.md": ("](LESSON.md)",),
    "mkdocs.yml": (
        "- lessons/LESSON.md",
        "- solutions/LESSON.md",
        "- api/LESSON.md",
    ),
}


def places() -> tuple[str, ...]:
    """The path of every file that a lesson has, below the root, with ``LESSON`` for its name."""
    templates = [path for path in TEMPLATES.rglob("*.txt") if path.is_file()]
    written = [path.relative_to(TEMPLATES).with_suffix("").as_posix() for path in templates]
    # The stub is generated from the core.
    return tuple(sorted([*written, f"lessons/{NAME}.py"]))


def lay_out(lesson: str, root: Path = ROOT) -> Iterator[Path]:
    """Write those of the lesson's files that aren't there, and yield their paths below the root."""
    for place in places():
        template = TEMPLATES / f"{place}.txt"
        path = Path(place.replace(NAME, lesson))
        if template.exists() and not is_there(root / path):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            text = template.read_text(encoding="utf-8").replace(NAME, lesson)
            (root / path).write_text(text, encoding="utf-8", newline="\n")
            yield path


def is_there(path: Path) -> bool:
    """Return whether a file is there, or a package of its name."""
    return path.exists() or (path.with_suffix("") / "__init__.py").exists()


def lacking(lesson: str, root: Path = ROOT) -> Iterator[str]:
    """Yield what a lesson lacks, a line each: files, lines in tables, text that isn't written."""
    for path in (Path(place.replace(NAME, lesson)) for place in places()):
        if not is_there(root / path):
            yield f"{path.as_posix()} is missing{': nox -s stubs' * (path.parts[0] == 'lessons')}"
        elif (root / path).exists():
            yield from unfilled(path, root)
    for table, entries in TABLES.items():
        text = (root / table).read_text(encoding="utf-8")
        for entry in (entry.replace(NAME, lesson) for entry in entries):
            if entry not in text:
                yield f"{table} has no entry with {entry}"


def unfilled(path: Path, root: Path) -> Iterator[str]:
    """Yield the places in a file that wait for text, as a terminal makes them clickable."""
    for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
        if UNFILLED.search(line):
            yield f"{path.as_posix()}:{number}: {line.strip()}"


def lesson_name(text: str) -> str:
    """A name that a lesson can have: a Python name, without capitals and digits."""
    if not re.fullmatch(r"[a-z]+(_[a-z]+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a name like path_of_module")
    return text


def main() -> int:
    """Lay out a lesson, or look at all of them; the exit code is 1 if something is lacking."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("lesson", nargs="?", type=lesson_name, help="all if none is named")
    lesson = parser.parse_args().lesson
    if lesson:
        for path in lay_out(lesson):
            print(f"{path.as_posix()} written")
    names = [lesson] if lesson else [each.name for each in LESSONS]
    found = {name: list(lacking(name)) for name in names}
    for name, lines in found.items():
        print(f"{name}: {'nothing is lacking' if not lines else f'{len(lines)} things to do'}")
        for line in lines:
            print(f"  {line}")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
