"""The pytest side of the suite: whose code runs, what counts as todo, what a learner reads."""

from __future__ import annotations

import contextlib
import gc
import inspect
import json
import math
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import _pytest.python
import _pytest.reports
import _pytest.runner
import pytest
import torch
from torch import nn

from given.backend import find_compiler
from kata import progress
from kata.paths import ROOT
from kata.steps import steps_of
from lessons import CHAIN, COURSE, TOGETHER
from tests import zoo
from tests.suite import engine
from tests.suite.expect import Words, is_todo, line_of, mismatch
from tests.suite.explain import LONGEST_TEXT, explain, is_skip_of_the_suite, unwritten_name
from tests.suite.implementations import (
    Implementation,
    core,
    cores_together,
    learners,
    learners_together,
    reference,
    torch_itself,
    whole_engine,
)
from tests.suite.versions import skip_what_is_newer

Loader = Callable[[str], Implementation]
IMPLEMENTATIONS = ("lessons", "core", "full", "torch")
LOADER = pytest.StashKey[Loader]()
OTHERS = pytest.StashKey[dict[str, Loader]]()
SUBJECT = pytest.StashKey["Subject"]()
LEFT_OUT = pytest.StashKey[int]()
JUDGED = tuple(lesson.name for lesson in COURSE)
PROJECT = ROOT / "tests" / "project"
STRETCH = ROOT / "tests" / "stretch"
THIS_MACHINE = ("127.", "::1", "localhost")
# What decides on a test: each owner, its names now, and its names before.
PYTEST: list[tuple[Any, Any, dict[str, Any]]] = [
    (owner, vars(owner), dict(vars(owner)))
    for owner in (
        *(pytest.Function, pytest.Item, pytest.CallInfo, pytest.TestReport),
        *(_pytest.python, _pytest.runner, _pytest.reports),
    )
]
# What a trace patches.
UNPATCHED = {name: getattr(nn.Module, name) for name in ("__call__", "__getattr__")}

_is_frozen = False
_replaced: list[str] = []


class NetworkError(RuntimeError):
    """A test asked for something beyond this machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add whose code runs, and which tests; and the runner's ``--order``."""
    group = parser.getgroup("fx-kata")
    words = "whose code runs: your lessons, the reference (its cores, or whole), or torch itself"
    group.addoption("--impl", choices=IMPLEMENTATIONS, default="lessons", help=words)
    words = "whose code runs besides: a test of a lesson is then one test for each"
    group.addoption("--and", choices=IMPLEMENTATIONS[1:], action="append", default=[], help=words)
    group.addoption("--lessons", metavar="DIR", help="where the lessons are, if not in lessons/")
    words = "run only the tests of this step"
    group.addoption("--step", metavar="N", type=int, default=0, help=words)
    group.addoption("--order", metavar="JSON", help="what `kata` asks of a run")


@dataclass(frozen=True)
class Subject:
    """Whose code is judged.

    Attributes:
        impl: ``lessons``, ``core``, ``full`` or ``torch``.
        folder: Where the learner's lessons are.
        yours: The siblings that are the learner's; ``None`` for those that are green.
        step: The step whose tests alone run; 0 for all.
    """

    impl: str
    folder: Path
    yours: tuple[str, ...] | None
    step: int

    @property
    def is_learners(self) -> bool:
        return self.impl == "lessons"

    @property
    def is_here(self) -> bool:
        """Whether these are the lessons whose results the runner keeps."""
        return self.is_learners and self.yours is None

    def loader(self) -> Loader:
        return cache(lambda lesson: (self.pieces if lesson in TOGETHER else self.piece)(lesson))

    def piece(self, lesson: str) -> Implementation:
        load = {"core": core, "full": reference, "torch": torch_itself}.get(self.impl)
        if load:
            return load(lesson)
        yours = progress.siblings_of(lesson) if self.yours is None else self.yours
        return learners(lesson, self.folder, yours, self.step)

    def pieces(self, name: str) -> Implementation:
        if self.impl != "lessons":
            return cores_together(name) if self.impl == "core" else whole_engine()
        yours = self.yours
        if yours is None:
            yours = progress.written(progress.sources_in(self.folder))
        return learners_together(name, self.folder, yours)


