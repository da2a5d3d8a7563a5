"""Change the reference in one place after the other: the tests of the lesson must notice each.

``python -m tests.mutants inversion inlining`` judges the mutants of these lessons; without names,
of all. A mutant of a core is judged by the core's tests, on the core alone. A mutant of either
layer that these don't notice is judged by all of the lesson's tests, on the stretch.

mutmut says where a change is to be made. It doesn't run the tests: its trampolines, which stand in
for every function, are seen by code that looks at signatures and frames, and here both do. Instead
each mutant is a copy of ``solutions/``, which is imported in a fork of a process that has torch and
the suite in memory.

A mutant that behaves like the original is listed, with the reason, in ``tests/mutants.toml``; so
are classes that run on a GPU alone, which are left out.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib.util
import os
import re
import shutil
import signal
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import libcst as cst
import pytest
from mutmut.mutation.file_mutation import create_mutations

from kata.layers import lesson_files, suites
from kata.stubs import CORES, ROOT, SOLUTIONS
from lessons import LESSONS
from tests.suite.answers import run_suite

LISTED = ROOT / "tests" / "mutants.toml"
NAMES = [lesson.name for lesson in LESSONS]
# Which share the core's tests must notice of the changes to a core, and all tests of all changes.
WANTED = {"core": 0.95, "solutions": 0.98}
# A small core has few mutants: so many may survive in any case.
FEW = 2
# What stands before a line that mutmut isn't to see.
HIDDEN = "# hidden: "
# Seconds of its own time per test: an endless loop is a change that was noticed. One that only
# waits gets ten times as long.
SECONDS = 30
# The plugin is imported here already; pytest would like to do that itself.
QUICKLY = ("-m", "not slow", "-W", "ignore::pytest.PytestAssertRewriteWarning")


class Mutant(NamedTuple):
    """One change of one file, whose path is relative to ``solutions/``."""

    lesson: str
    file: str
    number: int
    source: str
    change: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}  {self.change}"

    @property
    def is_of_a_core(self) -> bool:
        return not self.file.startswith("stretch/")


def mutants_of(lesson: str) -> Iterator[Mutant]:
    """Every mutant of a lesson's files."""
    for file in files_of(lesson):
        original = (CORES / file).read_text(encoding="utf-8")
        left_out = {row["name"] for row in listed("left_out") if row["file"] == file}
        module, mutations, *_ = create_mutations(file, with_lines_hidden(original, left_out))
        for number, mutation in enumerate(mutations):
            before, after = mutation.original_node, mutation.mutated_node
            source = module.deep_replace(before, after).code.replace(HIDDEN, "")
            if bare(source) != bare(original) and not is_prose(before, after):
                yield Mutant(lesson, file, number, source, change(original, source))


def with_lines_hidden(source: str, left_out: Collection[str] = ()) -> str:
    """The source without decorators, without ``__all__``, and without the classes left out.

    mutmut passes over a function that has a decorator, and ruff checks the names of ``__all__``.
    """
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        hidden = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        is_list = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        if is_list or (isinstance(node, ast.ClassDef) and node.name in left_out):
            hidden = [node]
        for each in hidden:
            for number in range(each.lineno - 1, each.end_lineno or 0):
                lines[number] = HIDDEN + lines[number]
    return "".join(lines)


def bare(source: str) -> str:
    """The source without ``strict=`` of ``zip``, an assertion that holds."""
    return re.sub(r",\s*(strict=\w+)?\s*\)", ")", source)


def is_prose(original: cst.CSTNode, mutated: cst.CSTNode) -> bool:
    """Whether only sentences differ: what an error says is for people to judge, not for tests."""
    if isinstance(original, cst.Call) and isinstance(mutated, cst.Call):
        pairs = zip(original.args, mutated.args, strict=False)
        changed = [before.value for before, after in pairs if not before.deep_equals(after)]
        return bool(changed) and all(map(is_sentence, changed))
    return is_sentence(original)


def is_sentence(node: cst.CSTNode) -> bool:
    """Whether a node is a string of several words."""
    if isinstance(node, cst.ConcatenatedString):
        return is_sentence(node.left) or is_sentence(node.right)
    if isinstance(node, cst.FormattedString):
        return any(isinstance(p, cst.FormattedStringText) and " " in p.value for p in node.parts)
    return isinstance(node, cst.SimpleString) and " " in node.value


def files_of(lesson: str) -> list[str]:
    """A lesson's files in both layers, and those beside them that it is the first to import."""
    own = [*lesson_files(CORES, lesson), *lesson_files(SOLUTIONS, lesson)]
    shared = [file for file in sorted(SOLUTIONS.glob("_[a-z]*.py")) if users(file)[:1] == [lesson]]
    return [file.relative_to(CORES).as_posix() for file in (*own, *shared)]


def users(file: Path) -> list[str]:
    """The lessons whose stretch imports a file that lies beside it."""
    imports = re.compile(rf"^from \.+{file.stem} import", re.MULTILINE)
    return [
        lesson
        for lesson in NAMES
        if any(imports.search(each.read_text("utf-8")) for each in lesson_files(SOLUTIONS, lesson))
    ]


def change(original: str, source: str) -> str:
    """The lines that differ, on one line: ``- before + after``."""
    lines = difflib.unified_diff(original.splitlines(), source.splitlines(), lineterm="", n=0)
    changed = [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]
    return " ".join(f"{line[0]} {' '.join(line[1:].split())}" for line in changed)


