"""Tell a learner why a lesson cannot be imported: what Python can't read, a typo, what is gone."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType

from kata.lending import NOT_UTF_8
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
    if error.msg == NOT_UTF_8:
        yield labelled("try", "save as UTF-8: your editor has a menu, or a setting, for it")
        return
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
    """The likely cause of a failed import, and the nearest name that is there."""
    module, asked = str(error.name), ASKED.match(str(error))
    if isinstance(error, ModuleNotFoundError):
        yield from about_missing_module(module, str(error))
    elif asked and module == "lessons":
        yield from about_missing_lesson(asked["name"])
    elif asked and "circular import" in str(error):
        yield labelled("likely cause", "two modules import each other, and neither is ready first")
        yield labelled("try", "a lesson imports from earlier ones only")
    elif asked:
        yield from about_missing_name(module, asked["name"])


def about_missing_module(module: str, message: str) -> Iterator[str]:
    if module.startswith("lessons."):
        yield from about_missing_lesson(module.split(".")[1])
    elif message.startswith("No module named"):
        yield labelled("likely cause", f"no module is called {module}: a typo?")
        package = module.rpartition(".")[0]
        yield from nearest(module, (name for name in sys.modules if name.startswith(package)))


def about_missing_lesson(lesson: str) -> Iterator[str]:
    """Tell a lesson whose file is gone from a name that no lesson has."""
    if lesson in LESSON_NAMES:
        yield labelled("likely cause", f"the file of {lesson} was moved or deleted")
        yield labelled("try", f"`kata reset {lesson}` for the stub, `--undo` for a kept copy")
    else:
        yield labelled("likely cause", f"no lesson is called {lesson}")
        near = difflib.get_close_matches(lesson, LESSON_NAMES, n=1) or LESSON_NAMES
        yield labelled("try", f"import from {' or '.join(near)}")


def about_missing_name(module: str, name: str) -> Iterator[str]:
    """Tell a stub's name that is gone from one that was never there."""
    of_stub = names_of_stub(module)
    if name in of_stub:
        yield from about_renamed_name()
    else:
        yield labelled("likely cause", f"{module} has no `{name}`: a typo?")
        yield from nearest(name, of_stub or vars(sys.modules.get(module, ModuleType(module))))


def about_renamed_name() -> Iterator[str]:
    yield labelled("likely cause", "a name of the stub was renamed or deleted")
    yield labelled("try", "put it back: the tests ask for it under that name")


def names_of_stub(module: str) -> set[str]:
    """Return what the stub of a lesson defines; of any other module, nothing."""
    package, *inner = module.split(".")
    if package != "lessons" or not inner or inner[0] not in LESSON_NAMES:
        return set()
    return {match[1] for match in DEFINED.finditer(stub(inner[0]).decode())}


def nearest(name: str, known: Iterable[str]) -> Iterator[str]:
    """Yield what to try where a name looks like one that is there."""
    public = [each for each in known if not each.startswith("_")]
    near = difflib.get_close_matches(name, public, n=3)
    if near:
        yield labelled("try", f"did you mean {' or '.join(near)}?")