def subject_of(config: pytest.Config) -> Subject:
    """Whose code is judged: as the runner's order says, or the options."""
    impl, folder, step = map(config.getoption, ("--impl", "--lessons", "--step"))
    if order := order_of(config):
        folder = Path(order["folder"], "lessons")
        return Subject(impl, folder, tuple(order["yours"]), order["step"])
    folder = Path(folder).resolve() if folder else progress.HERE.lessons
    if folder == progress.HERE.lessons:
        return Subject(impl, folder, None, step)
    return Subject(impl, folder, progress.written(progress.sources_in(folder)), step)


def order_of(config: pytest.Config) -> dict[str, Any]:
    """Return what the runner asks; nothing where pytest was started by hand."""
    order: dict[str, Any] = json.loads(config.getoption("--order") or "{}")
    return order


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # A fork has none of the threads that its process has computed with, and waits for them forever.
    torch.set_num_threads(1)
    if not torch.accelerator.is_available():
        # Autograd starts its threads for devices at the first backward, and a fake tensor claims to
        # have one. A fork has no such threads, so it can't go backward if there are any.
        torch.ones((), requires_grad=True).backward()
    subject = config.stash[SUBJECT] = subject_of(config)
    config.stash.setdefault(LOADER, subject.loader())
    others = (replace(subject, impl=impl) for impl in config.getoption("--and"))
    config.stash[OTHERS] = {other.impl: other.loader() for other in others}


@pytest.hookimpl(trylast=True)  # one case's tests come one after the other, and share an export
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """If several implementations are judged in one run, each meets a test of its own."""
    others = metafunc.config.getoption("--and")
    if others and lesson_of(metafunc.definition) and "lesson" in metafunc.fixturenames:
        impls = [metafunc.config.getoption("--impl"), *others]
        metafunc.parametrize("lesson", impls, indirect=True)


def impl_of(item: pytest.Item) -> str:
    """Whose code a test judges."""
    asked: str = item.config.getoption("--impl")
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return parameters.get("lesson", asked) if lesson_of(item) else asked


def implementation_of(item: pytest.Item) -> Implementation:
    """The lesson as the code that a test judges has it."""
    loaders = item.config.stash[OTHERS]
    return loaders.get(impl_of(item), item.config.stash[LOADER])(lesson_of(item) or "")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The maintainer's own tests (of runner, site and repository) run only with `--impl full`."""
    impl = config.getoption("--impl")
    is_project = collection_path.is_relative_to(PROJECT) and impl != "full"
    is_stretch = collection_path.is_relative_to(STRETCH) and impl == "core"
    return True if is_project or is_stretch else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep the garbage collector away from imported modules, and let it come less often."""
    global _is_frozen
    result = yield
    if not _is_frozen:  # a run inside a run would freeze the garbage of others
        _is_frozen = True
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the tests that are asked for, mark the core, and expect torch to fail `beyond`."""
    items[:] = [item for item in items if is_asked(item, impl_of(item))]
    if step := config.stash[SUBJECT].step:
        items[:] = [item for item in items if is_of_step(item, step)]
    for item in items:
        if STRETCH in item.path.parents:
            item.add_marker(pytest.mark.stretch)
        if not (is_stretch(item) or any(item.get_closest_marker(name) for name in ("slow", "gpu"))):
            item.add_marker(pytest.mark.core)
        if is_beyond_torch(item):
            marker = item.get_closest_marker("beyond")
            # Strict, so that we notice when torch is mended.
            item.add_marker(pytest.mark.xfail(reason=marker.args[0], strict=True, **marker.kwargs))
    skip_what_is_newer(items)
    skip_what_needs("gpu", torch.cuda.is_available(), "CUDA", items)
    skip_what_needs("compiler", has_compiler(), "a C compiler: CC, cc, gcc or clang", items)
    if config.stash[SUBJECT].is_learners and not config.option.markexpr:
        quick = [item for item in items if not item.get_closest_marker("slow")]
        config.stash[LEFT_OUT], items[:] = len(items) - len(quick), quick


