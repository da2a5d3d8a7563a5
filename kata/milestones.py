"""What a learner's lessons can do together: scripts in ``examples/``, each named after a lesson.

When the core of that lesson turns green, and the script imports nothing that isn't the learner's,
the screen says what the script shows and how to run it. The words are the script's docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kata import progress
from kata.paths import ROOT
from lessons import FINALE


def milestone(lesson: str) -> str:
    """Return what the lessons can do now that this one is green; empty if others are missing."""
    # The finale shows what its last lesson does.
    name = FINALE.needs[-1] if lesson == FINALE.name else lesson
    file = ROOT / "examples" / f"{name}.py"
    if not file.exists():
        return ""
    script = ast.parse(file.read_text(encoding="utf-8"))
    imported = {need for name in lessons_in(script) for need in (name, *progress.all_needs(name))}
    if not all(map(progress.is_yours, imported - {lesson})):
        return ""
    return f"{ast.get_docstring(script)} To see it: `kata run examples/{name}.py`"


def lessons_in(script: ast.Module) -> Iterator[str]:
    """The lessons that a script imports: ``from lessons.X import …``, ``from lessons import X``."""
    for node in script.body:  # what a function imports is an option
        if isinstance(node, ast.ImportFrom):
            package, _, lesson = (node.module or "").partition(".")
            if package == "lessons":
                names = [lesson] if lesson else [alias.name for alias in node.names]
                yield from (name for name in names if name in progress.NEEDS)