class Outcome(NamedTuple):
    """Who noticed a mutant: the core's tests, or all."""

    by_core: bool
    by_all: bool


def judge(mutant: Mutant) -> Outcome:
    """Judge a mutant by the core's tests, if it is one of a core, and then by all."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "solutions"
        shutil.copytree(CORES, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / mutant.file).write_text(mutant.source, encoding="utf-8")
        by_core = mutant.is_of_a_core and Judge.of(mutant.lesson, "core").kills(copy)
        judges = dict.fromkeys([mutant.lesson, *users(CORES / mutant.file)])
        by_all = by_core or any(Judge.of(judge, "solutions").kills(copy) for judge in judges)
        return Outcome(by_core, by_all)


class Judge:
    """A lesson's tests, on its core or on all of it; what noticed a change lately comes first."""

    def __init__(self, lesson: str, impl: str) -> None:
        self.lesson, self.impl = lesson, impl
        self.killers: list[str] = []

    @staticmethod
    @cache
    def of(lesson: str, impl: str) -> Judge:
        return Judge(lesson, impl)

    def kills(self, solutions: Path) -> bool:
        """Judge a copy of ``solutions/`` in a fork of this process, which stays as it was."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_RDWR), 2)
            try:
                import_from(solutions)
                os.write(writing, self.killer().encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as line:
            killer = line.read()
        _, status = os.waitpid(child, 0)
        if killer:
            self.killers = [killer, *(each for each in self.killers if each != killer)]
        return bool(killer) or status != 0

    def killer(self) -> str:
        """The first test that fails; empty if none does."""
        files = suites(self.lesson)[: 1 if self.impl == "core" else None]
        order = Order(tuple(self.killers))
        verdict = run_suite(*files, "-x", *QUICKLY, impl=self.impl, plugins=[order])
        if not verdict.reports:
            return "collection"
        return next((report.nodeid for report in verdict.reports if report.failed), "")


def import_from(solutions: Path) -> None:
    """Let every import of the reference in this process find another folder's."""
    for name in [name for name in sys.modules if name.split(".")[0] == "solutions"]:
        del sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        "solutions", solutions / "__init__.py", submodule_search_locations=[str(solutions)]
    )
    assert spec is not None
    sys.modules["solutions"] = importlib.util.module_from_spec(spec)


class Order(NamedTuple):
    """A plugin: some tests come first, and one that takes too long ends its process."""

    first: tuple[str, ...]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        rank = {nodeid: number for number, nodeid in enumerate(self.first)}
        items.sort(key=lambda item: rank.get(item.nodeid, len(rank)))

    def pytest_runtest_logstart(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(10 * SECONDS)

    def pytest_sessionfinish(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


def equivalent() -> dict[tuple[str, str], str]:
    """The reasons why listed mutants can't be noticed, by file and change."""
    return {(row["file"], row["change"]): row["reason"] for row in listed("equivalent")}


def listed(what: str) -> list[dict[str, str]]:
    """The rows of a table of ``tests/mutants.toml``."""
    rows: list[dict[str, str]] = tomllib.loads(LISTED.read_text(encoding="utf-8"))[what]
    return rows


def judge_lesson(lesson: str) -> bool:
    """Judge a lesson's mutants, print each that survives, and say whether these are few enough."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("fork")) as pool:
        mutants = list(mutants_of(lesson))
        outcomes = dict(zip(mutants, pool.map(judge, mutants), strict=True))
    reasons = equivalent()
    killed = {
        "core": {mutant: each.by_core for mutant, each in outcomes.items() if mutant.is_of_a_core},
        "solutions": {mutant: each.by_all for mutant, each in outcomes.items()},
    }
    enough = [
        is_enough(f"{lesson}, {impl}", killed[impl], reasons, WANTED[impl]) for impl in WANTED
    ]
    survivors = [mutant for found in killed.values() for mutant in found if not found[mutant]]
    return all(enough) and no_reason_is_idle(lesson, survivors, reasons)


def is_enough(
    title: str, killed: dict[Mutant, bool], reasons: dict[tuple[str, str], str], wanted: float
) -> bool:
    """Print which mutants survived, but for those that are listed, and their share of all."""
    survivors = [mutant for mutant in killed if not killed[mutant]]
    unlisted = [mutant for mutant in survivors if (mutant.file, mutant.change) not in reasons]
    for mutant in unlisted:
        print(f"  survived: {mutant}", flush=True)
    same = len(survivors) - len(unlisted)
    share = 1 - len(unlisted) / max(1, len(killed) - same)
    print(
        f"{title}: {len(killed)} mutants, {len(killed) - len(survivors)} killed, "
        f"{same} equivalent, {len(unlisted)} survived: {share:.1%}",
        flush=True,
    )
    return share >= wanted or len(unlisted) <= FEW


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
    parser = argparse.ArgumentParser(description="Judge mutants of the reference.")
    parser.add_argument("lessons", nargs="*", choices=[*NAMES, []], help="all if none is named")
    wanted = parser.parse_args().lessons or NAMES
    for lesson in wanted:  # loads torch and the suite before the first fork
        for impl in ("core", "solutions"):
            if Judge(lesson, impl).killer():
                print(f"{lesson}: the reference itself fails")
                return 1
    return int(not all([judge_lesson(lesson) for lesson in wanted]))


if __name__ == "__main__":
    sys.exit(main())
