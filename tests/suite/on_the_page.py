"""Judge a reader's function in the browser: the tests of its step, and the runner's own words.

The tests are those of the suite. What torch records for their functions is in ``tests/data``,
which ``tests/project/test_box.py`` writes and keeps fresh.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import operator
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import torch.fx
from rich.console import Console

from kata.paths import CORES, ROOT, STUBS
from kata.showing import show_failures, show_score
from kata.steps import functions_of, steps_of
from kata.verdict import PASSED, End, Ending, Report, Verdict, sentence_of
from solutions.graph import Graph
from tests.suite.expect import is_todo, line_of
from tests.suite.explain import explain

LESSON, STEP, FUNCTION = "proxy", 1, "record_call"
EXPECTED = ROOT / "tests/data/step_on_the_page.json"
SHOWN = f"lessons/{LESSON}.py"
NEXT = "Your proxies record operators. Go on in your editor: step 2 lets torch's own functions in."


def judge(text: str) -> dict[str, Any]:
    """Run the tests of the step on a reader's function.

    Args:
        text: What replaces the function in the core's file; the rest of it is the reference's.

    Returns:
        ``says``, what the runner would print, and ``state``: ``todo``, ``red`` or ``green``.
    """
    reports = list(reports_on(text))
    verdict = Verdict(LESSON, tuple(reports), Ending(End.FINISHED), (len(reports), 0), step=STEP)
    console = Console()
    show_failures(console, verdict)
    show_score(console, verdict, green="green")
    state = "green" if verdict.state in PASSED else verdict.state
    lines = [str(line) for line in console.lines]  # type: ignore[attr-defined]
    return {"says": "\n".join([*lines, *["", NEXT] * (state == "green")]), "state": state}


def reports_on(text: str) -> Iterator[Report]:
    """Yield what each test of the step says."""
    suite = suite_of_the_step()
    module, fault = imported(text)
    for name, test in list(vars(suite).items()):
        if name.startswith("test_"):
            for case in getattr(test, "cases", [{}]):
                nodeid = name + "".join(f"[{value}]" for value in case.values())
                vars(suite)["expected"] = partial(expected, nodeid)
                yield report_of(nodeid, partial(test, module, **case), module, fault)


def imported(text: str) -> tuple[ModuleType | None, Exception | None]:
    """Return the reader's file as a module, or the error of its import."""
    (STUBS / f"{LESSON}.py").write_text(in_place(text), encoding="utf-8")
    importlib.invalidate_caches()
    sys.modules.pop(f"lessons.{LESSON}", None)
    try:
        return importlib.import_module(f"lessons.{LESSON}"), None
    except Exception as error:
        return None, error


def in_place(text: str) -> str:
    """The core's file, with a text in the place of the function."""
    source = (CORES / f"{LESSON}.py").read_text(encoding="utf-8")
    function = dict(functions_of(ast.parse(source).body))[FUNCTION]
    lines = source.splitlines()
    before, after = lines[: function.lineno - 1], lines[function.end_lineno :]
    return "\n".join([*before, text, *after]) + "\n"


def suite_of_the_step() -> ModuleType:
    """The suite as a module, without the tests of other steps."""
    source = (ROOT / f"tests/test_{LESSON}.py").read_text(encoding="utf-8").splitlines()
    steps = steps_of(LESSON)
    first = min(step.lines.start for step in steps.values())
    kept = [*source[: first - 1], *(source[line - 1] for line in steps[STEP].lines)]
    torch.fx.Graph = Graph  # type: ignore[misc, assignment]
    suite = ModuleType(f"tests.test_{LESSON}")
    exec(compile("\n".join(kept), f"test_{LESSON}.py", "exec"), vars(suite))
    return suite


def report_of(
    nodeid: str, test: Callable[[], None], module: ModuleType | None, fault: Exception | None
) -> Report:
    """Run one case of a test."""
    printed, outcome, text, line = io.StringIO(), "passed", "", 0
    try:
        with contextlib.redirect_stdout(printed):
            if fault:
                raise fault
            test()
    except Exception as error:
        outcome = "todo" if is_todo(error) else "failed"
        text = str(error) if is_todo(error) else explain(error, STUBS, module)
        line = line_of(error)
    title = f"{SHOWN} can't be imported" if fault else ""
    words, printing = sentence_of(nodeid), printed.getvalue()
    return Report(nodeid, words, outcome, False, text, printing, title, line)


def expected(nodeid: str, *function: Any) -> Graph:
    """Return the graph that torch recorded for a test."""
    graph, nodes = Graph(), dict[str, Any]()
    for op, target, name, args in json.loads(EXPECTED.read_text(encoding="utf-8"))[nodeid]:
        callee = getattr(operator, target) if op == "call_function" else target
        nodes[name] = graph.create_node(op, callee, eval(args, dict(nodes)), name=name)
    return graph
