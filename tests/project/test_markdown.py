"""What the site makes of a page's Markdown: quotations, boxes, tables, long names."""

from __future__ import annotations

import ast

import markdown
import pytest
from pymdownx.superfences import SuperFencesException

from tools.pages.examples import all_pages
from tools.pages.extension import LostMarkdownError
from tools.pages.fences import fences
from tools.pages.quoting import UnknownNameError, quote, solution_fence

QUOTED = [
    (page.stem, fence.text)
    for page in all_pages()
    for fence in fences(page.read_text(encoding="utf-8"))
    if fence.language == "solution"
]


@pytest.mark.parametrize(("page", "reference"), QUOTED)
def test_a_quotation_names_what_the_reference_has(page, reference):
    ast.parse(quote(reference))


def test_a_quotation_is_the_code_without_docstring_and_remarks():
    assert "# y = x + c" in quote("inversion.py: UNDONE_BY")
    code = quote("tracer.py: Tracer.__init__, Tracer.call_module")
    assert code.startswith("def __init__(") and "\n\n\ndef call_module(\n" in code
    assert "given" not in code and '"""' not in code


@pytest.mark.parametrize(
    "reference", ["nowhere.py: f", "create_arg.py: nothing", "create_arg.py: CreateArg.nothing"]
)
def test_a_name_that_is_not_there_ends_the_build(reference):
    with pytest.raises(UnknownNameError):
        quote(reference)
    with pytest.raises(SuperFencesException):
        solution_fence(reference, "solution", "solution", {}, None)


# --- what the site's own extension does


def rendered(text: str) -> str:
    used = ["admonition", "pymdownx.details", "pymdownx.superfences", "pymdownx.tabbed", "tables"]
    return markdown.markdown(text, extensions=[*used, "tools.pages.extension"])


SOUND = """# Title

??? tip "Hint"

    Text, and `!!! note` in code.

!!! note

    ```text
    !!! note
    ??? tip
    ```
"""


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        ("!!! note\n\nText.", "the box 'Note' has no text"),
        ('??? tip "Hint"\n\nText.', "the box 'Hint' has no text"),
        ("??? tip “Hint”\n\n    Text.", "shown as text"),
        ("=== “Exercise”\n\n    Text.", "shown as text"),
        ("```python\nx = 1\n", "shown as text"),
    ],
)
def test_a_box_without_a_text_and_markdown_that_is_shown_as_text_end_the_build(lost, says):
    assert "Text, and" in rendered(SOUND)
    with pytest.raises(LostMarkdownError, match=says):
        rendered(f"{SOUND}\n{lost}\n")


TABLE = """
| | in torch | `here` |
|---|---|---|
| a cycle | an error | names *both* |
"""


def test_a_cell_knows_its_column_and_a_heading_without_a_text_is_an_ordinary_cell():
    html = rendered(TABLE)
    assert html.count("<th>") == 2
    assert '<td data-label="in torch">an error</td>' in html
    assert '<td data-label="here">names <em>both</em></td>' in html


def test_a_long_name_may_be_broken_after_a_dot_and_nowhere_else():
    html = rendered("`torch._export.utils._check_input_constraints`")
    assert html == (
        "<p><code>torch.<wbr />_export.<wbr />utils.<wbr />_check_input_constraints</code></p>"
    )
