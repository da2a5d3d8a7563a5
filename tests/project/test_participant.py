"""What a participant sees, to the letter: ``tests/golden/<scene>/`` holds a lesson and its screen.

After a wanted change of the screens, write them anew:
``GOLDEN=write pytest --impl full tests/project/test_participant.py``.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from kata.paths import ROOT, suites
from tests.suite.answers import Verdict, judge_folder, test_name
from tests.suite.expect import WIDTH
from tests.suite.explain import LINES
from tools.stubs import write

GOLDEN = ROOT / "tests" / "golden"
# A scene is played on few tests, so that its screen stays as it is when the suite grows.
PATH, ARG = "tests/test_path_of_module.py::test_", "tests/test_create_arg.py::test_"
SCENES = {
    "not_started": [f"{PATH}the_root_is_the_empty_string", f"{PATH}a_foreign_module_is_refused"],
    "wrong_value": [
        f"{PATH}the_root_is_the_empty_string",
        f"{PATH}the_first_of_two_names_is_the_path",
        f"{PATH}a_foreign_module_is_refused",
        f"{PATH}a_module_tree_with_a_cycle_ends",
    ],
    "wrong_graph": [f"{ARG}a_trace_with_it_is_the_trace_of_torch[NestedContainers]"],
    "own_exception": [f"{PATH}the_root_is_the_empty_string", f"{PATH}a_foreign_module_is_refused"],
    "syntax_error": [f"{PATH}the_root_is_the_empty_string", f"{PATH}a_foreign_module_is_refused"],
    "endless_recursion": [
        f"{ARG}a_plain_value_stays_itself[on_tracer_base-1]",
        f"{ARG}a_named_tuple_is_built_by_a_node[on_tracer_base]",
    ],
}


def play(scene: str, folder: Path) -> Verdict:
    """Run the suite on pristine stubs and what the scene's learner has written."""
    write(folder)
    for file in (GOLDEN / scene).glob("*.py"):
        shutil.copy(file, folder)
    return judge_folder(folder, *SCENES[scene])


def screen(verdict: Verdict, folder: Path) -> str:
    """Return what the terminal shows, without times and without the folder's random name."""
    text = re.sub(r" in \d+\.\d+s( \(.*\))?", " in N s", verdict.terminal)
    text = re.sub(r"^=+ (.*?) =+$", r"=== \1 ===", text, flags=re.MULTILINE)
    text = re.sub(r"KeyError: \d+", "KeyError: N", text)
    return text.replace(folder.name, "lessons").replace("<lessons>", "lessons")


@pytest.fixture(autouse=True)
def a_terminal_of_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))


@pytest.mark.parametrize("scene", SCENES)
def test_the_screen_is_the_golden_one(scene: str, tmp_path: Path):
    golden, seen = GOLDEN / scene / "screen.txt", screen(play(scene, tmp_path), tmp_path)
    if os.environ.get("GOLDEN") == "write":
        golden.write_text(seen)
    assert seen == golden.read_text()


@pytest.mark.parametrize("scene", SCENES)
def test_a_failure_fits_a_terminal_and_shows_no_frames_of_ours(scene: str, tmp_path: Path):
    for text in play(scene, tmp_path).texts():
        assert len(text.splitlines()) <= LINES
        assert max(map(len, text.splitlines())) <= WIDTH
        assert "site-packages" not in text
        assert "tests/suite" not in text


def test_a_syntax_error_fails_its_own_lesson_alone(tmp_path: Path):
    write(tmp_path)
    shutil.copy(GOLDEN / "syntax_error" / "path_of_module.py", tmp_path)
    (tmp_path / "tracer.py").write_text(A_TRACER_OF_ONES_OWN)  # imports the broken lesson
    siblings = [f"{ARG}a_proxy_becomes_its_node", "tests/test_tracer.py::test_a_function_is_traced"]
    verdict = judge_folder(tmp_path, "tests/test_path_of_module.py", *siblings)
    assert {report.lesson for report in verdict.reports if report.passed} == {"tracer"}
    assert {report.lesson for report in verdict.reports if report.failed} == {"path_of_module"}
    assert all(":3" in text for text in verdict.texts())


def test_unwritten_siblings_are_lent_and_written_ones_are_not(tmp_path: Path):
    write(tmp_path)
    (tmp_path / "create_arg.py").write_text("class CreateArg:\n    pass\n")
    (tmp_path / "tracer.py").write_text(A_TRACER_OF_ONES_OWN)
    verdict = judge_folder(tmp_path, "tests/test_tracer.py::test_a_function_is_traced")
    assert verdict.count("passed") == 1
    assert "lent by the reference: path_of_module, placeholders\n" in verdict.terminal


# What asks for a function of the lesson, and not for its method.
STEPS = {
    "test_a_tensor_that_the_model_holds_has_a_path",
    "test_a_tensor_that_the_model_does_not_hold_has_no_path",
    "test_an_attribute_of_any_kind_is_found",
    "test_an_attribute_is_found_without_being_read",
    "test_a_function_has_these_inputs",
    "test_any_other_function_can_be_called_by_position",
    "test_a_function_that_takes_all_by_position_is_returned_itself",
}

A_TRACER_OF_ONES_OWN = """
import torch
from .create_arg import CreateArg
from .path_of_module import PathOfModule
from .placeholders import Placeholders

class Tracer(PathOfModule, Placeholders, CreateArg, torch.fx.Tracer):
    pass
"""


@pytest.mark.parametrize("lesson", ["path_of_module", "create_arg", "placeholders"])
def test_a_misspelt_method_is_not_answered_by_torchs(lesson: str, tmp_path: Path):
    write(tmp_path)
    file = tmp_path / f"{lesson}.py"
    source = (ROOT / "solutions" / f"{lesson}.py").read_text()
    method = {"placeholders": "create_args_for_root"}.get(lesson, lesson)
    file.write_text(source.replace(f"def {method}(", f"def {method}s("))
    verdict = judge_folder(tmp_path, *suites(lesson), "-m", "core")
    passed = {test_name(report) for report in verdict.reports if report.outcome == "passed"}
    assert passed <= STEPS
    assert all(f"a method `{method}`" in text for text in verdict.texts())
