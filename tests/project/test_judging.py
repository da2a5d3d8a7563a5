"""The judge survives whatever a lesson does, says what happened, and judges the next save."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import pytest

from kata.judge import Judge, Timer, signature
from kata.paths import CORES
from kata.verdict import End, Verdict
from kata.worker import Rehearsal
from lessons import NAMES
from tests.project.stage import request
from tests.project.submissions import STARRED, answer

LESSON = "path_of_module"
MEBIBYTE = 2**20
IMPORTS = "import os\nfrom pathlib import Path\n"


def solve(lessons: Path) -> None:
    (lessons / f"{LESSON}.py").write_text(STARRED)


def misbehave(lessons: Path, body: str, head: str = "") -> None:
    """Write a lesson whose method does what ``body`` says."""
    (lessons / f"{LESSON}.py").write_text(answer(body, head))


def judged(judge: Judge, lessons: Path, **limits: object) -> Verdict:
    return judge.run(request(lessons, LESSON, **{"seconds": 20.0, **limits}))


def test_a_whole_answer_is_starred_and_the_stub_is_todo(judge: Judge, lessons: Path):
    assert judged(judge, lessons).state == "todo"
    solve(lessons)
    verdict = judged(judge, lessons)
    assert verdict.state == "starred"
    core, stretch = verdict.planned
    assert [each.is_stretch for each in verdict.reports] == [False] * core + [True] * stretch


@pytest.mark.slow
@pytest.mark.parametrize("lesson", NAMES)
def test_the_core_is_done_in_every_lesson_as_it_is_graded(judge: Judge, lesson: str):
    verdict = judge.run(request(CORES, lesson, seconds=120.0))
    failed = [report for report in verdict.of("failed") if not report.is_stretch]
    assert [report.text for report in failed] == []
    assert verdict.state in ("done", "starred")


def test_a_suite_with_random_programs_writes_nothing_into_its_folder(judge: Judge):
    judge.run(request(CORES, "inversion"))
    assert signature(judge.suite) == judge.copied  # or else the next save waits for a new process


def test_a_function_may_import_a_sibling_and_is_lent_it(judge: Judge, lessons: Path):
    head = "from .proxy import GraphAppendingTracer\n"
    source = (CORES / "interpreter.py").read_text().replace(head, "")
    line = "        self.tracer: Any = GraphAppendingTracer("
    assert line in source
    (lessons / "interpreter.py").write_text(source.replace(line, f"        {head}{line}"))
    verdict = judge.run(request(lessons, "interpreter", seconds=60.0))
    assert verdict.count(stretch=False).is_green, verdict.first_failure
    assert "proxy" in verdict.lent


@pytest.mark.parametrize(
    ("head", "body", "line", "during"),
    [
        ("", "while True: pass", 3, "the root is the empty string"),
        ("while True: pass\n", "pass", 1, "the import of the lesson"),
    ],
    ids=["in a test", "at the import"],
)
def test_an_infinite_loop_is_stopped_and_its_line_is_shown(
    judge: Judge, lessons: Path, head: str, body: str, line: int, during: str
):
    misbehave(lessons, body, head=head)
    ending = judged(judge, lessons, seconds=1.0).ending
    assert ending.how is End.TIME
    assert ending.place.startswith(f"lessons/path_of_module.py:{line}, ")
    assert ending.place.endswith("while True: pass")
    assert f"during: {during}" in ending.text


def test_all_tests_together_have_a_limit_of_their_own(judge: Judge, lessons: Path):
    misbehave(
        lessons,
        "deadline = time.process_time() + 0.3\nwhile time.process_time() < deadline: pass",
        head="import time\n",
    )
    ending = judged(judge, lessons, total=1.0).ending
    assert ending.how is End.TIME
    assert "all tests together took more than 1 s" in ending.sentence


# Before these, a first test passes.
ENDS = {
    "ctypes.string_at(0)": (End.CRASHED, "Segmentation fault"),
    "os.kill(os.getpid(), 9)": (End.MEMORY, "most likely it took too much memory"),
    "os._exit(0)": (End.EXITED, "exit code 0"),
    "raise KeyboardInterrupt": (End.INTERRUPTED, "the code interrupted the tests"),
    "pytest.exit('', returncode=0)": (End.INTERRUPTED, "the code interrupted the tests"),
}


@pytest.mark.parametrize("statement", ENDS)
def test_the_end_of_a_run_is_told_and_what_was_known_before_stays(
    judge: Judge, lessons: Path, statement: str
):
    body = f"if mod is not self.root:\n    {statement}\nreturn ''"
    misbehave(lessons, body, head="import ctypes, os, pytest\n")
    verdict = judged(judge, lessons)
    how, words = ENDS[statement]
    assert (verdict.ending.how, verdict.state) == (how, "red")
    assert words in verdict.ending.sentence
    assert verdict.ending.during == "a descendant is called by its dotted path"
    assert [report.outcome for report in verdict.reports] == ["passed"]
    if how is End.CRASHED:
        assert verdict.ending.place.startswith("lessons/path_of_module.py:5, ")


def test_a_flood_without_end_at_the_import_is_told_as_one(judge: Judge, lessons: Path):
    misbehave(lessons, "pass", head="while True:\n    print('x' * 10**6)\n")
    assert "it printed more than a run may write" in judged(judge, lessons).ending.text


BIT_BY_BIT = "[bytearray(1 << 20) for _ in range(1000)]"


@pytest.mark.parametrize("take", ["bytearray(10 << 30)", "torch.ones(10 << 28)", BIT_BY_BIT])
def test_much_memory_is_refused_and_only_once(judge: Judge, lessons: Path, take: str):
    misbehave(lessons, f"return {take}", head="import torch\n")
    verdict = judged(judge, lessons, memory=256 * MEBIBYTE)
    assert verdict.ending.how in (End.FINISHED, End.MEMORY)
    assert "memory" in verdict.first_failure.text.lower()
    assert len(verdict.reports) == 1 or verdict.ending.how is End.FINISHED


def test_a_flood_of_threads_ends_in_an_error(judge: Judge, lessons: Path):
    flood = "while True:\n    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    misbehave(lessons, flood, head="import threading, time\n")
    verdict = judged(judge, lessons, memory=256 * MEBIBYTE, seconds=5.0)
    assert verdict.state == "red"
    assert "can't start new thread" in verdict.first_failure.text


DELETES_THE_TESTS = "shutil.rmtree(pathlib.Path(tests.__file__).parent, ignore_errors=True)"
KILLS_THE_WORKER = "os.kill(os.getppid(), 9)\nwhile True: pass"
STOPS_THE_WORKER = "os.kill(os.getppid(), signal.SIGSTOP)"


@pytest.mark.parametrize(
    "body",
    [
        "torch.nn.Module.__call__ = None",
        DELETES_THE_TESTS,
        pytest.param(KILLS_THE_WORKER, marks=pytest.mark.slow),
        pytest.param(STOPS_THE_WORKER, marks=pytest.mark.slow),
    ],
    ids=["patches torch", "deletes the tests", "kills the worker", "stops the worker"],
)
def test_a_run_that_breaks_what_is_around_it_harms_no_later_run(
    judge: Judge, lessons: Path, body: str
):
    head = "import os, pathlib, shutil, signal, tests, torch\n"
    misbehave(lessons, f"{body}\nreturn ''", head=head)
    assert judged(judge, lessons, seconds=2.0).state == "red"
    solve(lessons)
    assert judged(judge, lessons).state == "starred"


@pytest.mark.parametrize(
    "line",
    [
        "pytest.Function.runtest = lambda self: None",
        "pytest.CallInfo.from_call = lambda _, when, **__: pytest.CallInfo(0, None, 0, 0, 0, when)",
        "[setattr(x, 'obj', lambda **_: 0) for x in objects() if isinstance(x, pytest.Item)]",
    ],
)
def test_a_run_that_replaces_a_function_of_pytest_is_red(judge: Judge, lessons: Path, line: str):
    head = f"import pytest\nfrom gc import get_objects as objects\n{line}\n"
    misbehave(lessons, "return ''", head=head)
    verdict = judged(judge, lessons)
    assert verdict.state == "red"
    assert "the lesson's code replaced a function of pytest" in verdict.first_failure.text


def test_runs_share_a_folder_for_kernels_only_if_they_are_told_to(judge: Judge, lessons: Path):
    misbehave(lessons, "Path(os.environ['KATA_KERNELS'], 'left').touch()", head=IMPORTS)
    assert "KeyError" in judged(judge, lessons).first_failure.text
    assert not list(judge.kernels.iterdir())
    judged(judge, lessons, kernels=judge.kernels)
    assert [each.name for each in judge.kernels.iterdir()] == ["left"]


def test_what_a_shell_holds_does_not_reach_the_judgement(lessons: Path, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x --no-such-option")
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    solve(lessons)
    with Judge() as judge:
        assert judged(judge, lessons).state == "starred"


def test_a_busy_machine_stops_no_run_but_a_lock_does():
    timer = Timer(10.0, since=time.monotonic() - 30)
    assert not timer.is_over(computed=9.0)
    assert timer.is_over(computed=10.5)
    assert timer.is_over(computed=0.0)
    assert not Timer(10.0).is_over(computed=0.0)


def test_a_run_can_be_stopped_with_all_that_it_started(judge: Judge, lessons: Path):
    misbehave(lessons, "import subprocess\nsubprocess.run(['sleep', '600'])")
    run = judge.start(request(lessons, LESSON))
    while not run.begun:
        run.poll()
    assert run.stop().ending.how is End.STOPPED


def test_a_rehearsal_runs_all_tests_once_and_stops_for_an_order(monkeypatch):
    monkeypatch.setattr(gc, "freeze", lambda: None)
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as orders, os.fdopen(write, "wb", buffering=0) as judge:
        rehearsal = Rehearsal(orders)
        rehearsal.order = {"lesson": LESSON, "kernels": None}
        judge.write(b"an order")
        rehearsal.go_on()
        (first,) = rehearsal.done - {""}
        orders.read(len("an order"))
        rehearsal.go_on()
    assert first.startswith(f"tests/test_{LESSON}.py::")
    assert f"tests/test_{LESSON}.py" in rehearsal.done
