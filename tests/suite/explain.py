"""Tell a learner why a test failed: no frames of ours or torch's, 25 lines of 80 columns."""

from __future__ import annotations

import itertools
import linecache
import re
import textwrap
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from kata.comparing import ADDRESS
from kata.paths import ROOT
from kata.showing import LINES, fitted
from kata.stubs import stub
from kata.terminal import clipped
from lessons import NAMES
from tests.suite.expect import WIDTH, MismatchError, is_misspelling, labelled

OF_LESSONS = ("lessons.", "solutions.")
FRAMES = 3
ANSWERS = ROOT / "tests" / "answers"
TESTS = (ROOT / "tests", ROOT / "tests" / "stretch")
ASKED = re.compile(r"cannot import name '(?P<name>\w+)'")
DEFINED = re.compile(r"^(?:class |def |)(\w+)(?=[(:]| = )", re.MULTILINE)
# Python ends the message with the module's file, which is a copy in a temporary folder.
FILE = re.compile(r" \([^()]*\)$")
# A longer text is cut before anything is done with it: more than a screen shows, and little enough
# to be kept for each test.
LONGEST_TEXT = 20_000


def explain(error: BaseException, folder: Path, module: ModuleType | None = None) -> str:
    """The failure in at most 25 lines of 80 columns: of a longer text, its beginning and end.

    Args:
        error: What the test, or the import of the lesson, raised.
        folder: The folder of the judged code: only its frames are shown.
        module: The lesson, if it could be imported.
    """
    linecache.checkcache()
    lines = "\n".join([*lines_about(error, folder), *about_helpers(module)]).split("\n")
    return "\n".join(clipped(line, WIDTH) for line in fitted(lines, LINES))


def about_helpers(module: ModuleType | None) -> Iterator[str]:
    """Say which helpers two classes define that become one object: one hides the other."""
    for cls in [each for each in vars(module or object).values() if isinstance(each, type)]:
        mixins = [each for each in cls.__mro__[1:] if each.__module__.startswith(OF_LESSONS)]
        for one, other in itertools.combinations(mixins, 2):
            both = {name for name in vars(one) if name in vars(other) and not name.startswith("__")}
            if both and not issubclass(one, other) and not any(map(is_torchs, both)):
                names = f"{one.__name__} and {other.__name__} both define `{min(both)}`"
                yield labelled("note", f"{names}, and a {cls.__name__} has only the first")


def is_torchs(name: str) -> bool:
    """Return whether a method is there to be overridden, and not a helper."""
    return hasattr(torch.fx.Tracer, name)


def lines_about(error: BaseException, folder: Path) -> Iterator[str]:
    if isinstance(error, MismatchError):
        yield from str(error).splitlines()
        if error.__cause__ is not None:
            yield from frame_lines(own_frames(error.__cause__, folder)[-1:], folder)
        yield from getattr(error, "__notes__", ())
    elif isinstance(error, SyntaxError) and is_below(error.filename, folder):
        yield from about_syntax(error, short_path(error.filename, folder))
    elif isinstance(error, SyntaxError) and f"{error.filename}".startswith("<"):
        yield f"{type(error).__name__}: {error.msg} in line {error.lineno} of the generated code:"
        yield from pointed_at(error)
        yield from frame_lines(own_frames(error, folder)[-1:], folder)
    elif isinstance(error, RecursionError):
        yield from about_recursion(error, folder)
    else:
        yield from about_exception(error, folder)


def about_recursion(error: RecursionError, folder: Path) -> Iterator[str]:
    yield f"infinite recursion: {error}"
    places = Counter(place(frame, folder) for frame in own_frames(error, folder))
    for each, _ in places.most_common(FRAMES):
        yield f"  {each}, again and again"
    cause = "a method calls itself with the same value, or never reaches its simplest case"
    yield labelled("likely cause", cause)
    hint = "find the value that comes round again; delegate to super() where you mean the base"
    yield labelled("try", hint)


def about_exception(error: BaseException, folder: Path) -> Iterator[str]:
    yield from message_lines(error, folder)
    frames = own_frames(error, folder)
    yield from frame_lines(frames[-FRAMES:], folder)
    if is_missing_name(error):
        yield from about_renamed_name()
    elif isinstance(error, ImportError):
        yield from about_import(error)
    elif is_missing_node(error):
        cause = "the dict lacks that node: it was never stored, was removed, or is the wrong one"
        yield labelled("likely cause", cause)
    elif isinstance(error, MemoryError):
        yield labelled("likely cause", "more memory was asked for than a run may have")
    elif is_reading(error):
        yield from about_reading(short_path(frames[-1].filename, folder) if frames else "")
    elif is_skip(error):
        yield labelled("likely cause", "the lesson's own code skipped the test")
        yield labelled("try", "answer it: only a test that passes is green")
    elif not frames:
        yield f"  {line_of_the_test(error)}"


def is_missing_node(error: BaseException) -> bool:
    """Return whether a dict doesn't have a node, and no test has noted why."""
    has_cause = "likely cause" in str(getattr(error, "__notes__", ""))
    return (
        isinstance(error, KeyError)
        and not has_cause
        and hasattr((*error.args, None)[0], "all_input_nodes")
    )


