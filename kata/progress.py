"""The learner's files and the state of each lesson; results are kept in ``.kata/``."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kata.judge import Request
from kata.paths import ROOT, STUBS
from kata.stubs import is_stub
from kata.verdict import PASSED, Count, End, State, Verdict
from lessons import COURSE, FINALE, NAMES, TOGETHER, Lesson

# A run that was cut short from outside says nothing about the lesson.
NO_RESULT = (End.STOPPED, End.BROKEN)
NEEDS = {lesson.name: lesson.needs for lesson in COURSE}


@dataclass
class Workspace:
    """A learner's folder of lessons; what the runner keeps is next to it."""

    lessons: Path

    @property
    def memory(self) -> Path:
        return self.lessons.parent / ".kata"


HERE = Workspace(STUBS)


@contextlib.contextmanager
def working_in(lessons: Path) -> Iterator[Workspace]:
    """Let the block's commands work on the lessons in another folder."""
    before, HERE.lessons = HERE.lessons, lessons
    try:
        yield HERE
    finally:
        HERE.lessons = before


# --- the learner's files


def file_of(lesson: str) -> Path:
    return HERE.lessons / f"{lesson}.py"


def source_of(lesson: str) -> bytes:
    """Return what the lesson's file holds now; nothing where it is missing."""
    file = file_of(lesson)
    return file.read_bytes() if file.is_file() else b""


def unwritten(lesson: str) -> list[str]:
    """Return which of a lesson's files (``files_of``) are their stubs."""
    return [each for each in files_of(lesson) if is_stub(each, source_of(each))]


def is_pristine(lesson: str) -> bool:
    """Return whether the lesson's file, or one that the finale or the chain needs, is a stub."""
    return bool(unwritten(lesson))


def files_of(lesson: str) -> tuple[str, ...]:
    """The lessons whose files are judged: itself, or all that the finale or the chain needs."""
    return TOGETHER[lesson].needs if lesson in TOGETHER else (lesson,)


def sources_in(folder: Path) -> dict[str, bytes]:
    """What the lessons' files in a folder hold."""
    files = {name: folder / f"{name}.py" for name in NAMES}
    return {name: file.read_bytes() for name, file in files.items() if file.is_file()}


def written(sources: Mapping[str, bytes]) -> tuple[str, ...]:
    """The lessons whose file differs from the stub, and can be read by Python."""
    return tuple(name for name, source in sources.items() if is_written(name, source))


def is_written(lesson: str, source: bytes) -> bool:
    with contextlib.suppress(SyntaxError, ValueError):
        return not is_stub(lesson, source) and bool(compile(source, lesson, "exec"))
    return False


def write(target: Path, content: bytes) -> None:
    """Write a file, and the folders that it needs."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def short_path(path: Path) -> str:
    """A path as the learner knows it: relative to the repository, if it is inside."""
    root = HERE.lessons.parent
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def hash_of(lesson: str, sources: Mapping[str, bytes] | None = None) -> str:
    """Return a hash of the lesson's code, as it is now or in what was read before."""
    read = source_of if sources is None else sources.__getitem__
    codes = "".join(hash_of_code(read(each)) for each in files_of(lesson))
    return hashlib.sha256(codes.encode()).hexdigest()


@cache
def hash_of_code(source: bytes) -> str:
    """Return a hash of what Python reads in a file: comments and layout change nothing."""
    with contextlib.suppress(SyntaxError, ValueError):
        source = ast.dump(ast.parse(source)).encode()
    return hashlib.sha256(source).hexdigest()


# --- what is the learner's when a lesson is judged


def request(lesson: str, **options: Any) -> Request:
    """Return a run of a lesson as its files are now, each of which is read once."""
    if lesson in TOGETHER:
        sources = {name: source_of(name) for name in NAMES}
        return Request(lesson, sources, written(sources), **options)
    yours = siblings_of(lesson)
    sources = {name: source_of(name) for name in (lesson, *yours)}
    return Request(lesson, sources, yours, **options)


def siblings_of(lesson: str) -> tuple[str, ...]:
    """Return the lessons that are the learner's when another is judged: those that are green."""
    return tuple(name for name in all_needs(lesson) if is_yours(name))


def is_yours(lesson: str) -> bool:
    """Return whether other lessons use the learner's file: its core was green as it is now."""
    result = recall(lesson)
    return result is not None and result.green == hash_of(lesson)


def has_changed(lesson: str) -> bool:
    """Return whether a lesson was green once, and its code is another one now."""
    return bool(getattr(recall(lesson), "green", "")) and not is_yours(lesson)


def all_needs(lesson: str) -> tuple[str, ...]:
    """The lessons that it imports, directly or not."""
    direct = NEEDS[lesson]
    return tuple(dict.fromkeys((*direct, *(name for need in direct for name in all_needs(need)))))


