"""Write the first lesson's notebook from its page and its stub: ``python -m tools.notebook``.

For people who have only a browser: the notebook clones the repository, installs what is missing,
has the stub in a cell, and judges it with ``kata check``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from kata.commands.hint import Hint, hints_of
from kata.paths import ROOT, STUBS
from lessons import LESSONS
from tools.pages.fences import fences
from tools.pages.lesson import LessonPage
from tools.pages.road import with_commands

LESSON = LESSONS[0]
NOTEBOOK = ROOT / f"notebooks/{LESSON.name}.ipynb"
NO_ADDRESS = "<the address of the repository>"
ADDRESS = re.compile(r'REPOSITORY = \\"(.+?)\\"')
Cell = dict[str, Any]

SETUP = """\
import os
import sys
import tomllib
from pathlib import Path

REPOSITORY = "ADDRESS"

if not Path("kata").exists():
    if not Path("fx-kata").exists():
        !git clone --quiet --depth 1 "{REPOSITORY}" fx-kata
    os.chdir("fx-kata")
project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
wanted = " ".join(f'"{each}"' for each in project["dependencies"])
!"{sys.executable}" -m pip install --quiet {wanted}
!"{sys.executable}" -m kata doctor
"""
START = """
## Start

The next cell clones the repository from the address in `REPOSITORY`, which you paste there if it
isn't one yet, and installs what is missing. A machine without PyTorch downloads it: that takes
minutes. The cell ends with what `kata doctor` says of the machine.
"""
WRITE = f"""
## Your code

The next cell is `lessons/{LESSON.name}.py`: running it writes the file. Fill in the functions one
after the other, run the cell, and run the one below it.
"""
JUDGE = f'!"{{sys.executable}}" -m kata check {LESSON.name}'
NEXT = f"""
## And then

`kata solution {LESSON.name}` compares yours with the reference. The other lessons are in
`lessons/`, and each has a page in `docs/lessons/`. On a machine of your own, `kata watch` judges
each time you save: the README says how to begin.
"""


def notebook(address: str) -> str:
    """The whole notebook, as JSON; ``address`` is where it clones the repository from."""
    cells = [{"id": f"cell-{number}", **cell} for number, cell in enumerate(written(address))]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def written(address: str) -> Iterator[Cell]:
    """The cells in order: the page as far as the exercise, the stub, the judge, the hints."""
    page = LessonPage.of(LESSON.name)
    yield prose(f"# {page.title}\n\n{page.goal}")
    yield prose(section(page, "Why torch needs it"))
    yield prose(START)
    yield code(SETUP.replace("ADDRESS", address))
    yield from with_examples(section(page, "Input and output"))
    yield prose(task(page))
    yield prose(WRITE)
    stub = (STUBS / f"{LESSON.name}.py").read_text(encoding="utf-8")
    yield code(f"%%writefile lessons/{LESSON.name}.py\n{stub}")
    yield code(JUDGE)
    yield prose("## Hints\n\n" + "\n".join(map(folded, hints_of(LESSON.name))))
    yield prose(NEXT)


def section(page: LessonPage, heading: str) -> str:
    """A section with its heading; links to other pages are their text alone."""
    text = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", page.sections[heading])
    return f"## {heading}\n\n{text.strip()}"


def task(page: LessonPage) -> str:
    """Return what the exercise asks for, without the file to open."""
    text = with_commands(section(page, "The exercise"), page.name)
    return text.replace(f"Open `lessons/{page.name}.py`. ", "")


def with_examples(text: str) -> Iterator[Cell]:
    """A section's prose and its code, each in cells of its own, without outputs and pictures."""
    start = 0
    for fence in fences(text):
        prose_before = text[start : fence.start].strip()
        if fence.language == "fx-graph":
            prose_before = prose_before.rpartition("\n\n")[0]  # the last paragraph leads to it
        if prose_before:
            yield prose(prose_before)
        if fence.language == "python":
            yield code(fence.text)
        start = fence.end
    if rest := text[start:].strip():
        yield prose(rest)


def folded(hint: Hint) -> str:
    """A hint, closed until it is asked for."""
    step = f" (step {hint.step})" * bool(hint.step)
    summary = f"Hint {hint.level}{step}: {hint.title}"
    return f"<details><summary>{summary}</summary>\n\n{hint.text}\n\n</details>\n"


def prose(text: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip("\n")}


def code(text: str) -> Cell:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": text.strip("\n"),
    }


def address_in(text: str) -> str:
    """The address that a notebook clones from."""
    found = ADDRESS.search(text)
    return found[1] if found else NO_ADDRESS


def main() -> None:
    present = NOTEBOOK.read_text(encoding="utf-8") if NOTEBOOK.exists() else ""
    fresh = notebook(os.environ.get("REPO_URL") or address_in(present))
    NOTEBOOK.parent.mkdir(exist_ok=True)
    NOTEBOOK.write_text(fresh, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
