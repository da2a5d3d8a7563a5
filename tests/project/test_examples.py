"""Every example runs: those in docstrings, and those on the site's pages."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import textwrap
from pathlib import Path

import markdown
import pytest

from kata.paths import ROOT
from tools.pages.examples import all_pages, faults, rewrite
from tools.pages.fences import FenceError, fences

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for room in ("given", "solutions", "kata", "drawing", "tools")
    for path in (ROOT / room).rglob("*.py")
    if path.stem != "__main__"
)
# As the site's Markdown reads a page, as far as its fences go.
EXTENSIONS = [
    *("admonition", "attr_list", "md_in_html", "tables", "toc"),
    *("pymdownx.details", "pymdownx.superfences", "pymdownx.tabbed"),
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_give_what_they_say(name: str):
    report = io.StringIO()
    with contextlib.redirect_stdout(report):
        failed = doctest.testmod(importlib.import_module(name)).failed
    assert not failed, report.getvalue()


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_the_examples_of_a_page_print_what_it_shows(page: Path):
    found = faults(page)
    assert not found, "\n".join([*found, "`python -m tools.pages.examples --write` mends outputs"])


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_no_fence_that_the_site_shows_is_passed_over(page: Path):
    text = page.read_text()
    configs = {"pymdownx.tabbed": {"alternate_style": True}}
    html = markdown.markdown(text, extensions=EXTENSIONS, extension_configs=configs)
    assert html.count("<pre>") == len(list(fences(text)))


SOUND = '```python\nprint(1)\n```\n\n```text title="output"\n1\n```\n'
FAULTS = {
    "code with words after it": ('```python hl_lines="1"\n1 / 0\n```\n', "ZeroDivisionError"),
    "code between tildes": ("~~~python\n1 / 0\n~~~\n", "ZeroDivisionError"),
    "wrong output": (SOUND.replace("\n1\n", "\n2\n"), "the page says"),
    "output left out": ("```python\nprint(1)\n```\n", "doesn't show it"),
    "output of nothing": ('```text title="output"\n1\n```\n', "no example above"),
    "a session, which isn't run": ("```pycon\n>>> 1 + 1\n2\n```\n", "unknown fence"),
    "unknown language": ("```pyhton\n1\n```\n", "unknown fence"),
    "no language": ("```\n1\n```\n", "unknown fence"),
    "untested file": ('```python\n--8<-- "elsewhere/code.py"\n```\n', "no tested room"),
}
PLACES = {
    "in the text": "{}",
    "in a hint in a tab": '=== "Exercise"\n\n    ??? tip "Hint"\n\n        {}',
    "in a list": "- One.\n\n    {}",
    "in a quotation": "> {}",
}


def page_with(block: str, place: str, folder: Path) -> Path:
    """A page with a block in a certain place."""
    frame = PLACES[place]
    margin = frame.rpartition("\n")[2].removesuffix("{}")
    page = folder / "page.md"
    block = textwrap.indent(block, margin, lambda line: True).removeprefix(margin)
    page.write_text(f"# Title\n\n{frame.format(block)}\n")
    return page


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_example_is_noticed_wherever_it_stands(fault: str, tmp_path: Path):
    block, reason = FAULTS[fault]
    for place in PLACES:
        assert reason in "".join(faults(page_with(block, place, tmp_path)))


@pytest.mark.parametrize("fence", ["```python\n1 / 0\n", "- ```python\n  1 / 0\n  ```\n"])
def test_a_fence_that_the_site_would_not_show_as_code_is_refused(fence: str):
    with pytest.raises(FenceError):
        list(fences(fence))


def test_stale_outputs_are_rewritten_where_they_stand(tmp_path: Path):
    stale = SOUND.replace("\n1\n", "\n7\n8\n")
    for place in PLACES:
        fresh = page_with(SOUND, place, tmp_path).read_text()
        page = page_with(stale, place, tmp_path)
        assert page.read_text() != fresh
        rewrite(page)
        assert page.read_text() == fresh