# --- results


@dataclass(frozen=True)
class Result:
    """What a run said, in short.

    Attributes:
        judged: The hash of the code that was judged.
        green: The hash of the code when its core was last green; empty if it never was.
    """

    lesson: str
    state: str
    core: Count
    stretch: Count
    judged: str
    green: str = ""

    @property
    def is_current(self) -> bool:
        """Whether the code is still what was judged."""
        return self.judged == hash_of(self.lesson)


def remember(verdict: Verdict, code: str) -> None:
    """Keep what a run of all the lesson's tests said, with the hash of the code that was judged."""
    if verdict.ending.how in NO_RESULT or verdict.step:
        return
    core = verdict.count(stretch=False)
    green = code if core.is_green else getattr(recall(verdict.lesson), "green", "")
    stretch = verdict.count(stretch=True)
    keep(Result(verdict.lesson, verdict.state, core, stretch, code, green))


def remember_green(verdict: Verdict, code: str) -> None:
    """Keep that a core is green, where its stretch didn't run: that part stays as it was."""
    before = recall(verdict.lesson)
    core = verdict.count(stretch=False)
    if core.is_green:
        new = Result(verdict.lesson, State.DONE, core, Count(), code, code)
        keep(replace(before, green=code) if before else new)


def keep(result: Result) -> None:
    """Write a result; the verdict is shown even if the memory can't be written."""
    with contextlib.suppress(OSError):
        write(result_file(result.lesson), json.dumps(asdict(result), indent=1).encode())


def recall(lesson: str) -> Result | None:
    """Return what the last run of the lesson said; ``None`` if there is no result to read."""
    try:
        content = json.loads(result_file(lesson).read_text(encoding="utf-8"))
        content.update({name: Count(**content[name]) for name in ("core", "stretch")})
        return Result(**content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def result_file(lesson: str) -> Path:
    return HERE.memory / "results" / f"{lesson}.json"


class Standing(NamedTuple):
    """One lesson's row: the lesson, whether its files are the stubs, and its last result."""

    lesson: Lesson
    is_pristine: bool
    result: Result | None

    @property
    def state(self) -> str:
        """The result's state; ``todo`` for a stub, ``edited`` for work that was never judged."""
        if self.is_pristine:
            return "todo"
        return self.result.state if self.result else "edited"

    @property
    def is_stale(self) -> bool:
        """Whether the lesson has changed since it was judged."""
        return not self.is_pristine and self.result is not None and not self.result.is_current

    @property
    def is_done(self) -> bool:
        return self.state in PASSED

    def counts(self, part: str) -> str:
        """The counts of the core or the stretch; empty where there are none to show."""
        count = Count() if self.is_pristine else getattr(self.result, part, Count())
        return str(count) if count.planned else ""


def standings() -> list[Standing]:
    """Every lesson, the finale and the chain, in order."""
    return [Standing(each, is_pristine(each.name), recall(each.name)) for each in COURSE]


def next_of(rows: list[Standing]) -> Standing | None:
    """The lesson to go on with; ``None`` if all are done.

    It is the first one begun and not done, or else the first one left after the last one done, or
    else the first one left. The finale and the chain count once all their lessons are written.
    """
    left = [
        row
        for row in rows
        if (not row.is_done or row.is_stale)
        and not (row.is_pristine and row.lesson.name in TOGETHER)
    ]
    begun = [row for row in left if not row.is_pristine]
    last = max((number for number, row in enumerate(rows) if row.is_done), default=-1)
    ahead = [row for row in rows[last + 1 :] if row in left]
    return next(iter(begun or ahead or left), None)


def milestone(lesson: str) -> str:
    """Return what the lessons can do now that this one is green, and what of it is lent."""
    # The finale shows what its last lesson does.
    name = FINALE.needs[-1] if lesson == FINALE.name else lesson
    file = ROOT / "examples" / f"{name}.py"
    if not file.exists():
        return ""
    script = ast.parse(file.read_text(encoding="utf-8"))
    imported = {need for name in lessons_in(script) for need in (name, *all_needs(name))}
    lent = [name for name in NEEDS if name in imported - {lesson} and not is_yours(name)]
    words = f"{ast.get_docstring(script)} To see it: `kata run examples/{name}.py`"
    return f"{words} (lent by the reference: {', '.join(lent)})" if lent else words


def lessons_in(script: ast.Module) -> Iterator[str]:
    """The lessons that a script imports, in any of Python's ways."""
    for node in script.body:  # what a function imports is an option
        if isinstance(node, ast.Import | ast.ImportFrom):
            source = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            paths = (f"{source}{alias.name}.".split(".") for alias in node.names)
            yield from (
                name for package, name, *_ in paths if package == "lessons" and name in NEEDS
            )
