"""Steps: headings in a suite, judged alone by ``--step``, in an order that a learner can follow."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from kata import progress
from kata.commands.watch import Watch
from kata.paths import CORES, ROOT
from kata.showing import next_step
from kata.steps import functions_of, steps_of, steps_of_functions
from kata.stubs import stub
from kata.terminal import open_console
from lessons import NAMES
from tests.project.stage import play, report, solve, verdict
from tests.suite.answers import judge_folder, run_suite

TEST = re.compile(r"^def test_\w+", re.MULTILINE)


@pytest.mark.parametrize("lesson", NAMES)
def test_the_steps_of_a_lesson_are_numbered_and_each_has_tests_and_functions(lesson: str):
    steps = steps_of(lesson)
    assert steps
    assert sorted(steps) == list(range(1, len(steps) + 1))
    lines = (ROOT / f"tests/test_{lesson}.py").read_text().splitlines()
    for section in steps.values():
        assert TEST.search("\n".join(lines[section.lines.start : section.lines.stop - 1]))
    written = [step for own in steps_of_functions(lesson).values() for step in own]
    assert set(written) == steps.keys()
    page = (ROOT / f"docs/lessons/{lesson}.md").read_text()
    assert {int(number) for number in re.findall(r"--step (\d+)", page)} <= steps.keys()
    assert '-k "' not in page


def test_a_step_is_judged_by_its_own_tests_and_the_result_is_not_kept(learner, warm):
    core = (CORES / "graph.py").read_text()
    broken = core.replace("            self._insert = before", "            pass")
    progress.write(progress.file_of("graph"), broken.encode())
    names, creating = (play("check", "graph", "--step", step) for step in "14")
    assert (names.code, names.screen.split()) == (0, "green graph step 1: 5 of 5 (names)".split())
    assert creating.code == 1
    assert "the insertion point wasn't restored after its block" in creating.screen
    assert progress.recall("graph") is None


def test_a_test_of_random_programs_is_judged_in_its_own_step():
    for step, expected in ((1, False), (5, True)):
        run = run_suite("tests/test_graph.py", f"--step={step}", "--collect-only")
        assert ("test_random_edits" in run.terminal) is expected
    shown = run_suite("tests/test_placeholders.py", "--step=1", "--collect-only").terminal
    assert "test_a_default_is_kept" in shown
    assert "test_a_random_signature" not in shown


def test_a_step_that_is_not_there_lists_those_that_are(learner):
    played = play("check", "graph", "--step", "9")
    assert played.code == 1
    assert "graph has no step 9; its steps are\n  1: names\n" in played.screen
    assert "chain has no steps" in play("check", "chain", "--step", "1").screen
    assert "--step needs one lesson" in play("check", "--step", "1").screen
    assert "--step needs one lesson" in play("watch", "--step", "1").screen


def test_a_watch_of_one_step_asks_for_it_and_shows_no_milestone(learner):
    solve("graph")
    judge, console = mock.Mock(), open_console()
    watch = Watch(judge, console, mock.Mock(), "graph", 2)
    watch.begin("graph")
    (request,) = judge.start.call_args.args
    assert (request.lesson, request.step) == ("graph", 2)
    with console.capture() as shown:
        watch.conclude(replace(verdict("graph", report("passed")), step=2), request)
    assert shown.get().startswith("green     graph           step 2: 1 of 1 (arguments and users)")
    assert "kata run" not in shown.get()


def test_the_next_step_is_that_of_the_first_test_that_waits(learner):
    lesson = "custom_tracers"
    waiting = [
        replace(report("todo", f"{lesson}: {name}"), line=7)
        for name in ("A.second", "A.second", "A.second", "first")
    ]
    run = verdict(lesson, *waiting, skip=1)
    assert next_step(run) == ""  # no lesson was begun
    file = learner.lessons / f"{lesson}.py"
    file.write_text(file.read_text() + "# mine\n")
    place = f"A.second, lessons/{lesson}.py:7; 3 tests wait for it"
    assert next_step(run) == f"next: {place}"
    assert next_step(verdict(lesson, *waiting, report("failed"))) == f"then: {place}"
    # The core isn't green yet, so a failure of the stretch isn't shown.
    hidden = report("failed", is_stretch=True)
    assert next_step(verdict(lesson, *waiting, hidden)) == f"next: {place}"


# --- each step is judged alone, whatever the others contain


def core_without(lesson: str, names: Collection[str]) -> str:
    """The core, in which these functions raise what the stub's do."""
    tree = ast.parse((CORES / f"{lesson}.py").read_text())
    for name, function in functions_of(tree.body):
        if name in names:
            function.body = ast.parse(f'raise NotImplementedError("{lesson}: {name}")').body
    return ast.unparse(tree)


