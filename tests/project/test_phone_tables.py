"""Tables and long names are written so that a phone can show them."""

from __future__ import annotations

import markdown

TABLE = """
| | in torch | `here` |
|---|---|---|
| a cycle | an error | names *both* |
"""


def rendered(text: str) -> str:
    return markdown.markdown(text, extensions=["tables", "tools.pages.extension"])


def test_a_cell_knows_its_column():
    html = rendered(TABLE)
    assert '<td data-label="in torch">an error</td>' in html
    assert '<td data-label="here">names <em>both</em></td>' in html


def test_a_heading_without_a_text_is_an_ordinary_cell():
    html = rendered(TABLE)
    assert html.count("<th>") == 2
    assert '<td data-label="">a cycle</td>' in html


def test_a_long_name_may_be_broken_after_a_dot_and_nowhere_else():
    html = rendered("`torch._export.utils._check_input_constraints`")
    assert html == (
        "<p><code>torch.<wbr />_export.<wbr />utils.<wbr />_check_input_constraints</code></p>"
    )