def skip_what_needs(marker: str, is_there: bool, what: str, items: list[pytest.Item]) -> None:
    """Skip the tests with a marker where what they need isn't there."""
    for item in items:
        if item.get_closest_marker(marker) and not is_there:
            item.add_marker(pytest.mark.skip(reason=f"needs {what}"))


def has_compiler() -> bool:
    """Return whether there is a C compiler."""
    with contextlib.suppress(OSError):
        return bool(find_compiler())
    return False


def is_asked(item: pytest.Item, impl: str) -> bool:
    """Return whether a test is meant for this code: what is unasked doesn't count for the star."""
    lesson = lesson_of(item)
    if lesson in TOGETHER:  # the chain of the whole reference would make torch's objects
        return impl in ("core", "lessons") or (impl == "full" and lesson != CHAIN.name)
    if impl == "core":
        return lesson is not None and STRETCH not in item.path.parents
    return impl != "lessons" or item.get_closest_marker("unasked") is None


def is_of_step(item: pytest.Item, step: int) -> bool:
    """Return whether a test of a core's suite is below the heading of a step."""
    if STRETCH in item.path.parents or not isinstance(item, pytest.Function):
        return False
    section = steps_of(lesson_of(item) or "").get(step)
    test = inspect.unwrap(item.function)  # a test of random programs is decorated
    return section is not None and test.__code__.co_firstlineno in section.lines


def is_beyond_torch(item: pytest.Item) -> bool:
    """Return whether torch is judged, and known to fail this test."""
    is_beyond = item.get_closest_marker("beyond") is not None
    return is_beyond and impl_of(item) == "torch"


def is_stretch(item: pytest.Item) -> bool:
    """Return whether a test asks for more than the core."""
    return any(item.get_closest_marker(name) for name in ("stretch", "beyond"))


def lesson_of(item: pytest.Item) -> str | None:
    """The lesson a test belongs to, or ``None`` for the maintainer's own tests."""
    name = item.path.stem.removeprefix("test_")
    return name if name in JUDGED else None


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Fail a test that connects to another machine, even where there is a network."""
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        is_far = self.family in (socket.AF_INET, socket.AF_INET6)
        if is_far and not str(address[0]).startswith(THIS_MACHINE):
            raise NetworkError(f"tests have no network: something asked for {address[0]}")
        connect(self, address)

    with mock.patch.object(socket.socket, "connect", connect_here):
        yield


@pytest.fixture
def lesson(request: pytest.FixtureRequest) -> Iterator[object]:
    """The module under test: yours, the reference's, or torch's own names."""
    zoo.seed(0)  # what a test says is the same each time, and where it runs alone
    implementation = implementation_of(request.node)
    engine.use(implementation.engine)
    with nothing_left_patched(vars(request.module)), implementation.active() as module:
        yield module


@contextlib.contextmanager
def nothing_left_patched(namespace: dict[str, Any]) -> Iterator[None]:
    """Undo what a trace may have left behind, so that it can't fail later tests.

    A trace patches ``nn.Module``, torch's flag and patcher, and functions in ``math`` and in the
    globals of the traced code, which are the test module's.
    """
    state = torch.fx._symbolic_trace
    # Up to torch 2.13 the flag is a global, like the patcher; later it is local to the thread.
    flags = vars(getattr(state, "_is_fx_tracing_tls", state))
    numbers = getattr(state.Tracer, "_qualname_counter", {})  # of the names of constants
    copies = [(each, dict(each)) for each in (vars(state), flags, vars(math), namespace, numbers)]
    try:
        yield
    finally:
        for each, before in copies:
            for name in [name for name in each if name not in before]:
                del each[name]
            each.update(before)
        for name, method in UNPATCHED.items():
            if getattr(nn.Module, name) is not method:  # to set a method takes long
                setattr(nn.Module, name, method)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    put_pytest_back(item)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that leaves ``nn.Module`` patched: later tests would fail for another reason."""
    nothing_of_pytest_was_replaced()
    try:
        yield
    except Exception as error:
        if is_beyond_torch(item):
            # Its traceback isn't read, and to quote torch's long files in it takes half a second.
            pytest.fail(repr(error), pytrace=False)
        raise
    put_pytest_back(item)
    nothing_of_pytest_was_replaced()
    if lesson_of(item) is not None:
        nothing_is_patched()


