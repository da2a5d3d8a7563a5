"""Change the reference in one place after the other: the lesson's tests must notice each change.

``python -m tests.mutants inversion inlining`` judges the mutants of these lessons, each by the
tests of its own lesson; without names, of all lessons. mutmut says where a change is to be made.
It doesn't run the tests: its trampolines, which stand in for every function, are seen by code that
looks at signatures and frames, and here both do. Instead each mutant is a folder of lessons, judged
as a learner's is, in a fork of a process that has torch and the suite in memory.

A mutant that behaves like the original is listed, with the reason, in ``tests/mutants.toml``.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import shutil
import signal
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import libcst as cst
import pytest
from mutmut.mutation.file_mutation import create_mutations

from kata.stubs import ROOT, SOLUTIONS
from lessons import LESSONS
from tests.suite.answers import judge_folder

EQUIVALENT = ROOT / "tests" / "mutants.toml"
WANTED = 0.95
# What several lessons stand on is judged by one after the other.
SHARED = {"path_of_module": ["_paths.py"], "split_module": ["_nodes.py"]}
ALSO_JUDGES = {"_paths.py": ["create_arg", "tracer"]}
# What stands before a line that mutmut isn't to see.
HIDDEN = "# hidden: "
# Seconds a test: an endless loop is a change that was noticed.
SECONDS = 30
# The plugin is imported here already; pytest would like to do that itself.
QUICKLY = ("-m", "not slow", "-W", "ignore::pytest.PytestAssertRewriteWarning")


class Mutant(NamedTuple):
    """One change of one file."""

    lesson: str
    file: str
    number: int
    source: str
    change: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}  {self.change}"


def mutants_of(lesson: str) -> Iterator[Mutant]:
    """Every mutant of a lesson's files."""
    for file in files_of(lesson):
        original = (SOLUTIONS / file).read_text(encoding="utf-8")
        module, mutations, *_ = create_mutations(file, without_decorators(original))
        for number, mutation in enumerate(mutations):
            mutated = module.deep_replace(mutation.original_node, mutation.mutated_node)
            source = mutated.code.replace(HIDDEN, "")
            if source != original and not is_prose(mutation.original_node):
                yield Mutant(lesson, file, number, source, change(original, source))


def without_decorators(source: str) -> str:
    """The source with the decorators of functions hidden: mutmut passes over what has one."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                for number in range(decorator.lineno - 1, decorator.end_lineno or 0):
                    lines[number] = HIDDEN + lines[number]
    return "".join(lines)


def is_prose(node: cst.CSTNode) -> bool:
    """Whether a node is a sentence: what an error says is for people to judge, not for tests."""
    if isinstance(node, cst.Call) and len(node.args) == 1:
        return is_prose(node.args[0].value)
    if isinstance(node, cst.ConcatenatedString):
        return is_prose(node.left) or is_prose(node.right)
    return isinstance(node, cst.SimpleString) and " " in node.value


def files_of(lesson: str) -> list[str]:
    package = sorted((SOLUTIONS / lesson).glob("*.py"))
    own = [path.relative_to(SOLUTIONS).as_posix() for path in package] or [f"{lesson}.py"]
    return own + SHARED.get(lesson, [])


def change(original: str, source: str) -> str:
    """The lines that differ, on one line: ``- before + after``."""
    lines = difflib.unified_diff(original.splitlines(), source.splitlines(), lineterm="", n=0)
    changed = [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]
    return " ".join(f"{line[0]} {' '.join(line[1:].split())}" for line in changed)


def is_killed(mutant: Mutant) -> bool:
    """Whether a test fails on a mutant, or doesn't come to an end."""
    with tempfile.TemporaryDirectory() as folder:
        lessons = Path(folder) / "lessons"
        shutil.copytree(SOLUTIONS, lessons, ignore=shutil.ignore_patterns("__pycache__"))
        (lessons / mutant.file).write_text(mutant.source, encoding="utf-8")
        judges = [mutant.lesson, *ALSO_JUDGES.get(mutant.file, [])]
        return any(Judge.of(judge).kills(lessons) for judge in judges)


