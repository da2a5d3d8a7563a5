"""Which stub each of your files began as: the base of a merge when a stub has changed.

The stubs last seen lie in ``.kata/stubs/``. One is written when its file is seen for the first
time, and again when a new stub was merged into it. A file that had been worked on by then may have
begun as an older stub: the reference's history in git tells which, where there is one.
"""

from __future__ import annotations

import contextlib
import difflib
import subprocess
from pathlib import Path

from kata import places
from kata.copies import write
from kata.stubs import ROOT, SOLUTIONS, Module, modules_of
from lessons import LESSONS

# How far back the history is read, and how long git may take.
VERSIONS, SECONDS = 20, 10


def remember_what_is_new() -> None:
    """Remember each file's stub at the first command; to be refused the writing is no error."""
    if (places.HERE.memory / "stubs").exists():
        return
    with contextlib.suppress(OSError):
        for lesson in LESSONS:
            for module in modules_of(lesson.name):
                remember(module, first_base(module, lesson.name))


def base_of(module: Module, lesson: str) -> bytes:
    """The stub that the learner's file began as."""
    file = remembered(module)
    if not file.is_file():
        return first_base(module, lesson)
    # git may have merged the new stub already; then it is the nearer one.
    return nearest(yours(module), [file.read_bytes(), module.stub_text(lesson).encode()])


def first_base(module: Module, lesson: str) -> bytes:
    """The stub that a file new to us began as: today's, or a nearer one from the history."""
    today = module.stub_text(lesson).encode()
    text = yours(module)
    return today if text in (today, b"") else nearest(text, [today, *earlier_stubs(module, lesson)])


def remember(module: Module, stub: bytes) -> None:
    """From now on, the file counts as begun as this stub."""
    write(remembered(module), stub)


def remembered(module: Module) -> Path:
    return places.HERE.memory / "stubs" / module.stub


def yours(module: Module) -> bytes:
    file = places.HERE.lessons / module.stub
    return file.read_bytes() if file.is_file() else b""


def nearest(text: bytes, stubs: list[bytes]) -> bytes:
    """The stub of which the fewest lines are missing in the text; of equal ones the first."""
    return min(stubs, key=lambda stub: missing_lines(stub, text))


def missing_lines(stub: bytes, text: bytes) -> int:
    lines = stub.splitlines()
    matcher = difflib.SequenceMatcher(None, lines, text.splitlines(), autojunk=False)
    return len(lines) - sum(block.size for block in matcher.get_matching_blocks())


def earlier_stubs(module: Module, lesson: str) -> list[bytes]:
    """The stubs that earlier versions of the reference had, the latest first.

    They are cut from the reference, so nothing that a learner has committed can be among them.
    """
    path = (SOLUTIONS / module.solution).relative_to(ROOT).as_posix()
    commits = git("log", f"-{VERSIONS}", "--format=%H", "--", path).split()
    sources = [git("show", f"{commit}:{path}") for commit in commits]
    return [stub for source in sources if (stub := stub_from(source, module, lesson))]


def stub_from(source: str, module: Module, lesson: str) -> bytes:
    """The stub of an earlier source; empty where that can't be cut."""
    try:
        return module.stub_from(source, lesson).encode()
    except SyntaxError:
        return b""


def git(*words: str) -> str:
    """What git prints; nothing where there is no git, or no repository."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")