def frame_lines(frames: list[traceback.FrameSummary], folder: Path) -> Iterator[str]:
    """Yield where the judged code stood, and its line."""
    for frame in frames:
        yield f"  {place(frame, folder)}"
        yield f"      {(frame.line or '').strip()}"


def is_reading(error: BaseException) -> bool:
    """Return whether the code reads from the keyboard, which tests don't have."""
    return isinstance(error, OSError) and "from stdin" in str(error)


def about_reading(path: str) -> Iterator[str]:
    cause = "`input()` and `breakpoint()` want a terminal, and the tests run without one"
    yield labelled("likely cause", cause)
    lesson = Path(path).relative_to("lessons").parts[0].removesuffix(".py") if path else "..."
    command = f"`pytest tests/test_{lesson}.py -x -s`"
    yield labelled("try", f"`print` what you want to see, or keep the terminal:\n{command}")


def is_skip(error: BaseException) -> bool:
    """Return whether this is how code asks pytest not to count a test."""
    return isinstance(error, pytest.skip.Exception | pytest.xfail.Exception)


def is_skip_of_the_suite(error: BaseException, folder: Path) -> bool:
    """Return whether a line of the suite skips the test, for something that isn't installed."""
    if not is_skip(error) or own_frames(error, folder):
        return False
    caller = traceback.extract_tb(error.__traceback__)[-2]
    return "skip" in (caller.line or "") and Path(caller.filename).is_relative_to(ROOT / "tests")


def is_missing_name(error: BaseException) -> bool:
    """Return whether a test asked a lesson's module for a missing name."""
    asked = getattr(error, "obj", None)
    return isinstance(asked, ModuleType) and asked.__name__.startswith(OF_LESSONS)


def unwritten_name(error: BaseException) -> str:
    """The name that a test asked of a lesson and that its stub leaves out: one of the stretch."""
    if not is_missing_name(error) or not isinstance(error, AttributeError):
        return ""
    lesson = error.obj.__name__.split(".")[1]
    return "" if error.name in names_of_stub(f"lessons.{lesson}") else str(error.name)


def line_of_the_test(error: BaseException) -> str:
    """Return where the test stood, if none of the judged code was running."""
    frames = traceback.extract_tb(error.__traceback__)
    tests = [frame for frame in frames if Path(frame.filename).parent in TESTS]
    return f"raised by the test's line: {tests[-1].line}" if tests else "no line of yours ran"


def message_lines(error: BaseException, folder: Path) -> Iterator[str]:
    words = import_message(error) if isinstance(error, ImportError) else text_of(error)
    words = "reading from stdin" if is_reading(error) else words.replace(str(folder), "lessons")
    message = f"{type(error).__name__}: {words}" if words else type(error).__name__
    # A name that the code doesn't define has that cause alone, wherever a test meets it.
    notes = () if is_misspelling(error) else getattr(error, "__notes__", ())
    for line in "\n".join([message, *notes]).splitlines():
        words = ADDRESS.sub("", line)  # another one in each run, and no help
        yield from textwrap.wrap(words, WIDTH, subsequent_indent="  ") or [""]


def text_of(error: BaseException) -> str:
    """An error's text, cut, and also where the code's own class can't say it."""
    try:
        return str(error)[:LONGEST_TEXT]
    except Exception as fault:
        return f"(its text can't be had: {type(fault).__name__} in __str__)"


def own_frames(error: BaseException, folder: Path) -> list[traceback.FrameSummary]:
    """The frames of the judged code, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if is_below(frame.filename, folder)]


def place(frame: traceback.FrameSummary, folder: Path) -> str:
    """A frame's file, line and function."""
    return f"{short_path(frame.filename, folder)}:{frame.lineno}, in {frame.name}"


def short_path(filename: str | None, folder: Path) -> str:
    """The path as the learner knows it, wherever the folder of the lessons is."""
    path = Path(filename or "?")
    if path.is_relative_to(folder):
        return f"lessons/{path.relative_to(folder).as_posix()}"
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def is_below(filename: str | None, folder: Path) -> bool:
    if filename is None:
        return False
    path = Path(filename)
    return path.is_relative_to(folder) or path.is_relative_to(ANSWERS)


# --- a lesson that can't be imported ------------------------------------------------------------


def about_syntax(error: SyntaxError, path: str) -> Iterator[str]:
    """Point at what Python can't read; ``path`` is the file as the learner knows it."""
    yield f"{path}:{error.lineno}: {error.msg}"
    yield from pointed_at(error)
    yield labelled("likely cause", f"Python cannot read the file ({type(error).__name__})")
    yield labelled("try", "fix this line first: nothing below it was run")


def pointed_at(error: SyntaxError) -> Iterator[str]:
    """The line that Python can't read, with a mark below the place."""
    source = (error.text or "").rstrip()
    if source:
        indent = len(source) - len(source.lstrip())
        yield f"    {source.strip()}"
        yield "    " + " " * max(0, (error.offset or 1) - 1 - indent) + "^"


def import_message(error: ImportError) -> str:
    """Return what Python says, without the file in which it looked."""
    return FILE.sub("", str(error)) if ASKED.match(str(error)) else str(error)


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
    if lesson in NAMES:
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
    if package != "lessons" or not inner or inner[0] not in NAMES:
        return set()
    return {match[1] for match in DEFINED.finditer(stub(inner[0]).decode())}
