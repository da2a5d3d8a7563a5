"""Where things are in the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORES = ROOT / "solutions"
STRETCHES = CORES / "stretch"
STUBS = ROOT / "lessons"


def suites(lesson: str) -> list[str]:
    """The files of a lesson's tests below the repository's root: the core's, then the rest."""
    files = (f"tests/test_{lesson}.py", f"tests/stretch/test_{lesson}.py")
    return [file for file in files if (ROOT / file).exists()]


def lesson_files(folder: Path, lesson: str) -> list[Path]:
    """The Python files of a lesson in a folder: one module, or those of a package."""
    single = folder / f"{lesson}.py"
    return [*([single] if single.exists() else []), *sorted((folder / lesson).rglob("*.py"))]
