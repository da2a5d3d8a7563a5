"""The reference as the site's pages quote it."""

from __future__ import annotations

import ast

import pytest

from tools.pages.examples import all_pages
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
    code = quote("tracer.py: Tracer.__init__, Tracer.call_module")
    assert code.startswith("def __init__(") and "\n\n\ndef call_module(\n" in code
    assert "given" not in code and '"""' not in code


def test_a_table_is_quoted_with_its_comments():
    assert "# y = x + c" in quote("inversion.py: UNDONE_BY")


@pytest.mark.parametrize(
    "reference", ["nowhere.py: f", "create_arg.py: nothing", "create_arg.py: CreateArg.nothing"]
)
def test_a_name_that_is_not_there_is_refused(reference):
    with pytest.raises(UnknownNameError):
        quote(reference)


def test_a_wrong_quotation_ends_the_build():
    markdown = pytest.importorskip("markdown", reason="the site's requirements aren't installed")
    from pymdownx.superfences import SuperFencesException

    with pytest.raises(SuperFencesException, match="nothing"):
        rendered(markdown, "create_arg.py: nothing")
    html = rendered(markdown, "create_arg.py: CreateArg.create_arg")
    assert "solutions/create_arg.py" in html


def rendered(markdown, reference: str) -> str:
    custom = {"name": "solution", "class": "solution", "format": solution_fence}
    return markdown.markdown(
        f"```solution\n{reference}\n```\n",
        extensions=["pymdownx.highlight", "pymdownx.superfences"],
        extension_configs={"pymdownx.superfences": {"custom_fences": [custom]}},
    )
