"""The two layers of a lesson: a core that is small and whole, and a stretch that builds on it."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import torch

from kata.paths import CORES, ROOT, SOLUTIONS, STUBS, lesson_files
from lessons import LESSONS
from tests.project.limits import LINES_OF_THE_RUNNER, LONGEST_SUITE, NODES_OF_A_CORE

# What torch has for all lessons but five, file by file below the package.
TORCH = """
    fx/proxy.py fx/node.py fx/graph.py fx/graph_module.py fx/_lazy_graph_module.py
    fx/_symbolic_trace.py fx/interpreter.py fx/passes/shape_prop.py fx/subgraph_rewriter.py
    fx/passes/utils/matcher_utils.py fx/experimental/optimization.py fx/passes/split_module.py
    distributed/fsdp/_trace_utils.py export/unflatten.py
""".split()
NOT_IN_TORCH = {"custom_tracers", "inlining", "inversion", "capture", "backend"}
FIRST_STATEMENT = 66
LONGEST_BODY = 25
MOST_GIVEN = 0.43
LEAST_STEPS, SHORT_LESSON = 3, 30
NOT_IN_A_CORE = re.compile(r"mark\.(stretch|beyond|slow|unasked)\b|asking_more\(")
KNOWN = {*sys.stdlib_module_names, "torch", "given"}

PIECES = set(
    """
    Graph Node map_arg Proxy TracerBase GraphModule Interpreter Transformer Tracer symbolic_trace
    """.split()
)

LAYERS = CORES, SOLUTIONS
NAMES = [lesson.name for lesson in LESSONS]
every_core = pytest.mark.parametrize("lesson", NAMES)


def core_of(lesson: str) -> str:
    return (CORES / f"{lesson}.py").read_text(encoding="utf-8")


@every_core
def test_a_core_is_no_larger_than_its_limit(lesson: str):
    assert nodes(core_of(lesson)) <= NODES_OF_A_CORE[lesson]


def test_core_and_stretch_together_are_no_larger_than_what_torch_has():
    lessons = [name for name in NAMES if name not in NOT_IN_TORCH]
    files = [file for name in lessons for folder in LAYERS for file in lesson_files(folder, name)]
    torchs = [Path(torch.__file__).parent / file for file in TORCH]
    assert size_of(files) <= size_of(torchs)


def size_of(files: list[Path]) -> int:
    return sum(nodes(file.read_text(encoding="utf-8")) for file in files)


@every_core
def test_the_code_of_a_core_begins_on_the_first_screen(lesson: str):
    assert first_statement(core_of(lesson)) < FIRST_STATEMENT


@every_core
def test_no_body_of_a_core_is_long(lesson: str):
    lengths = [(function.name, length) for function, length in bodies(core_of(lesson))]
    assert not [(name, length) for name, length in lengths if length > LONGEST_BODY]


@every_core
def test_the_core_of_a_suite_is_short_and_asks_for_nothing_more(lesson: str):
    text = (ROOT / f"tests/test_{lesson}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_SUITE
    assert not NOT_IN_A_CORE.findall(text)


@every_core
def test_a_long_lesson_is_written_in_steps(lesson: str):
    (minutes,) = [each.minutes for each in LESSONS if each.name == lesson]
    steps = [function for function in functions(stub_of(lesson)) if is_step(function)]
    assert len(steps) >= (LEAST_STEPS if minutes > SHORT_LESSON else 1)


@every_core
def test_most_of_a_stub_is_left_to_write(lesson: str):
    stub = stub_of(lesson)
    given = sum(length for function, length in bodies(stub) if not is_step(function))
    assert given <= MOST_GIVEN * len(code_lines(stub))


def stub_of(lesson: str) -> str:
    return (STUBS / f"{lesson}.py").read_text(encoding="utf-8")


def is_step(function: ast.FunctionDef) -> bool:
    """Return whether a function of a stub is left to write."""
    return isinstance(function.body[-1], ast.Raise)


@every_core
def test_the_stretch_says_what_it_adds_to_the_core(lesson: str):
    first, *_ = lesson_files(SOLUTIONS, lesson)
    package = SOLUTIONS / lesson / "__init__.py"
    file = package if package.exists() else first
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    assert docstring.startswith("Unlike the core: ")


# The API page takes what stands before a colon in the first line of "Returns" for the type.
TYPE = re.compile(r"^ *Returns:\n[^\n]*:(?: |$)", re.MULTILINE)


@every_core
def test_what_a_function_returns_is_told_in_a_sentence(lesson: str):
    files = [*lesson_files(CORES, lesson), *lesson_files(SOLUTIONS, lesson)]
    texts = [file.read_text(encoding="utf-8") for file in files]
    assert not [found for text in texts for found in TYPE.findall(text)]


# What each layer may import.


def test_a_lesson_imports_exactly_the_siblings_it_needs():
    for lesson in LESSONS:
        files = [*lesson_files(CORES, lesson.name), *lesson_files(SOLUTIONS, lesson.name)]
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
    imports = [
        node
        for node in ast.walk(ast.parse(core_of(lesson)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch.fx")
    ]
    assert not {alias.name for node in imports for alias in node.names} & PIECES


@every_core
def test_a_stretch_stands_on_its_core(lesson: str):
    files = list(lesson_files(SOLUTIONS, lesson))
    assert lesson in {module for file in files for module in imported(file)}


@every_core
def test_a_stretch_takes_of_another_lesson_what_its_stretch_changes_from_there(lesson: str):
    """Types may come from anywhere, and what no stretch changes from the core."""
    for file in lesson_files(SOLUTIONS, lesson):
        for module, name in names_imported(file):
            if module in NAMES and module != lesson:
                stretch = import_module(f"solutions.stretch.{module}")
                assert name and not hasattr(stretch, name), f"{file.name}: {name} from {module}"


@every_core
def test_a_stretch_uses_public_names_of_its_core_only(lesson: str):
    for file in lesson_files(SOLUTIONS, lesson):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        private = {f"{node.value.id}.{node.attr}" for node in ast.walk(tree) if is_private(node)}
        assert not private, file


def is_private(node: ast.AST) -> bool:
    """Return whether a node reads a private name of the core: `core._name`."""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "core"
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
    )


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


def test_the_runner_grows_no_further():
    files = [file for file in (ROOT / "kata").rglob("*") if file.suffix in (".py", ".html", ".css")]
    assert sum(len(file.read_text().splitlines()) for file in files) <= LINES_OF_THE_RUNNER


# How large code is: nodes of the syntax tree, which formatting doesn't change, and lines.

TRIVIA = frozenset({
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
})  # fmt: skip
WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef)
NO_NODES = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
IMPORTS = (ast.Import, ast.ImportFrom)


def nodes(source: str) -> int:
    """The nodes of the syntax tree, without docstrings, annotations and imports."""
    return sum(not isinstance(node, NO_NODES) for node in ast.walk(bare(ast.parse(source))))


def bare(tree: ast.Module) -> ast.Module:
    """The tree without docstrings, annotations of functions, and imports (also those for types)."""
    for node in ast.walk(tree):
        if isinstance(node, WITH_DOCSTRING):
            node.body = [each for each in without_docstring(node) if not is_import(each)]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return tree


def is_import(node: ast.stmt) -> bool:
    return isinstance(node, IMPORTS) or (
        isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    )


def without_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def functions(source: str) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))


def first_statement(source: str) -> int:
    """The line on which the code begins: the first statement of a function or method."""
    bodies = (without_docstring(function) for function in functions(source))
    return min((body[0].lineno for body in bodies if body), default=0)


def bodies(source: str) -> Iterator[tuple[ast.FunctionDef, int]]:
    """Each function, and how many lines of code its body has."""
    code = code_lines(source)
    for function in functions(source):
        yield function, sum(line in code for line in span(without_docstring(function)))


def span(body: list[ast.stmt]) -> range:
    return range(body[0].lineno, (body[-1].end_lineno or 0) + 1) if body else range(0)


def code_lines(source: str) -> set[int]:
    """The lines that hold code: no docstrings, no comments, no blank lines."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in TRIVIA:
            found.update(range(token.start[0], token.end[0] + 1))
    return found - docstring_lines(source)


def docstring_lines(source: str) -> set[int]:
    return {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None
        for line in span(node.body[:1])
    }
