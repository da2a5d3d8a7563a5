"""Find the judged code's own line in what faulthandler wrote about a process that is no more."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

from kata.judging.verdict import Place

FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)


def own_place(dump: Path, folder: Path) -> Place | None:
    """The innermost frame below a folder; in the thread that was running, if it has one.

    Args:
        dump: the file that faulthandler wrote, the most recent call first.
        folder: where the judged code lies.
    """
    text = dump.read_text(encoding="utf-8", errors="replace") if dump.exists() else ""
    threads = sorted(text.split("\n\n"), key=lambda thread: not thread.startswith("Current"))
    for thread in threads:
        for frame in FRAME.finditer(thread):
            file = Path(frame["file"])
            if file.is_relative_to(folder):
                return place(file, folder, int(frame["line"]), frame["function"])
    return None


def place(file: Path, folder: Path, line: int, function: str) -> Place:
    source = linecache.getline(str(file), line).strip()
    return Place(f"lessons/{file.relative_to(folder).as_posix()}", line, function, source)
