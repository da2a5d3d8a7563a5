"""Keep fresh what a page shows of an unsolved lesson: ``python -m tools.pages.unsolved [--write]``.

A lesson's page has a fence ``text title="before you start"``: what ``pytest`` says of the pristine
stub, without the seconds, which differ from run to run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from kata.layers import suites
from kata.stubs import ROOT
from lessons import LESSONS
from tools.pages.fences import Fence, fences
from tools.pages.lesson import page_of
from tools.stubs import write

TITLE = "before you start"
VERDICT = re.compile(r"^=+ (?P<counts>\d+ \w+(?:, \d+ \w+)*)(?: in [\d.]+s.*)? =+$", re.MULTILINE)
COLUMNS = 80
COUNT = re.compile(r"(\d+) (\w+)")


def shown(lesson: str) -> Fence:
    """The fence that shows the unsolved lesson."""
    for fence in fences(page_of(lesson).read_text(encoding="utf-8")):
        if fence.title == TITLE:
            return fence
    raise LookupError(f'{page_of(lesson)} has no fence with title="{TITLE}"')


def counts(text: str) -> dict[str, int]:
    """How many tests of which outcome a run of pytest reports."""
    verdict = VERDICT.search(text)
    return {name: int(count) for count, name in COUNT.findall(verdict[0] if verdict else "")}


def came(lesson: str, folder: Path) -> str:
    """What pytest says of the stubs in a folder, without its opening lines and the seconds."""
    words = [*suites(lesson), "--lessons", str(folder)]
    screen = os.environ | {"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", *words]
    run = subprocess.run(command, cwd=ROOT, env=screen, capture_output=True, text=True, check=False)
    text = run.stdout[max(run.stdout.find(words[0]), 0) :].strip("\n")
    return VERDICT.sub(lambda verdict: f" {verdict['counts']} ".center(COLUMNS, "="), text)


def rewrite(lesson: str, text: str) -> None:
    """Put what came in the place of what the page shows."""
    fence, page = shown(lesson), page_of(lesson).read_text(encoding="utf-8")
    fresh = page[: fence.inner.start] + fence.in_place(text) + page[fence.inner.stop :]
    page_of(lesson).write_text(fresh)


def stale(lesson: str) -> str:
    """What comes, if the lesson's page shows something else; empty if it shows that."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        fresh = came(lesson, Path(folder))
    return "" if fresh == shown(lesson).text else fresh


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="rewrite what is stale")
    parser.add_argument("lessons", nargs="*", help="all if none is named")
    arguments = parser.parse_args()
    found = False
    for name in arguments.lessons or [lesson.name for lesson in LESSONS]:
        if fresh := stale(name):
            found = True
            print(f"{name}: stale", file=sys.stderr)
            if arguments.write:
                rewrite(name, fresh)
    return found and not arguments.write


if __name__ == "__main__":
    sys.exit(main())
