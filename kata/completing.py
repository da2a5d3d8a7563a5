"""Complete a lesson for one step: what other steps left unwritten is the reference's.

A learner who is stuck in step 2 can go on with step 4: its tests run on the learner's file, in
which each function of another step that still raises what the stub raised is replaced by the
reference's. The two are merged in the syntax tree, by qualified names. All lines keep their
numbers: the learner's in the learner's file, the reference's in the core's.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from functools import cached_property
from types import CodeType

from kata.paths import CORES
from kata.steps import definitions, functions_of, steps_of_functions, task_of
from kata.stubs import bound_name, bound_names, stub

# Follows the name of a helper, if the learner has another one of that name.
SUFFIX = "_of_the_reference"


class Completion:
    """A lesson's file, completed for one step, whose functions are never lent.

    Attributes:
        lent: The functions that are the reference's, by their qualified names, in the file's order.
    """

    def __init__(self, lesson: str, source: bytes, step: int) -> None:
        self.lesson = lesson
        self.step = step
        self.file = CORES / f"{lesson}.py"
        self.tree = ast.parse(source)
        self.core = ast.parse(self.file.read_bytes())
        self.lent: list[str] = []
        self.used = {each.id for each in ast.walk(self.tree) if isinstance(each, ast.Name)}
        self.lend(self.tree.body)
        if self.lent:
            self.add_helpers()
            self.add_imports()

    def code(self, file: str) -> CodeType:
        """Compile the lesson; tracebacks name ``file``, and the core for what is lent."""
        code = compile(ast.fix_missing_locations(self.tree), file, "exec")
        names = {*self.lent, *map(self.renamed, self.helpers)}
        return in_file(code, str(self.file), names)

    def lend(self, body: list[ast.stmt], owner: str = "") -> None:
        """Replace the functions of other steps that aren't written, at any depth."""
        for at, each in enumerate(body):
            if isinstance(each, ast.ClassDef):
                self.lend(each.body, f"{owner}{each.name}.")
            elif isinstance(each, ast.FunctionDef) and self.is_lent(f"{owner}{each.name}", each):
                body[at] = self.reference[f"{owner}{each.name}"]
                self.lent.append(f"{owner}{each.name}")

    def is_lent(self, name: str, function: ast.FunctionDef) -> bool:
        return name in self.reference and task_of(function).startswith(f"{self.lesson}: ")

    @cached_property
    def reference(self) -> dict[str, ast.FunctionDef]:
        """The core's functions of other steps, by their qualified names."""
        functions, steps = dict(functions_of(self.core.body)), steps_of_functions(self.lesson)
        return {name: functions[name] for name, own in steps.items() if self.step not in own}

    @cached_property
    def helpers(self) -> dict[str, ast.stmt]:
        """What the core defines and the stub leaves out: private functions, classes, constants."""
        known = dict(definitions(ast.parse(stub(self.lesson)).body))
        return {name: each for name, each in definitions(self.core.body) if name not in known}

    @cached_property
    def taken(self) -> set[str]:
        """The names of helpers that the learner has for something else."""
        own = dict(definitions(self.tree.body))
        dumps = {name: ast.dump(each) for name, each in self.helpers.items()}
        return {name for name, dump in dumps.items() if name in own and ast.dump(own[name]) != dump}

    def renamed(self, name: str) -> str:
        return f"{name}{SUFFIX}" if name in self.taken else name

    def add_helpers(self) -> None:
        """Give the lent functions what they call, at the place that it has in the core."""
        new_names = {each.rpartition(".")[2]: self.renamed(each) for each in self.taken}
        rename = Rename({name: new.rpartition(".")[2] for name, new in new_names.items()})
        bodies = dict(bodies_of(self.tree))
        for name in self.lent:
            rename.visit(self.reference[name])
        for name, statement in self.helpers.items():
            owner = name.rpartition(".")[0]
            if owner in bodies:
                followers = following(statement, dict(bodies_of(self.core))[owner])
                rename.visit(statement)
                insert(statement, bodies[owner], followers)

    def add_imports(self) -> None:
        """Add the core's imports, but for names that the learner's file binds itself."""
        own = {name for each in self.tree.body for name in bound_names(each)}
        imports = [each for each in self.core.body if isinstance(each, ast.Import | ast.ImportFrom)]
        for statement in imports:
            statement.names = [each for each in statement.names if bound_name(each) not in own]
            self.hide(each for each in statement.names if bound_name(each) in self.used)
        at = sum(itertools.takewhile(bool, map(is_beginning, self.tree.body)))
        self.tree.body[at:at] = [each for each in imports if each.names]

    def hide(self, imported: Iterable[ast.alias]) -> None:
        """Give names other ones in what is lent: the learner's code uses them without an import.

        There they must stay unknown, or the lesson is red as soon as nothing is lent.
        """
        hidden: dict[str, str] = {}
        for each in imported:
            name = bound_name(each)
            hidden[name] = each.asname = f"{name}{SUFFIX}"
        for lent in (*(self.reference[name] for name in self.lent), *self.helpers.values()):
            for node in ast.walk(lent):
                if isinstance(node, ast.Name):
                    node.id = hidden.get(node.id, node.id)


class Rename(ast.NodeTransformer):
    """Give definitions other names, also where they are used."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit(self, node: ast.AST) -> ast.AST:
        for attribute in ("id", "attr", "name"):
            name = getattr(node, attribute, None)
            if isinstance(name, str) and name in self.names:
                setattr(node, attribute, self.names[name])
        return self.generic_visit(node)


def bodies_of(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The body of the module, whose name is empty, and of each class in it."""
    yield "", tree.body
    for name, each in definitions(tree.body):
        if isinstance(each, ast.ClassDef):
            yield name, each.body


def following(statement: ast.stmt, body: list[ast.stmt]) -> list[str]:
    """The names that are defined after a statement, in order."""
    later = body[body.index(statement) + 1 :]
    return [name for name, _ in definitions(later) if "." not in name]


def insert(statement: ast.stmt, body: list[ast.stmt], followers: list[str]) -> None:
    """Insert a statement before the first definition that follows it, or at the end."""
    places = {name: each for name, each in definitions(body) if "." not in name}
    follower = next((places[name] for name in followers if name in places), None)
    body.insert(body.index(follower) if follower else len(body), statement)


def is_beginning(statement: ast.stmt) -> bool:
    """Return whether a statement is the docstring or an import from the future."""
    return isinstance(statement, ast.Expr) or (
        isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    )


def in_file(code: CodeType, file: str, names: set[str], *, is_inside: bool = False) -> CodeType:
    """Return code in which the functions of these names, and all inside them, are in a file."""
    is_inside |= code.co_qualname in names
    inner = (
        in_file(each, file, names, is_inside=is_inside) if isinstance(each, CodeType) else each
        for each in code.co_consts
    )
    return code.replace(co_filename=file if is_inside else code.co_filename, co_consts=tuple(inner))
