"""The search finds the right page among the first three, over http and in a folder."""

from __future__ import annotations

import pytest

from browser.visits import Visit, Visitor

HELP = "troubleshooting"
# What a reader would type or paste, and the page that answers.
QUERIES = {
    "path_of_module": "path_of_module",
    "symbolic_trace": "tracer",
    "leaf module": "glossary",
    "NotInvertibleError": "inversion",
    "offline": "setup",
    "workshop half a day": "instructors",
    "if": "glossary",
    # Pasted messages.
    "TraceError: symbolically traced variables cannot be used as inputs to control flow": HELP,
    "RuntimeError: 'len' is not supported in symbolic tracing by default.": HELP,
    "NotImplementedError: argument of type: <class '__main__.Point'>": HELP,
    "RuntimeError: Tried to erase Node add_3 but it still had 2 users in the graph": HELP,
    "GuardOnDataDependentSymNode: Could not guard on data-dependent expression u0 > 2": HELP,
    "error: externally-managed-environment": HELP,
    "bash: nox: command not found": HELP,
    "TypeError: There is no flat args adapter specified. Are you sure you are calling this": HELP,
    # Names.
    "getattr": "tracer",
    "keep_original_order": "split_module",
    # Questions in a learner's own words.
    "watch": "commands",
    "certificate": "finale",
    "my test is red what now": HELP,
    "how do I skip a submodule": "glossary",
    "colab": "setup",
    "unflaten": "unflatten",
    "does it work on windows": "setup",
    "how do I grade": "grading",
    "what is make_fx": "capture",
    "pipeline bubble": "schedule",
}
FIRST = 3
HIT = ".md-search-result__item"
# Milliseconds in which the list of hits is filled.
SETTLED = 100
HITS = """() => [...document.querySelectorAll(".md-search-result__item > a")].map(
    link => link.getAttribute("href"))"""


@pytest.mark.parametrize("protocol", ["http", "file"])
def test_the_page_that_answers_is_among_the_first_hits(visitor: Visitor, protocol: str):
    with visitor.visit("index.html", protocol) as visit:
        visit.page.click(".md-search__input")
        hits = {query: search(visit, query) for query in QUERIES}
        assert visit.external(visitor.addresses[protocol]) == []
    late = {
        query: hits[query][:FIRST]
        for query, page in QUERIES.items()
        if not any(page in hit for hit in hits[query][:FIRST])
    }
    assert not late


def search(visit: Visit, term: str) -> list[str]:
    """Type a term, and return the pages that are found, the best first."""
    field = visit.page.locator(".md-search__input")
    # The page listens to keys: a value that is set from outside goes unnoticed.
    field.fill("")
    field.press("Backspace")
    visit.page.wait_for_selector(HIT, state="detached")
    field.fill(term)
    field.press("End")
    visit.page.wait_for_selector(HIT)
    visit.page.wait_for_timeout(SETTLED)
    pages = [hit.partition("?")[0].partition("#")[0] for hit in visit.page.evaluate(HITS)]
    return list(dict.fromkeys(pages))


def test_the_index_is_fetched_when_the_search_is_used(visitor: Visitor):
    with visitor.visit("index.html") as visit:
        visit.settle()
        assert not [url for url in visit.requests if "search_index" in url]
        visit.page.click(".md-search__input")
        assert search(visit, "proxy")
        assert [url for url in visit.requests if "search_index" in url]