def put_pytest_back(item: pytest.Item) -> None:
    """Undo what the judged code has replaced in pytest, and remember it."""
    for owner, now, before in PYTEST:
        for name in [name for name in before if now.get(name) is not before[name]]:
            setattr(owner, name, before[name])
            _replaced.append(f"{owner.__name__}.{name}")
    if isinstance(item, pytest.Function) and item.obj is not getattr(
        item.module, item.originalname, None
    ):
        _replaced.append("Function.obj")


def nothing_of_pytest_was_replaced() -> None:
    """Fail if the judged code has replaced a function of pytest: then no test can be trusted."""
    if _replaced:
        raise mismatch(
            expected=Words("pytest as it is"),
            got=Words(f"another `{_replaced[0]}`"),
            cause="the lesson's code replaced a function of pytest",
            hint="remove that line, and let the test run",
        )


def nothing_is_patched() -> None:
    """Fail unless all that a trace patches in torch is as it was: two methods and a flag."""
    left = [
        f"`nn.Module.{name}` is still patched"
        for name, method in UNPATCHED.items()
        if getattr(nn.Module, name) is not method
    ]
    if torch.fx._symbolic_trace.is_fx_symbolic_tracing():
        left.append("torch's flag still says that a trace is on")
    if left:
        raise mismatch(
            expected=Words("torch as it was before the test"),
            got=Words(left[0]),
            cause="a trace has ended, in success or by an error, and its patches are still there",
            hint="put back in a `finally` what was patched",
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport]:
    """Report what is still to write as todo, and explain any other failure to learners."""
    report: pytest.TestReport = yield
    # Code that prints forever would fill the memory: item and report keep it until the end.
    ends = [(*place, text[-LONGEST_TEXT:]) for *place, text in item._report_sections]
    item._report_sections[:] = ends
    report.sections = [(title, text[-LONGEST_TEXT:]) for title, text in report.sections]
    report.lesson = lesson = lesson_of(item)
    report.is_stretch = is_stretch(item)
    if lesson is None or call.excinfo is None:
        return report
    error, judged_lesson = call.excinfo.value, implementation_of(item)
    is_ours = item.get_closest_marker("skip") or is_skip_of_the_suite(error, judged_lesson.folder)
    todo = what_is_todo(report, error, judged_lesson)
    if report.failed and todo:
        report.outcome, report.todo = "skipped", True
        report.longrepr = (str(item.path), 0, todo)
        report.line = line_of(error) if is_todo(error) else 0
    elif item.config.stash[SUBJECT].is_learners and not is_ours:
        fail(report, error, judged_lesson)
    return report


def what_is_todo(report: pytest.TestReport, error: BaseException, lesson: Implementation) -> str:
    """Return what is to be written, if a test failed because it is missing; else nothing."""
    if is_todo(error):
        return str(error)
    if report.is_stretch and (name := unwritten_name(error)):
        return f"{lesson.lesson}: write `{name}`"
    return f"{lesson.lesson}: write the core" if report.is_stretch and lesson.is_stub else ""


def fail(report: pytest.TestReport, error: BaseException, lesson: Implementation) -> None:
    """Explain a failure in its report; a test that the lesson itself skipped has failed, too."""
    report.outcome = "failed"
    vars(report).pop("wasxfail", None)
    report.longrepr = explain(error, lesson.folder, lesson.module)
    if error is lesson.error:
        # It isn't about what the test asks.
        report.title = f"lessons/{lesson.lesson}.py can't be imported"


def pytest_report_teststatus(report: pytest.TestReport) -> tuple | None:
    if getattr(report, "todo", False):
        return "todo", "t", ("TODO", {"yellow": True})
    return None