# Step 4 of `graph`, with a helper that is named like one of the core's and does something else.
WRITTEN = {
    "inserting_before": """return self._inserting(n, before=True)

    @contextlib.contextmanager
    def _inserting(self, node, *, before):
        insert, self._insert = self._insert, node.prepend if before else node.append
        try:
            yield
        finally:
            self._insert = insert""",
    "inserting_after": "return self._inserting(n, before=False)",
    "erase_node": """if to_erase.users:
            raise RuntimeError(f"{to_erase} is used by {[*to_erase.users]}")
        to_erase.set_arguments((), {})
        to_erase._unlink()""",
}


def test_a_step_is_judged_while_the_others_are_stubs_and_its_own_lines_are_shown(learner, warm):
    text = "import contextlib\n" + stub("graph").decode().replace("from __future__", "# ")
    for name, body in WRITTEN.items():
        text = text.replace(f'raise NotImplementedError("graph: Graph.{name}")', body)
    progress.write(progress.file_of("graph"), text.encode())
    played = play("check", "graph", "--step", "4")
    assert (played.code, played.screen.split()[:4]) == (0, "green graph step 4:".split())
    assert "of other steps, the reference's: Namespace.create_name," in played.screen
    assert "erase_node" not in played.screen
    unlink = "to_erase._unlink()"
    progress.write(progress.file_of("graph"), text.replace(unlink, "self.unlink()").encode())
    screen = play("check", "graph", "--step", "4").screen
    line = text[: text.index(unlink)].count("\n") + 1
    assert f"lessons/graph.py:{line}, in erase_node" in screen
    assert "solutions/" not in screen


def test_a_name_that_only_lent_code_imports_is_unknown_to_the_learner(learner, warm):
    task = 'raise NotImplementedError("interpreter: Interpreter.fetch_args_kwargs_from_env")'
    body = "return map_arg((n.args, n.kwargs), self.env.__getitem__)"
    text = stub("interpreter").decode().replace(task, body)
    progress.write(progress.file_of("interpreter"), text.encode())
    assert "name 'map_arg' is not defined" in play("check", "interpreter", "--step", "2").screen


def judged(lesson: str, number: int, lessons: Path, *, is_written: bool) -> list[str]:
    """Return what waits when a step alone is written, or all but it; nothing may be red."""
    steps = steps_of_functions(lesson)
    missing = [name for name, own in steps.items() if (number in own) is not is_written]
    (lessons / f"{lesson}.py").write_text(core_without(lesson, missing))
    words = (f"tests/test_{lesson}.py", f"--step={number}", "-m", "not slow")
    verdict = judge_folder(lessons, *words)
    assert not verdict.texts()
    return [each.nodeid for each in verdict.reports if getattr(each, "todo", False)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lesson", "number"), [(lesson, number) for lesson in NAMES for number in steps_of(lesson)]
)
def test_a_step_is_green_where_it_alone_is_written_and_todo_where_it_alone_is_missing(
    lesson: str, number: int, lessons: Path
):
    assert not judged(lesson, number, lessons, is_written=True)
    assert judged(lesson, number, lessons, is_written=False)
