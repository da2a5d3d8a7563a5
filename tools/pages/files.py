"""The files of a lesson on its page, folded: the stub, the core and the stretch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kata.paths import CORES, ROOT, SOLUTIONS, lesson_files

HEADING = "### The files { data-search-exclude }"
SHARED = Path("solutions/stretch/_paths.py")  # the stretches of some lessons import it
FILE = """
    ??? {box} "Show {label}"

        ```python title="{path}"
        --8<--
        {path}
        --8<--
        ```
"""


def with_files(text: str, lesson: str) -> str:
    """Return a lesson's page with the files below their heading.

    >>> page = with_files(HEADING, "path_of_module")
    >>> [line.strip() for line in page.splitlines() if "Show" in line]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['??? example "Show the stub"', '??? success "Show `path_of_module.py`"',
     '??? success "Show `stretch/path_of_module.py`"', '??? success "Show `stretch/_paths.py`"']
    """
    return text.replace(HEADING, f"{HEADING}\n\n{files_of(lesson)}")


def files_of(lesson: str) -> str:
    """Return the two tabs, and the command that times the learner's code."""
    stub = FILE.format(box="example", label="the stub", path=f"lessons/{lesson}.py")
    solution = "".join(
        FILE.format(box="success", label=f"`{path.relative_to('solutions')}`", path=path)
        for path in paths_of(lesson)
    )
    return (
        f'=== "Exercise"\n{stub}\n=== "Solution"\n{solution}\n'
        f"How fast is yours? `pytest benchmarks/test_{lesson}.py --impl lessons` compares its "
        "time with torch's."
    )


def paths_of(lesson: str) -> Iterator[Path]:
    """Yield the paths of the reference's files, below the repository's root."""
    stretch = [path.relative_to(ROOT) for path in lesson_files(SOLUTIONS, lesson)]
    yield from (path.relative_to(ROOT) for path in lesson_files(CORES, lesson))
    yield from stretch
    if any(SHARED.stem in (ROOT / path).read_text(encoding="utf-8") for path in stretch):
        yield SHARED
