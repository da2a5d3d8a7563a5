"""What a learner's lessons can do together: scripts in ``examples/``, each named after a lesson.

When the core of that lesson turns green, and the script imports nothing that isn't the learner's,
the screen says what the script shows and how to run it. The words are the script's docstring.
"""

from __future__ import annotations

import ast
import re

from kata import progress
from kata.naming import NAMES
from kata.stubs import ROOT

LESSON = re.compile(r"lessons\.(\w+)")


def milestone(lesson: str) -> str:
    """Return what the lessons can do now that this one is green; empty if others are missing."""
    file = ROOT / "examples" / f"{lesson}.py"
    if not file.exists():
        return ""
    source = file.read_text(encoding="utf-8")
    imported = [name for name in LESSON.findall(source) if name in NAMES]
    needed = {need for name in imported for need in (name, *progress.all_needs(name))} - {lesson}
    if not all(map(progress.is_yours, needed)):
        return ""
    words = (ast.get_docstring(ast.parse(source)) or "").strip()
    return f"{words} To see it: `kata run examples/{lesson}.py`"