class Judge:
    """A lesson's tests: those that noticed a change lately come first."""

    def __init__(self, lesson: str) -> None:
        self.lesson = lesson
        self.killers: list[str] = []

    @staticmethod
    @cache
    def of(lesson: str) -> Judge:
        return Judge(lesson)

    def kills(self, folder: Path) -> bool:
        """Judge a folder of lessons in a fork of this process, which stays as it was."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_RDWR), 2)
            try:
                os.write(writing, self.killer_of(folder).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as line:
            killer = line.read()
        _, status = os.waitpid(child, 0)
        if killer:
            self.killers = [killer, *(each for each in self.killers if each != killer)]
        return bool(killer) or status != 0

    def killer_of(self, folder: Path) -> str:
        """The first test that fails; empty if none does."""
        order = Order(tuple(self.killers))
        tests = f"tests/test_{self.lesson}.py"
        verdict = judge_folder(folder, tests, "-x", *QUICKLY, plugins=[order])
        if verdict.count("todo") or not verdict.reports:
            return "collection"
        return next((report.nodeid for report in verdict.reports if report.failed), "")


class Order(NamedTuple):
    """A plugin: some tests come first, and one that takes too long ends its process."""

    first: tuple[str, ...]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        rank = {nodeid: number for number, nodeid in enumerate(self.first)}
        items.sort(key=lambda item: rank.get(item.nodeid, len(rank)))

    def pytest_runtest_logstart(self) -> None:
        signal.alarm(SECONDS)


def equivalent() -> dict[tuple[str, str], str]:
    """The reasons why listed mutants can't be noticed, by file and change."""
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {(row["file"], row["change"]): row["reason"] for row in listed.get("equivalent", [])}


def judge_lesson(lesson: str) -> bool:
    """Judge a lesson's mutants, print each that survives, and say whether these are few enough."""
    mutants = list(mutants_of(lesson))
    reasons = equivalent()
    survivors: list[Mutant] = []
    unlisted: list[Mutant] = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("fork")) as pool:
        for mutant, killed in zip(mutants, pool.map(is_killed, mutants)):
            if killed:
                continue
            survivors.append(mutant)
            if (mutant.file, mutant.change) not in reasons:
                unlisted.append(mutant)
                print(f"  survived: {mutant}", flush=True)
    same = len(survivors) - len(unlisted)
    share = 1 - len(unlisted) / max(1, len(mutants) - same)
    print(
        f"{lesson}: {len(mutants)} mutants, {len(mutants) - len(survivors)} killed, "
        f"{same} equivalent, {len(unlisted)} survived: {share:.1%}",
        flush=True,
    )
    return share >= WANTED and no_reason_is_idle(lesson, survivors, reasons)


def no_reason_is_idle(
    lesson: str, survivors: list[Mutant], reasons: dict[tuple[str, str], str]
) -> bool:
    """Whether every listed change of the lesson's files is one that survived."""
    found = {(mutant.file, mutant.change) for mutant in survivors}
    idle = [key for key in reasons if key[0] in files_of(lesson) and key not in found]
    for file, text in idle:
        print(f"  listed as equivalent, and not among the survivors: {file}  {text}", flush=True)
    return not idle


def main() -> int:
    """Judge the mutants of the lessons named, or of all."""
    names = [lesson.name for lesson in LESSONS]
    parser = argparse.ArgumentParser(description="Judge mutants of the reference.")
    parser.add_argument("lessons", nargs="*", choices=[*names, []], help="all if none is named")
    wanted = parser.parse_args().lessons or names
    for lesson in wanted:  # loads torch and the suite before the first fork
        if judge_folder(SOLUTIONS, f"tests/test_{lesson}.py", *QUICKLY).texts():
            print(f"{lesson}: the reference itself fails")
            return 1
    return int(not all([judge_lesson(lesson) for lesson in wanted]))


if __name__ == "__main__":
    sys.exit(main())
