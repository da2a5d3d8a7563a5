"""Every example runs: those in docstrings of the reference, and those on the lessons' pages."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kata.stubs import ROOT

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for room in ("solutions", "kata")
    for path in (ROOT / room).rglob("*.py")
    if path.stem != "__main__"
)
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FENCE = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
OUTPUT = 'text title="output"'
# Shown, not run: a shell's dialogue, pictures in text, settings, and quotations of the reference.
SHOWN = {"console", "text", "toml", "yaml", "solution"}


class Fence(NamedTuple):
    """A fenced block of a page."""

    line: int
    info: str
    text: str


def fences(page: str) -> Iterator[Fence]:
    for match in FENCE.finditer(page):
        indent, info, text = match.groups()
        lines = [line.removeprefix(indent) for line in text.splitlines()]
        yield Fence(page.count("\n", 0, match.start()) + 1, info.strip(), "\n".join(lines))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_give_what_they_say(name: str):
    report = io.StringIO()
    with contextlib.redirect_stdout(report):
        failed = doctest.testmod(importlib.import_module(name)).failed
    assert not failed, report.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_print_what_it_shows(page: Path, monkeypatch):
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {"__name__": f"page_{page.stem}"}
    printed = None
    for fence in fences(page.read_text()):
        where = f"{page.name}, line {fence.line}"
        if fence.info == "python":
            printed = output_of(fence, str(page), namespace)
        elif fence.info == OUTPUT:
            assert printed is not None, f"{where}: there is no example above this output"
            assert printed.rstrip() == fence.text.rstrip(), where
        else:
            assert fence.info in SHOWN, f"{where}: unknown fence {fence.info!r}"


def output_of(fence: Fence, filename: str, namespace: dict[str, object]) -> str:
    """What an example prints; its lines are counted as the page's, for tracebacks."""
    code = compile("\n" * fence.line + fence.text, filename, "exec", dont_inherit=True)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, namespace)
    return out.getvalue()


BROKEN = {
    "code": "```python\nraise ValueError\n```\n",
    "output": f"```python\nprint(1)\n```\n\n```{OUTPUT}\n2\n```\n",
    "in a hint": '??? tip "Hint"\n\n    ```python\n    1 / 0\n    ```\n',
    "unknown": "```pyhton\n1\n```\n",
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_example_is_noticed(fault: str, tmp_path: Path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{BROKEN[fault]}")
    with pytest.raises((AssertionError, ValueError, ZeroDivisionError)):
        test_the_examples_of_a_page_print_what_it_shows(page, monkeypatch)
