"""The search finds the right page among the first three, over http and in a folder."""

from __future__ import annotations

import pytest

from browser.visits import Visit, Visitor

HELP = "troubleshooting"
# What a reader would type or paste, and the page that answers.
QUERIES = {
    "path_of_module": "path_of_module",
    "named tuple": "lessons/create_arg",
    "concrete_args": "placeholders",
    "symbolic_trace": "tracer",
    "nn_module_stack": "glossary",
    "leaf module": "glossary",
    "LowerReluTracer": "custom_tracers",
    "FSDP": "exec_order",
    "inline batch norm": "inlining",
    "NotInvertibleError": "inversion",
    "split_callback": "split_module",
    "InterpreterModule": "unflatten",
    "offline": "setup",
    "workshop half a day": "instructors",
    "if": "glossary",
    "loop": "glossary",
    "prune": "glossary",
    "dead code": "glossary",
    "freeze": "glossary",
    "watch": "commands",
    # Pasted messages.
    "TraceError: symbolically traced variables cannot be used as inputs to control flow": HELP,
    "torch.fx.proxy.TraceError: Proxy object cannot be iterated. This can be attempted when": HELP,
    "RuntimeError: 'len' is not supported in symbolic tracing by default.": HELP,
    "TypeError: 'Proxy' object cannot be interpreted as an integer": HELP,
    "TypeError: int() argument must be a string, a bytes-like object, not 'Proxy'": HELP,
    "TypeError: 'Proxy' object does not support item assignment": HELP,
    "TypeError: zeros() received an invalid combination of arguments - got (Proxy, int)": HELP,
    "NameError: module is not installed as a submodule": HELP,
    "NameError: parameter is not a member of this module": HELP,
    "NotImplementedError: argument of type: <class '__main__.Point'>": HELP,
    "RuntimeError: Tried to erase Node add_3 but it still had 2 users in the graph": HELP,
    "RuntimeError: Argument 'neg' of Node 'relu' was used before it has been defined!": HELP,
    "RuntimeError: cycle exists between partitions!": HELP,
    "GuardOnDataDependentSymNode: Could not guard on data-dependent expression u0 > 2": HELP,
    "AssertionError: Guard failed: x.size()[0] == 8": HELP,
    "RuntimeError: Unable to call ExportedProgram directly.": HELP,
    "error: externally-managed-environment": HELP,
    "bash: nox: command not found": HELP,
    "ERROR: No matching distribution found for torch==2.13.0": HELP,
    "RuntimeError: operator torchvision::nms does not exist": HELP,
}
# What learners ask, in their own words.
QUESTIONS = {
    "what is a leaf module": "glossary",
    "how do I skip a submodule": "glossary",
    "reset my file": "commands",
    "undo reset": "commands",
    "pickle graph": "lessons/code",
    "how long does it take": "index",
    "colab": "setup",
    "jupyter notebook": "setup",
    "unflaten": "unflatten",
    "interpeter": "interpreter",
    "kata watch": "commands",
    "kata hint": "commands",
    "what is a proxy": "glossary",
    "where do I start": "setup",
    "how do I install it": "setup",
    "does it work on windows": "setup",
    "I am stuck": "commands",
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


# Each set, and how many of it are answered by the first hit, and by one of the first three.
SETS = {"pasted": (QUERIES, 36, 40), "asked": (QUESTIONS, 16, 19)}


@pytest.mark.parametrize("protocol", ["http", "file"])
@pytest.mark.parametrize("name", SETS)
def test_queries_are_answered(visitor: Visitor, name: str, protocol: str):
    queries, at_once, soon = SETS[name]
    with visitor.visit("index.html", protocol) as visit:
        visit.page.click(".md-search__input")
        hits = {query: search(visit, query) for query in queries}
        assert visit.external(visitor.addresses[protocol]) == []
    places = {
        query: next((n for n, hit in enumerate(hits[query], 1) if page in hit), 99)
        for query, page in queries.items()
    }
    late = {query: hits[query][:FIRST] for query, place in places.items() if place > 1}
    assert len(queries) - len(late) >= at_once, late
    assert sum(place <= FIRST for place in places.values()) >= soon, late


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
