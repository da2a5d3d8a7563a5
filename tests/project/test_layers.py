"""The two layers of a lesson: a core that is small and whole, and a stretch that builds on it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from kata.paths import CORES, ROOT, STRETCHES, STUBS, lesson_files
from kata.steps import steps_of, task_of
from lessons import LESSONS, NAMES

# A tenth above what is there; the four longest cores have limits of their own.
LONGEST_CORE, LONGEST_SUITE = 495, 840
LONG_CORES = {"graph": 550, "capture": 530, "backend": 650, "schedule": 550}
FIRST_STATEMENT = 66
LONGEST_BODY = 25
MOST_GIVEN = 0.34
MUCH_GIVEN = {"capture": 0.43, "unflatten": 0.46}
LEAST_STEPS, SHORT_LESSON = 3, 30
NOT_IN_A_CORE = re.compile(r"mark\.(stretch|beyond|slow|unasked)\b")
KNOWN = {*sys.stdlib_module_names, "torch", "given"}

PIECES = set(
    """
    Graph Node map_arg Proxy TracerBase GraphModule Interpreter Transformer Tracer symbolic_trace
    """.split()
)

every_core = pytest.mark.parametrize("lesson", NAMES)


def core_of(lesson: str) -> str:
    return (CORES / f"{lesson}.py").read_text(encoding="utf-8")


@every_core
def test_a_core_is_short_and_begins_on_the_first_screen_and_no_body_is_long(lesson: str):
    source = core_of(lesson)
    assert len(source.splitlines()) <= LONG_CORES.get(lesson, LONGEST_CORE)
    starts = [without_docstring(function)[:1] for function in functions(source)]
    assert min(body[0].lineno for body in starts if body) < FIRST_STATEMENT
    lengths = [(function.name, length) for function, length in bodies(source)]
    assert not [(name, length) for name, length in lengths if length > LONGEST_BODY]


@every_core
def test_the_core_of_a_suite_is_short_and_asks_for_nothing_more(lesson: str):
    text = (ROOT / f"tests/test_{lesson}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_SUITE
    assert not NOT_IN_A_CORE.findall(text)


@every_core
def test_most_of_a_stub_is_left_to_write_and_a_long_one_in_steps(lesson: str):
    (minutes,) = [each.minutes for each in LESSONS if each.name == lesson]
    stub = (STUBS / f"{lesson}.py").read_text(encoding="utf-8")
    given = [length for function, length in bodies(stub) if not task_of(function)]
    assert sum(given) <= MUCH_GIVEN.get(lesson, MOST_GIVEN) * len(code_lines(stub))
    assert len(steps_of(lesson)) >= (LEAST_STEPS if minutes > SHORT_LESSON else 1)


# What each layer may import.


def test_a_lesson_imports_exactly_the_siblings_it_needs():
    for lesson in LESSONS:
        files = [*lesson_files(CORES, lesson.name), *lesson_files(STRETCHES, lesson.name)]
        siblings = {name for file in files for name in siblings_of(file)}
        assert siblings - {lesson.name} == set(lesson.needs), lesson.name


def siblings_of(file: Path) -> Iterator[str]:
    """The lessons that a file of the reference imports."""
    for module in imported(file):
        parts = module.removeprefix("stretch.").split(".")
        if parts[0] in NAMES:
            yield parts[0]


@every_core
def test_a_core_imports_torch_and_the_cores_of_its_siblings(lesson: str):
    modules = set(imported(CORES / f"{lesson}.py")) - set(NAMES)
    assert not {each for each in modules if each.split(".")[0] not in KNOWN}


@every_core
def test_a_core_imports_no_piece_from_torch_fx_that_a_lesson_writes(lesson: str):
    names = names_imported(CORES / f"{lesson}.py")
    assert not {name for module, name in names if module.startswith("torch.fx")} & PIECES


@every_core
def test_a_stretch_builds_on_the_public_names_of_its_core(lesson: str):
    files = lesson_files(STRETCHES, lesson)
    assert lesson in {module for file in files for module in imported(file)}
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert not re.findall(r"\bcore\._[a-z]\w*", text)
    assert '"""Unlike the core: ' in text


@every_core
def test_a_stretch_takes_of_another_lesson_what_its_stretch_changes_from_there(lesson: str):
    """Types may come from anywhere, and what no stretch changes from the core."""
    for file in lesson_files(STRETCHES, lesson):
        for module, name in names_imported(file):
            if module in NAMES and module != lesson:
                stretch = import_module(f"solutions.stretch.{module}")
                assert name and name not in vars(stretch), f"{file.name}: {name} from {module}"


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports; those of the reference by their names below it."""
    yield from (module for module, _ in names_imported(file))


def names_imported(file: Path) -> Iterator[tuple[str, str]]:
    """The modules that a file imports, with the name that it takes; with "" the module itself."""
    package = file.relative_to(CORES).parent.parts
    for node in statements(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            for alias in node.names:
                path = [*base, node.module] if node.module else [*base, alias.name]
                yield ".".join(path), alias.name if node.module else ""


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what a tree holds, but for what is imported for types alone."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from (node, *statements(node))


# How large code is, in lines.

WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef)


def without_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def functions(source: str) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))


def bodies(source: str) -> Iterator[tuple[ast.FunctionDef, int]]:
    """Each function, and how many lines of code its body has."""
    code = code_lines(source)
    for function in functions(source):
        yield function, sum(line in code for line in span(without_docstring(function)))


def span(body: list[ast.stmt]) -> range:
    return range(body[0].lineno, (body[-1].end_lineno or 0) + 1) if body else range(0)


def code_lines(source: str) -> set[int]:
    """The lines that hold code: no docstrings, no comments, no blank lines."""
    lines = enumerate(map(str.strip, source.splitlines()), start=1)
    code = {number for number, line in lines if line and line[0] != "#"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            code.difference_update(span(node.body[:1]))
    return code
