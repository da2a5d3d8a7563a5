"""The box of the site, without a browser: what it answers, and when a site has one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from typing import Any

import pytest
from torch.fx import proxy as torchs

import tests.test_proxy as suite
from kata.paths import ROOT
from kata.steps import steps_of
from tests.suite.on_the_page import EXPECTED, LESSON, STEP
from tools.box import build
from tools.pages.road import first_hole

WORKER = ROOT / "tools/box/worker.js"
PAGES = [
    ROOT / "docs/try.md",
    ROOT / "docs/lessons/proxy.md",
    ROOT / "docs/ten_minutes.md",
    ROOT / "docs/index.md",
]

# --- what a reader's code is answered -------------------------------------------------------------

HEAD = "def record_call(function, *args, **kwargs):\n    "
FIRST = "next(each.tracer for each in tree_leaves((args, kwargs)) if isinstance(each, Proxy))"
CALL = f'{HEAD}return {FIRST}.create_proxy("call_function", function, '
# What is typed into the box for a step, and what its verdict says.
STEPS = {
    "untouched": (first_hole(LESSON), "next: record_call", "40 tests wait for it"),
    "right": (f"{CALL}args, kwargs)", f"green     proxy           step {STEP}: 40 of", "Go on in"),
    "swapped": (
        f"{CALL}args[::-1], kwargs)",
        *("expected:     args (x, y)", "got:          args (y, x)", "the operands were swapped"),
    ),
    "an unknown name": (f"{HEAD}print('hello')\n    return oops", "name 'oops' is", "    hello"),
    "a syntax error": ("def record_call(", "was never closed", "all 40 tests wait for this"),
}
# What is typed into the box for a trace, and what is said of it.
TRACES = {
    "a branch": (
        "def f(x):\n    if x.sum() > 0:\n        return x\n    return -x",
        *("line 2: if x.sum() > 0:", "TraceError: a proxy is neither", "use `torch.where`"),
    ),
    "no proxy": (
        "def f(x):\n    return torch.ones(3) + x",
        *("line 2: return torch.ones(3) + x", "no tensors"),
    ),
    "a syntax error": ("x = (", "line 1: x = (", "was never closed"),
    "endless": ("def f(x):\n    return f(x)", "RecursionError"),
}
GATE = """
def half(x):
    return torch.Tensor.div(x, 2)

def gate(x, *rest, scale=1, **others):
    print("traced")
    first, second = torch.special.erf(half(x))
    return F.relu(first[1:] * scale).to(torch.float32), second.shape[0]
"""
SESSION = """
import json, sys
print(json.dumps([json.loads(answer(*each)) for each in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[tuple[str, str], dict[str, Any]]:
    """What the box answers, in a process that has what the browser has: the archive, no torch."""
    folder = tmp_path_factory.mktemp("box")
    build.write_course(folder / "course.zip")
    zipfile.ZipFile(folder / "course.zip").extractall(folder / "course")
    start = re.search(r"const START = `(.*?)\nanswer`", WORKER.read_text(), re.DOTALL)[1]
    typed = {("step", name): text for name, (text, *_) in STEPS.items()}
    typed |= {("trace", name): text for name, (text, *_) in TRACES.items()}
    typed |= {("trace", "gate"): GATE}
    asked = json.dumps([(kind, text) for (kind, _), text in typed.items()])
    command = [sys.executable, "-I", "-c", start + SESSION]
    done = subprocess.run(command, cwd=folder, input=asked, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return dict(zip(typed, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_judged_in_the_runners_words(answers, name: str):
    answer = answers["step", name]
    assert answer["state"] == {"untouched": "todo", "right": "green"}.get(name, "red")
    assert not [words for words in STEPS[name][1:] if words not in answer["says"]], answer["says"]


@pytest.mark.parametrize("name", TRACES)
def test_what_cannot_be_traced_is_an_error_with_its_line_and_what_to_do(answers, name: str):
    answer = answers["trace", name]
    assert answer["state"] == "red"
    assert not [words for words in TRACES[name][1:] if words not in answer["says"]], answer["says"]


def test_a_function_becomes_a_picture_and_python(answers):
    answer = answers["trace", "gate"]
    assert (answer["state"], answer["says"]) == ("traced", "traced\n")
    assert '<figure class="fx-figure"' in answer["figure"]
    assert "13 nodes" in answer["figure"]
    assert "def forward(self, x, scale):" in answer["code"]
    assert "erf = torch.special.erf(div)" in answer["code"]
    assert "relu = torch.nn.functional.relu(" in answer["code"]


# --- what torch records ---------------------------------------------------------------------------


def recorded(monkeypatch) -> str:
    """The graphs with which the tests of the step compare, as torch records them."""
    lines, record = [], suite.expected
    for name, test in vars(suite).items():
        code = getattr(test, "__code__", None)
        if name.startswith("test_") and code.co_firstlineno in steps_of(LESSON)[STEP].lines:
            for case in cases_of(test):
                graphs = []
                expected = lambda *given: graphs.append(record(*given)) or graphs[-1]
                monkeypatch.setattr(suite, "expected", expected)
                test(torchs, **case)
                nodeid = name + "".join(f"[{value}]" for value in case.values())
                rows = [row(node) for graph in graphs for node in graph.nodes]
                lines += [f"{json.dumps(nodeid)}: {json.dumps(rows)}"] * bool(graphs)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def cases_of(test) -> list[dict[str, str]]:
    marks = getattr(test, "pytestmark", [])
    return [{mark.args[0]: value} for mark in marks for value in mark.args[1]] or [{}]


def row(node) -> list[str]:
    return [node.op, getattr(node.target, "__name__", node.target), node.name, repr(node.args)]


def test_the_expected_graphs_are_those_that_torch_records(monkeypatch):
    """After a change of the step's tests: `GOLDEN=write pytest tests/project/test_box.py`."""
    text = recorded(monkeypatch)
    if os.environ.get("GOLDEN") == "write":
        EXPECTED.write_text(text)
    assert EXPECTED.read_text() == text


# --- which sites have a box -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("npm", "package", "words"),
    [
        (None, None, "the site has no box to run Python in: npm isn't installed"),
        ("/bin/npm", b"another one", "isn't the package that is pinned"),
    ],
)
def test_a_site_without_the_pinned_package_has_no_box_and_no_word_about_it(
    npm, package, words, monkeypatch, tmp_path
):
    said: list[str] = []
    monkeypatch.setattr(build.LOG, "info", lambda text, *values: said.append(text % values))
    monkeypatch.setenv("BOX", "1")
    monkeypatch.setattr(build, "TARBALL", tmp_path / build.TARBALL.name)
    monkeypatch.setattr(build.shutil, "which", lambda name: npm)
    if package:
        build.TARBALL.write_bytes(package)
    build.has_box.cache_clear()
    shown = [build.with_box(page.read_text()) for page in PAGES[1:]]
    build.has_box.cache_clear()
    assert not [text for text in shown if re.search(r"fx-box|try\.md|your browser", text.lower())]
    assert words in said[0]
    assert not build.TARBALL.exists()


def test_a_site_with_a_box_shows_it(monkeypatch):
    monkeypatch.setattr(build, "has_box", lambda: True)
    traced, step, link, button = (build.with_box(page.read_text()) for page in PAGES)
    assert "<!-- box" not in traced + step + link + button
    assert "raise NotImplementedError(" in step
    assert ("Copy a link" in step, "Copy a link" in traced) == (False, True)
    assert all("](try.md)" in text for text in (link, button))
