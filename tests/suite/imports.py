"""Tell a learner why a lesson cannot be imported: what Python can't read, and what is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kata.stubs import stub
from lessons import LESSONS
from tests.suite.expect import labelled

LESSON_NAMES = tuple(lesson.name for lesson in LESSONS)
ASKED = re.compile(r"cannot import name '(?P<name>\w+)'")
DEFINED = re.compile(r"^(?:class |def |)(\w+)(?=[(:]| = )", re.MULTILINE)
# Python ends the message with the module's file, which is a copy in a temporary folder.
FILE = re.compile(r" \([^()]*\)$")


def about_syntax(error: SyntaxError, path: str) -> Iterator[str]:
    """Point at what Python can't read; ``path`` is the file as the learner knows it."""
    yield f"{path}:{error.lineno}: {error.msg}"
    yield from pointed_at(error)
    yield labelled("likely cause", f"Python cannot read the file ({type(error).__name__})")
    yield labelled("try", "mend this line first: nothing below it was run")


def pointed_at(error: SyntaxError) -> Iterator[str]:
    """The line that Python can't read, with a mark below the place."""
    source = (error.text or "").rstrip()
    if source:
        indent = len(source) - len(source.lstrip())
        yield f"    {source.strip()}"
        yield "    " + " " * max(0, (error.offset or 1) - 1 - indent) + "^"


def import_message(error: ImportError) -> str:
    """Return what Python says, without the file in which it looked."""
    message = str(error)
    return FILE.sub("", message) if ASKED.match(message) else message


def about_import(error: ImportError) -> Iterator[str]:
    """The likely cause of a failed import between lessons; of others Python says enough."""
    module, asked = str(error.name), ASKED.match(str(error))
    if isinstance(error, ModuleNotFoundError) and module.startswith("lessons."):
        yield from about_missing_lesson(module.split(".")[1])
    elif asked and module == "lessons":
        yield from about_missing_lesson(asked["name"])
    elif asked and "circular import" in str(error):
        yield labelled("likely cause", "two modules import each other, and neither is ready first")
        yield labelled("try", "a lesson imports from earlier ones only")
    elif asked and asked["name"] in names_of_stub(module):
        yield from about_renamed_name()


def about_missing_lesson(lesson: str) -> Iterator[str]:
    """Tell a lesson whose file is gone from a name that no lesson has."""
    if lesson in LESSON_NAMES:
        yield labelled("likely cause", f"the file of {lesson} was moved or deleted")
        yield labelled("try", f"`kata reset {lesson}` for the stub, `--undo` for a kept copy")
    else:
        yield labelled("likely cause", f"no lesson is called {lesson}")


def about_renamed_name() -> Iterator[str]:
    yield labelled("likely cause", "a name of the stub was renamed or deleted")
    yield labelled("try", "put it back: the tests ask for it under that name")


def names_of_stub(module: str) -> set[str]:
    """Return what the stub of a lesson defines; of any other module, nothing."""
    package, *inner = module.split(".")
    if package != "lessons" or not inner or inner[0] not in LESSON_NAMES:
        return set()
    return {match[1] for match in DEFINED.finditer(stub(inner[0]).decode())}
