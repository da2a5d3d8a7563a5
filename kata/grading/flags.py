"""Read submissions for what an instructor should look at.

A flag is no verdict: it names a line, or a file. What can be hidden from such a reading is said in
``docs/grading.md``.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator

from kata.grading.submissions import Submission
from kata.stubs import is_stub

MOST = 20
# Names that have no place in a lesson, by what they are for.
KINDS = {
    "the reference": {"solutions"},
    "the judge": {"pytest", "_pytest", "pluggy", "tests", "kata", "conftest"},
    "processes": {"_exit", "kill", "fork", "subprocess", "Popen", "system", "socket", "ctypes"},
    "Python's own memory": {"gc"},
}
# A sentence may speak of solutions; code in a string, or a path, has a word right behind.
IN_A_STRING = re.compile(r"import solutions|\bsolutions[./]\w")
# What torch calls the piece that a lesson is about, as far as nobody needs it to write the lesson.
TORCHS_OWN = {
    "path_of_module": {"path_of_module"},
    "create_arg": {"create_arg"},
    "placeholders": {"create_args_for_root"},
    "tracer": {"Tracer", "symbolic_trace"},
    "exec_order": {"_ExecOrderTracer"},
    "split_module": {"split_module"},
    "unflatten": {"unflatten", "UnflattenedModule", "InterpreterModule"},
}


def flags_of(submissions: list[Submission]) -> list[list[str]]:
    """What catches the eye in each submission's source, and who handed in the same file."""
    equal = equal_files(submissions)
    return [
        [*lines_of(submission), *equal[number]][:MOST]
        for number, submission in enumerate(submissions)
    ]


def lines_of(submission: Submission) -> Iterator[str]:
    """The lines to look at, once per line and reason."""
    for lesson, data in sorted(submission.files.items()):
        for line, reason in dict.fromkeys(reasons_in(lesson, data)):
            yield f"lessons/{lesson}.py:{line}: {reason}"


def equal_files(submissions: list[Submission]) -> dict[int, list[str]]:
    """For each submission, by its position, the files that somebody else has handed in as well."""
    holders: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, submission in enumerate(submissions):
        for lesson, data in submission.files.items():
            if not is_stub(lesson, data):
                holders[lesson, meaning(data)].append(number)
    found: dict[int, list[str]] = defaultdict(list)
    for (lesson, _), numbers in holders.items():
        for number in numbers if len(numbers) > 1 else ():
            others = ", ".join(submissions[other].name for other in numbers if other != number)
            found[number].append(f"lessons/{lesson}.py: the same as that of {others}")
    return found


def meaning(data: bytes) -> str:
    """What two files have in common that differ in comments and layout alone."""
    tree = parsed(data)
    return ast.dump(tree) if tree else data.decode(errors="replace")


def parsed(data: bytes) -> ast.Module | None:
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def reasons_in(lesson: str, data: bytes) -> Iterator[tuple[int, str]]:
    """The lines of a file that no lesson needs, each with the name that stands out."""
    tree = parsed(data)
    if tree is None:
        return
    torchs, origins = TORCHS_OWN.get(lesson, set()), origins_in(tree)
    for node in ast.walk(tree):
        words = set(words_of(node))
        found = {kind: words & names for kind, names in KINDS.items()}
        found["torch's own piece"] = torchs & torchs_words(node, origins)
        for kind, named in found.items():
            if named:
                yield node.lineno, f"{kind}: `{min(named)}`"  # type: ignore[attr-defined]


def words_of(node: ast.AST) -> Iterator[str]:
    """The names that a piece of source uses: imported, read, or spelt in a string."""
    match node:
        case ast.Import(names=names):
            yield from (part for alias in names for part in alias.name.split("."))
        case ast.ImportFrom(module=module, names=names):
            yield from [*(module or "").split("."), *(alias.name for alias in names)]
        case ast.Attribute(attr=name) | ast.Name(id=name):
            yield name
        case ast.Constant(value=str(text)) if " " not in text:
            yield from re.split(r"[\s./\\]+", text)
        case ast.Constant(value=str(text)) if IN_A_STRING.search(text):
            yield "solutions"


def origins_in(tree: ast.Module) -> dict[str, str]:
    """What the imported names stand for: dotted names, by the names that the file uses."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {a.asname or a.name.split(".")[0]: a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return found


def torchs_words(node: ast.AST, origins: dict[str, str]) -> set[str]:
    """The names of torch's that a piece of source takes: imported, or as an attribute."""
    match node:
        case ast.ImportFrom(module=str(module), names=names) if module.startswith("torch"):
            return {alias.name for alias in names}
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
            return {name}
        case ast.Attribute(attr=name):
            first = ast.unparse(node).partition(".")[0]
            return {name} if origins.get(first, first).startswith("torch") else set()
    return set()
