"""The search finds the right page among the first three, over http and in a folder."""

from __future__ import annotations

import pytest

from browser.visits import Visit, Visitor

# What a reader would type, and a page that must be among the first three.
TERMS = {
    "path_of_module": "lessons/path_of_module",
    "create_arg": "lessons/create_arg",
    "placeholder": "lessons/placeholders",
    "named tuple": "lessons/create_arg",
    "concrete_args": "lessons/placeholders",
    "symbolic_trace": "tracer",
    "is_leaf_module": "tracer",
    "nn_module_stack": "tracer",
    "TaggingTracer": "custom_tracers",
    "LowerReluTracer": "custom_tracers",
    "FSDP": "exec_order",
    "TracingConfig": "exec_order",
    "inline_module": "inlining",
    "batch norm": "inlining",
    "NotInvertibleError": "inversion",
    "split_callback": "split_module",
    "pipeline": "split_module",
    "InterpreterModule": "unflatten",
    "without a network": "setup",
    "half a day": "instructors",
}
FIRST = 3
HIT = ".md-search-result__item"
# Milliseconds in which the list of hits is filled.
SETTLED = 100
HITS = """() => [...document.querySelectorAll(".md-search-result__item > a")].map(
    link => link.getAttribute("href"))"""


@pytest.mark.parametrize("protocol", ["http", "file"])
def test_each_of_twenty_terms_leads_to_its_page(visitor: Visitor, protocol: str):
    with visitor.visit("index.html", protocol) as visit:
        visit.page.click(".md-search__input")
        missed = {}
        for term, wanted in TERMS.items():
            hits = search(visit, term)
            if not any(wanted in hit for hit in hits[:FIRST]):
                missed[term] = hits[:FIRST]
        assert not missed
        assert visit.external(visitor.addresses[protocol]) == []
    assert len(TERMS) == 20


def search(visit: Visit, term: str) -> list[str]:
    """Type a term, and return the pages that are found, the best first."""
    field = visit.page.locator(".md-search__input")
    # The page listens to keys: a value that is set from outside goes unnoticed.
    field.fill("")
    field.press("Backspace")
    visit.page.wait_for_selector(HIT, state="detached")
    field.fill(term[:-1])
    field.press(term[-1])
    visit.page.wait_for_selector(HIT)
    visit.page.wait_for_timeout(SETTLED)
    pages = [hit.partition("?")[0].partition("#")[0] for hit in visit.page.evaluate(HITS)]
    return list(dict.fromkeys(pages))
