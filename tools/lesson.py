"""Say what a lesson lacks: ``python -m tools.lesson [NAME]``, all lessons if none is named."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from kata.paths import ROOT
from lessons import LESSONS

NAME = "LESSON"
# Every file of a lesson. The stub is generated from the core.
PLACES = (
    "benchmarks/test_LESSON.py",
    "docs/lessons/LESSON.md",
    "docs/solutions/LESSON.md",
    "lessons/LESSON.py",
    "solutions/LESSON.py",
    "solutions/stretch/LESSON.py",
    "tests/answers/LESSON.py",
    "tests/models/LESSON.py",
    "tests/oracle/LESSON.py",
    "tests/stretch/test_LESSON.py",
    "tests/test_LESSON.py",
)
# Tables that have a line for each lesson, and how that line is recognised.
TABLES = {
    "lessons/__init__.py": ('name="LESSON"',),
    "tests/project/limits.py": ('"LESSON": ',),
    "README.md": ("](docs/lessons/LESSON.md)",),
    "docs/instructors.md": ("](lessons/LESSON.md)",),
    "docs/api/index.md": ("](LESSON.md)",),
    "mkdocs.yml": ("- lessons/LESSON.md", "- solutions/LESSON.md", "- api/LESSON.md"),
}


def lacking(lesson: str, root: Path = ROOT) -> Iterator[str]:
    """Yield the files and the lines in tables that a lesson doesn't have yet."""
    for place in (place.replace(NAME, lesson) for place in PLACES):
        if not is_there(root / place):
            yield f"{place} is missing{': nox -s stubs' * place.startswith('lessons/')}"
    for table, entries in TABLES.items():
        text = (root / table).read_text(encoding="utf-8")
        for entry in (entry.replace(NAME, lesson) for entry in entries):
            if entry not in text:
                yield f"{table} has no entry with {entry}"


def is_there(path: Path) -> bool:
    """Return whether a file is there, or a package of its name."""
    return path.exists() or (path.with_suffix("") / "__init__.py").exists()


def lesson_name(text: str) -> str:
    """A name that a lesson can have: a Python name, without capitals and digits."""
    if not re.fullmatch(r"[a-z]+(_[a-z]+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a name like path_of_module")
    return text


def main() -> int:
    """Look at one lesson or at all of them; the exit code is 1 if something is lacking."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("lesson", nargs="?", type=lesson_name, help="all if none is named")
    lesson = parser.parse_args().lesson
    names = [lesson] if lesson else [each.name for each in LESSONS]
    found = {name: list(lacking(name)) for name in names}
    for name, lines in found.items():
        print(f"{name}: {'nothing is lacking' if not lines else f'{len(lines)} things to do'}")
        for line in lines:
            print(f"  {line}")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
