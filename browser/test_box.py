"""The box in which a reader's Python runs: traces, verdicts, a stop, a link, keys."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from browser.conftest import SITE
from browser.visits import HEIGHTS, Visit, Visitor

pytestmark = pytest.mark.skipif(
    not (SITE / "assets/box").exists(),
    reason="the site was built without a box: no npm, or no network",
)
TRY, STEP = "try.html", "lessons/proxy.html"
BRANCH = "def f(x):\n    if x.sum() > 0:\n        return x\n    return -x\n"
ENDLESS = "def f(x):\n    while True:\n        pass\n"
SWAPPED = """def record_call(function, *args, **kwargs):
    tracer = next(each.tracer for each in tree_leaves(args) if isinstance(each, Proxy))
    return tracer.create_proxy("call_function", function, args[::-1], kwargs)
"""
# Milliseconds that Python may take to come, on a machine that does other things besides.
PATIENCE = 60_000
WAYS = {1440: "light", 390: "dark"}


class Box:
    """The box of a page, and what it says."""

    def __init__(self, visit: Visit) -> None:
        self.visit, self.frame = visit, visit.page.locator(".fx-box")
        self.text, self.said = self.frame.locator("textarea"), self.frame.get_by_role("status")
        self.run, self.stop = (self.frame.get_by_role("button").nth(each) for each in (0, 1))

    def answer(self, text: str | None = None, word: str = " after ") -> str:
        """Run a text, or what is there, until the status has a word; return what is shown."""
        if text is not None:
            self.text.fill(text)
        self.run.click()
        return self.shown(word)

    def shown(self, word: str) -> str:
        self.said.filter(has_text=word).wait_for(timeout=PATIENCE)
        shown = self.frame.locator("pre")
        return shown.inner_text() if shown.is_visible() else ""

    def faults(self) -> list[str]:
        """Return what is wrong with the page as it is now, wide and light, and narrow and dark."""
        found = list(self.visit.errors)
        for width, scheme in WAYS.items():
            self.visit.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
            self.visit.choose(scheme)
            wider = ["wider than the window"] * (self.visit.overflow() > 0)
            lines = [*wider, *self.visit.faint(), *self.visit.violations()]
            found += [f"{width}, {scheme}: {line}" for line in lines]
        return found


@contextlib.contextmanager
def box(visitor: Visitor, path: str) -> Iterator[Box]:
    with visitor.visit(path) as visit:
        opened = Box(visit)
        # A page is loaded before the script of its box, which it imports.
        opened.said.filter(has_not_text="This needs").wait_for(timeout=PATIENCE)
        yield opened


def test_a_function_is_traced_and_an_error_says_what_to_do(visitor: Visitor):
    with box(visitor, TRY) as tried:
        assert "torch.sigmoid(add)" in tried.answer(word="Traced after")
        nodes = tried.frame.locator("[data-node]")
        assert nodes.count() == 12
        assert tried.faults() == []
        nodes.nth(5).hover()
        assert "used by" in tried.frame.locator(".fx-said").inner_text()
        says = tried.answer(BRANCH, "Red after")
        assert "line 2: if x.sum() > 0:\nTraceError: " in says
        assert "use `torch.where`" in says
        assert nodes.count() == 0
        assert tried.faults() == []


def test_a_step_is_todo_then_red_then_green(visitor: Visitor):
    with box(visitor, STEP) as step:
        assert "next: record_call" in step.answer(word="Todo after")
        says = step.answer(SWAPPED, "Red after")
        assert "expected:     args (x, y)\ngot:          args (y, x)" in says
        assert step.faults() == []
        says = step.answer(SWAPPED.replace("[::-1]", ""), "Green after")
        assert "step 1: 40 of 40" in says
        assert "Go on in your editor" in says
        assert step.faults() == []


@pytest.mark.parametrize("page", [TRY, STEP])
def test_python_comes_at_the_first_click_and_from_the_site_itself(visitor: Visitor, page: str):
    with box(visitor, page) as tried:
        tried.visit.settle()
        ours = [url.rpartition("/")[2] for url in tried.visit.requests if "/assets/box/" in url]
        assert ours == ["box.js"]
        asked: list[str] = []
        tried.visit.page.context.on("request", lambda request: asked.append(request.url))
        tried.answer()
        assert [url for url in asked if url.endswith("pyodide.asm.wasm")]
        assert tried.visit.external(visitor.addresses["http"]) == []
        assert not [url for url in asked if not url.startswith(visitor.addresses["http"])]


def test_an_endless_loop_is_stopped_and_python_starts_again(visitor: Visitor):
    with box(visitor, TRY) as tried:
        tried.text.fill(ENDLESS)
        tried.run.click()
        tried.shown("Running")
        tried.stop.click()
        tried.shown("Stopped")
        assert tried.stop.is_disabled()
        assert "return neg" in tried.answer("def f(x):\n    return -x", "Traced after")


def test_a_link_holds_the_function(visitor: Visitor):
    with box(visitor, TRY) as tried:
        tried.visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        tried.text.fill(BRANCH + "# 100 %, ü\n")
        tried.frame.get_by_role("button", name="Copy a link").click()
        tried.shown("is copied")
        link = tried.visit.page.evaluate("() => navigator.clipboard.readText()")
        assert link == tried.visit.page.url
    with box(visitor, link.rpartition("/")[2]) as opened:
        assert opened.text.input_value() == BRANCH + "# 100 %, ü\n"
        opened.visit.settle()
        assert not [url for url in opened.visit.requests if "pyodide" in url]


def test_keys_run_stop_and_leave_the_box(visitor: Visitor):
    with box(visitor, TRY) as tried:
        keys = tried.visit.page.keyboard
        tried.text.fill(ENDLESS)
        keys.press("Control+Enter")
        tried.shown("Running")
        for key in ("Tab", "Tab", "Enter"):
            keys.press(key)
        tried.shown("Stopped")
        for key in ("Shift+Tab", "Control+a"):  # from the first button, where Stop leaves one
            keys.press(key)
        for line in BRANCH.split("\n")[:3]:  # Enter indents
            keys.type(line.strip())
            keys.press("Enter")
        assert (
            tried.text.input_value() == "def f(x):\n    if x.sum() > 0:\n        return x\n        "
        )
        for key in ("Tab", "Enter"):
            keys.press(key)
        tried.shown("Red after")


def test_from_a_file_the_box_says_what_it_needs(visitor: Visitor):
    with visitor.visit(TRY, "file") as visit:
        assert "the site on a server" in Box(visit).said.inner_text()
        assert visit.errors == []
