"""The pages about the solutions: every difference from torch, and where torch does it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kata.layers import suites
from kata.stubs import ROOT
from lessons import LESSONS
from tools.pages.torch_places import definitions, places_in

every_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
# File, name, and a word or two about what it does.
TOLD = re.compile(r"\| `[\w/.]+` \| `[\w.]+` \| .*[a-z]{3}.* \|")


def section(lesson: str, title: str) -> str:
    page = (ROOT / f"docs/solutions/{lesson}.md").read_text(encoding="utf-8")
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@every_lesson
def test_every_test_that_torch_fails_stands_in_the_table_of_differences(lesson):
    rows = re.findall(r"^\| (.+?) \| .+ \|$", section(lesson.name, "Where ours differs"), re.M)
    said = {letters(row) for row in rows} - {"ours"}
    assert said == {letters(name) for name in beyond(lesson.name)}


def beyond(lesson: str) -> Iterator[str]:
    """The names of the tests that torch fails."""
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in suites(lesson)]
    for test in [statement for text in texts for statement in ast.parse(text).body]:
        if isinstance(test, ast.FunctionDef):
            marks = " ".join(ast.unparse(decorator) for decorator in test.decorator_list)
            if "mark.beyond(" in marks:
                yield test.name.removeprefix("test_")


def letters(sentence: str) -> str:
    """A sentence without spaces and marks: so a page may set `code` and commas."""
    return re.sub(r"[^a-z0-9]", "", sentence.lower())


def test_a_difference_that_is_not_told_would_be_noticed():
    assert letters("the `state_dict` of a model, torch's") == letters(
        "the_state_dict_of_a_model_torchs"
    )
    assert "a_module_without_a_hash_has_a_path" in beyond("path_of_module")


@every_lesson
def test_every_counterpart_exists_in_torch(lesson):
    table = section(lesson.name, "In torch")
    places = list(places_in(table))
    assert len(places) >= 3
    assert not [f"{file}: {name}" for file, name in places if name not in names_in(file)]
    assert all(TOLD.fullmatch(row) for row in table.splitlines() if row.startswith("| `"))


def names_in(file: str) -> dict[str, str]:
    return definitions(Path(torch.__file__).parents[1] / file)


def test_a_counterpart_that_is_not_there_would_be_noticed():
    assert "Tracer.trace.collect_tensor_attrs" in names_in("torch/fx/_symbolic_trace.py")
    assert "Tracer.tracing" not in names_in("torch/fx/_symbolic_trace.py")
