"""The layers of a lesson: its core and its stretch, the reference's and the suite's."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from kata.stubs import ROOT


def reference(lesson: str) -> ModuleType:
    """The whole reference of a lesson: its stretch, which stands on its core."""
    return import_module(f"solutions.stretch.{lesson}")


def core(lesson: str) -> ModuleType:
    """The core of a lesson's reference."""
    return import_module(f"solutions.{lesson}")


def suites(lesson: str) -> list[str]:
    """The files of a lesson's tests below the repository's root: the core's, then the rest."""
    files = (f"tests/test_{lesson}.py", f"tests/stretch/test_{lesson}.py")
    return [file for file in files if (ROOT / file).exists()]


def lesson_files(folder: Path, lesson: str) -> list[Path]:
    """The Python files of a lesson in a folder: one module, or those of a package."""
    single = folder / f"{lesson}.py"
    return [*([single] if single.exists() else []), *sorted((folder / lesson).rglob("*.py"))]
