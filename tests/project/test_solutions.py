"""The pages about the solutions: every difference from torch, and where torch does it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from kata.paths import ROOT
from lessons import LESSONS
from tools.pages.differences import ROW, as_html, differences, differences_fence
from tools.pages.torch_places import lines_of, places_in

every_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
# File, name, and a word or two about what it does.
TOLD = re.compile(r"\| `[\w/.]+` \| `[\w.]+` \| .*[a-z]{3}.* \|")


def section(lesson: str, title: str) -> str:
    page = (ROOT / f"docs/solutions/{lesson}.md").read_text(encoding="utf-8")
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@every_lesson
def test_a_page_shows_the_differences_that_its_lesson_has(lesson):
    fence = f"```differences\n{lesson.name}\n```"
    shown = fence in section(lesson.name, "Where ours differs")
    assert shown == any(differences(lesson.name))


def test_a_difference_is_a_row_of_two_sentences():
    table = differences_fence("path_of_module", "differences", "", {}, None)
    ours, torchs = next(differences("path_of_module"))
    assert ROW.format(as_html(ours), as_html(torchs)) in table
    assert "<code>" in table


@every_lesson
def test_every_counterpart_exists_in_torch(lesson):
    table = section(lesson.name, "In torch")
    places = list(places_in(table))
    assert len(places) >= 3
    assert not [f"{file}: {name}" for file, name in places if name not in names_in(file)]
    assert all(TOLD.fullmatch(row) for row in table.splitlines() if row.startswith("| `"))


def names_in(file: str) -> set[str]:
    return set(lines_of(Path(torch.__file__).parents[1] / file))
