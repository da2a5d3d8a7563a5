"""Time what a learner waits for: ``python -m tools.latency [--saves N] [LESSON …]``.

Each lesson is saved again and again in a folder of its own, under a real watch: with the first
function of its first step broken, until the failure is on the screen, and with the whole core,
until the screen says that it is green. Before that, a learner has read a first failure, and the
judge has had the time to rehearse the lesson.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kata import progress
from kata.commands.watch import BUSY, Saves, Watch
from kata.judge import Judge
from kata.paths import CORES
from kata.steps import steps_of_functions
from kata.stubs import as_lessons
from kata.terminal import open_console
from lessons import NAMES
from tools.stubs import write

READING = 20.0
LONGEST = 120.0


def main(arguments: argparse.Namespace) -> None:
    """Print the median and the maximum of each lesson, in seconds."""
    print(f"{'lesson':<16}{'first failure':>18}{'green core':>18}   (median, longest in s)")
    with (
        tempfile.TemporaryDirectory() as folder,
        progress.working_in(Path(folder).resolve() / "lessons") as place,
        Judge() as judge,
    ):
        write(place.lessons)
        for lesson in arguments.lessons or NAMES:
            with contextlib.closing(Saves(place.lessons)) as saves:
                console = open_console(stream=io.StringIO())
                watch = Watch(judge, console, saves, lesson)
                until_quiet(watch)
                red, green = waits(watch, lesson, arguments.saves)
            print(f"{lesson:<16}{told(red):>18}{told(green):>18}", flush=True)


def waits(watch: Watch, lesson: str, saves: int) -> tuple[list[float], list[float]]:
    """Save a broken and a whole file alternately; return what each of them took."""
    core = as_lessons((CORES / f"{lesson}.py").read_text(encoding="utf-8"))
    wrong = broken(lesson, core)
    wait(watch, wrong, lambda: watch.shown is not None)
    until_quiet(watch)
    time.sleep(READING)
    red, green = [], []
    for number in range(saves):
        # Another file each time: the same one would be no change.
        red.append(wait(watch, f"{wrong}\n# {number}\n", lambda: watch.shown is not None))
        until_quiet(watch)
        green.append(wait(watch, f"{core}\n# {number}\n", lambda: watch.is_core_shown))
        until_quiet(watch)
    return red, green


def broken(lesson: str, core: str) -> str:
    """The core, in which a function of the first step raises an error."""
    name = next(name for name, steps in steps_of_functions(lesson).items() if 1 in steps)
    function = name.rpartition(".")[2]
    head, definition, rest = core.partition(f"def {function}(")
    line = next(at for at, each in enumerate(rest.splitlines()) if '"""' in each)
    lines = rest.splitlines()
    indent = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
    lines.insert(line, f"{indent}raise RuntimeError('not yet')")
    return "\n".join([head + definition + lines[0], *lines[1:]])


def wait(watch: Watch, text: str, is_there: Callable[[], bool]) -> float:
    """Save a lesson, and return how long it takes until something is on the screen."""
    watch.shown, watch.is_core_shown = None, False
    began = time.perf_counter()
    progress.file_of(watch.only or "").write_text(text, encoding="utf-8")
    for _ in turns(watch):
        if is_there():
            return time.perf_counter() - began
    raise TimeoutError(f"{watch.only}: nothing on the screen after {LONGEST:.0f} s")


def until_quiet(watch: Watch) -> None:
    """Let the run in progress, and those that wait, come to their end."""
    for _ in turns(watch):
        if watch.run is None and not watch.pending:
            return


def turns(watch: Watch) -> Iterator[None]:
    """Let the watch do what it does again and again."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        time.sleep(BUSY)
        watch.notice()
        watch.follow()
        yield


def told(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} {max(seconds):.2f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("lessons", nargs="*", choices=[*NAMES, []], metavar="LESSON")
    parser.add_argument("--saves", type=int, default=10, help="of each kind (default: %(default)s)")
    main(parser.parse_args())
