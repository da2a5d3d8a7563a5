"""A pytest plugin for a run on somebody else's code: it fences the run in.

Python's audit hooks are asked before a file is opened, a process started or a module found, and
cannot be taken out again. While the plugin is loaded, a run reads neither the reference nor other
people's files, writes below its own home alone, and starts no process. Which way round this is
still open stands in ``docs/grading.md``: it is a fence, not a sandbox.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kata import layers
from kata.grading.seal import Seal
from kata.layers import KEPT
from kata.stubs import KEPT as TEXTS
from kata.stubs import ROOT, modules_of, reference_text
from lessons import LESSONS

SEAL = pytest.StashKey[Seal]()
CLOSED = ("solutions", "tests/answers", "tests/oracle")
CLOSED_NAMES = {"solutions", "answers", "oracle"}
CLOSED_MODULES = ("solutions", "tests.answers", "tests.oracle")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PROCESSES = (
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.kill",
    "os.killpg",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.startfile/2",
    "os.system",
    "pty.spawn",
    "subprocess.Popen",
)
# Past Python, nobody is asked.
NATIVE = (
    "ctypes.call_function",
    "ctypes.cdata",
    "ctypes.cdata/buffer",
    "ctypes.dlopen",
    "ctypes.dlsym",
    "ctypes.dlsym/handle",
)
CHANGES = (
    "os.chflags",
    "os.chmod",
    "os.chown",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.removexattr",
    "os.rename",
    "os.rmdir",
    "os.setxattr",
    "os.symlink",
    "os.truncate",
    "os.utime",
)
MEANWHILE = "while a submission is judged"
Check = Callable[..., None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--control`` and ``--close``."""
    group = parser.getgroup("fx-kata grading")
    group.addoption("--control", metavar="WORD", help="what the controls must fail with")
    group.addoption(
        "--close", metavar="PATH", action="append", default=[], help="a folder the run can't read"
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep what may be lent, then close the doors."""
    sys.dont_write_bytecode = True
    for lesson in lessons_judged(config):
        for needed in needed_by(lesson):
            KEPT[needed] = layers.reference(needed)
            paths = [module.solution for module in modules_of(needed)]
            TEXTS.update({path: reference_text(path) for path in paths})
    for name in [name for name in sys.modules if is_closed_module(name)]:
        del sys.modules[name]
    folders = [ROOT / part for part in CLOSED]
    fence = Fence(Path(tempfile.gettempdir()), [*folders, *map(Path, config.getoption("--close"))])
    sys.addaudithook(fence.hook())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Take the judge's marks: the lesson is imported after this."""
    session.config.stash[SEAL] = Seal(session.config.pluginmanager)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Look at the marks after each test, before its fixtures put back what it patched."""
    yield
    item.config.stash[SEAL].look_at_the_suite()


def lessons_judged(config: pytest.Config) -> list[str]:
    names = [Path(word.split("::")[0]).stem.removeprefix("test_") for word in config.args]
    return [lesson.name for lesson in LESSONS if lesson.name in names]


def needed_by(lesson: str) -> set[str]:
    needs = next(set(row.needs) for row in LESSONS if row.name == lesson)
    return needs.union(*map(needed_by, needs))


def is_closed_module(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in CLOSED_MODULES)


class Fence:
    """What a run may do with files and processes.

    Args:
        home: the folder in which it may write.
        closed: files and folders that it can't read.
    """

    def __init__(self, home: Path, closed: list[Path]) -> None:
        self.home = os.path.realpath(home)
        self.closed = tuple(os.path.realpath(path) for path in closed)

    def hook(self) -> Check:
        """The audit hook: it is called often, so that it looks a name up and no more."""
        checks: dict[str, Check] = {
            "open": self.check_open,
            "import": self.check_import,
            **dict.fromkeys(CHANGES, self.check_change),
            **dict.fromkeys(PROCESSES, self.refuse_process),
            **dict.fromkeys(NATIVE, self.refuse_native),
        }

        def audit(event: str, arguments: tuple[object, ...]) -> None:
            check = checks.get(event)
            if check is not None:
                check(*arguments)

        return audit

    def check_open(self, path: object, mode: object, flags: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        name = os.fsdecode(path)
        real = os.path.realpath(name)
        if isinstance(flags, int) and flags & WRITING and not self.is_own(real):
            raise PermissionError(f"{short(name)} cannot be written {MEANWHILE}")
        # A relative name may be meant below a folder that was opened before.
        loose = not Path(name).is_absolute() and CLOSED_NAMES.intersection(Path(name).parts)
        if loose or any(is_below(real, each) for each in self.closed):
            raise PermissionError(f"{short(name)} cannot be read {MEANWHILE}")

    def check_import(self, name: str, *_: object) -> None:
        if is_closed_module(name):
            raise ModuleNotFoundError(f"{name} is not there {MEANWHILE}", name=name)

    def check_change(self, *arguments: object) -> None:
        for path in arguments:
            if isinstance(path, str | bytes | os.PathLike):
                name = os.fsdecode(path)
                if not self.is_own(os.path.realpath(name)):
                    raise PermissionError(f"{short(name)} cannot be changed {MEANWHILE}")

    def refuse_process(self, *_: object) -> None:
        raise PermissionError(f"no process is started or ended {MEANWHILE}")

    def refuse_native(self, *_: object) -> None:
        raise PermissionError(f"ctypes is closed {MEANWHILE}")

    def is_own(self, real: str) -> bool:
        return is_below(real, self.home) or real == os.devnull


def short(name: str) -> str:
    """A path by its end: folders above it have random names, and are nobody's business."""
    return "/".join(Path(name).parts[-2:])


def is_below(real: str, folder: str) -> bool:
    return real == folder or real.startswith(folder + os.sep)
