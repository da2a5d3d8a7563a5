"""Whose pieces run: a lesson is the learner's once its current code has been green."""

from __future__ import annotations

from kata import progress
from kata.paths import suites
from kata.stubs import stub
from tests.project.stage import play, solve, turn_green
from tests.project.submissions import STARRED
from tests.suite.answers import run_suite

CORE = "tests/test_path_of_module.py"


def change(lesson: str, line: str) -> None:
    with progress.file_of(lesson).open("a") as file:
        file.write(line)


class CtrlC:
    def pytest_runtest_logfinish(self) -> None:
        raise KeyboardInterrupt


def test_pytest_remembers_what_whole_files_say_and_nothing_of_a_part(learner):
    progress.file_of("path_of_module").write_text(STARRED)
    run_suite(CORE, plugins=[CtrlC()])
    for part in (("--step=1", CORE), ("-k", "root", CORE), (f"{CORE}::test_x",)):
        run_suite(*part)
    assert progress.recall("path_of_module") is None
    run_suite(CORE)
    assert progress.is_yours("path_of_module")
    assert progress.recall("path_of_module").state == "done"
    for files in (suites("path_of_module"), [CORE]):  # without the stretch, the star stays
        run_suite(*files)
        assert progress.recall("path_of_module").state == "starred"


def test_pytest_and_check_lend_what_is_written_and_was_never_green(learner, warm):
    solve("code", "interpreter")
    shown = run_suite("tests/test_interpreter.py", "--step=1").terminal
    assert "code" in shown.partition("lent by")[2]
    assert "lent by the reference: code" in play("check", "interpreter", "--step", "1").screen


def test_a_comment_leaves_a_lesson_green_and_of_other_code_the_screen_says_so(learner, warm):
    turn_green("code")
    solve("interpreter")
    change("code", "\n\n# a comment\n")
    assert "lent by the reference: code" not in play("check", "interpreter", "--step", "1").screen
    change("code", "mine = 1\n")
    screen = play("check", "interpreter", "--step", "1").screen
    assert "lent by the reference: code" in screen
    assert "changed since it was green: code; `kata check` judges it" in screen


def test_a_lesson_that_python_cannot_read_is_lent_to_others():
    sources = {"graph": b"mine = 1\n", "code": b"def broken(:\n", "proxy": stub("proxy")}
    assert progress.written(sources) == ("graph",)
