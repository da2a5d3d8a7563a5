"""Visits to pages, with the requests and the errors of the browser."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Seconds without a request, after which a page is taken to have asked for all that it needs.
QUIET = 0.3
HEIGHTS = {1440: 900, 390: 844, 375: 812}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Of these, the ones that compare the colours of texts.
COLOURS = ["color-contrast", "link-in-text-block"]
OPEN_ALL = """() => {
    document.querySelectorAll("details").forEach(each => { each.open = true; });
}"""
CHOOSE_TAB = """number => {
    for (const set of document.querySelectorAll(".tabbed-set")) {
        const inputs = set.querySelectorAll(":scope > input");
        if (number < inputs.length) inputs[number].checked = true;
    }
}"""
COUNT_TABS = """() => Math.max(1, ...[...document.querySelectorAll(".tabbed-set")].map(
    set => set.querySelectorAll(":scope > input").length))"""
PLAIN_CODE = """() => document.querySelectorAll("pre > code").forEach(code => {
    code.textContent = code.textContent;
})"""
OVERFLOW = """() => document.documentElement.scrollWidth - document.documentElement.clientWidth"""
FAINT = (Path(__file__).parent / "faint.js").read_text(encoding="utf-8")
# Fades would be measured half-way. The sheet is there before the page, which is laid out once.
STILL = """const css = new CSSStyleSheet();
css.replaceSync("*, ::before, ::after { transition: none !important; animation: none !important }");
document.adoptedStyleSheets.push(css);"""


@dataclass
class Visit:
    """One page, open in the browser."""

    page: Page
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    asked_at: float = field(default_factory=time.monotonic)

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        self.requests.clear()
        self.errors.clear()
        self.page.goto(url, wait_until="load")

    def listen(self) -> None:
        self.page.add_init_script(STILL)
        self.page.on("request", self.count)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self.note)

    def count(self, request: object) -> None:
        self.requests.append(request.url)
        self.asked_at = time.monotonic()

    def note(self, message: object) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def settle(self) -> None:
        """Wait until the page has asked for nothing for a while."""
        while (left := self.asked_at + QUIET - time.monotonic()) > 0:
            self.page.wait_for_timeout(1000 * left)

    def external(self, home: str) -> list[str]:
        own = (home, "data:", "blob:", "about:")
        return [url for url in self.requests if not url.startswith(own)]

    def ask(self, questions: dict[str, str]) -> list[str]:
        """Return what scripts find, each after the words that say what is wrong with it."""
        return [
            f"{words}: {each}"
            for words, script in questions.items()
            for each in self.page.evaluate(script)
        ]

    def states(self) -> Iterator[int]:
        """Open every box, then one tab of each set after the other."""
        self.page.evaluate(OPEN_ALL)
        for number in range(self.page.evaluate(COUNT_TABS)):
            self.page.evaluate(CHOOSE_TAB, number)
            yield number

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate(OVERFLOW)

    def scheme(self) -> str:
        """Return whether the page is light or dark."""
        name = self.page.get_attribute("body", "data-md-color-scheme")
        return {"default": "light", "slate": "dark"}[name]

    def choose(self, scheme: str) -> None:
        """Make the page light or dark by its own switch."""
        if self.scheme() != scheme:
            self.page.locator("label[for^=__palette]:visible").click()

    def violations(self, besides: str | None = None) -> list[str]:
        """Return what axe-core finds wrong, one line per element; `faint` compares the colours.

        Code is left as plain text: thousands of elements only give it colours.
        """
        from axe_playwright_python.sync_playwright import Axe

        # No rule here asks for style sheets, which a page that is a file can't fetch again.
        options = {
            "resultTypes": ["violations"],
            "runOnly": {"type": "tag", "values": RULES},
            "rules": {colour: {"enabled": False} for colour in COLOURS},
            "preload": False,
        }
        self.page.evaluate(PLAIN_CODE)
        judged = besides and {"exclude": [[besides]]}
        found = Axe().run(self.page, judged, options).response["violations"]
        return [
            "\n    ".join([f"{each['id']}: {node['target']}", node["html"][:160], reason(node)])
            for each in found
            for node in each["nodes"]
        ]

    def faint(self) -> list[str]:
        """Texts with too little contrast to their background, one for each pair of colours.

        axe-core looks above and below every word, and takes minutes for all pages; this takes the
        background of the nearest element that has one.
        """
        return self.page.evaluate(FAINT)


def reason(node: dict) -> str:
    """Why axe-core objects to an element."""
    checks = node["any"] + node["all"] + node["none"]
    return "; ".join(check["message"] for check in checks)[:200]


@dataclass
class Visitor:
    """Opens pages: alone, so that nothing is remembered, or one after the other in the same tab."""

    browser: Browser
    addresses: dict[str, str]
    tabs: dict[tuple[str, int], Visit] = field(default_factory=dict)

    @contextlib.contextmanager
    def visit(
        self,
        path: str,
        protocol: str = "http",
        width: int = 1440,
        scheme: str = "light",
        scripts: bool = True,
        calm: bool = False,
        has_touch: bool = False,
    ) -> Iterator[Visit]:
        """Open a page in a context of its own, and close it at the end."""
        visit = self.tab(
            width,
            color_scheme=scheme,
            java_script_enabled=scripts,
            has_touch=has_touch,
            reduced_motion="reduce" if calm else "no-preference",
        )
        try:
            visit.open(f"{self.addresses[protocol]}/{path}")
            yield visit
        finally:
            visit.page.context.close()

    def turn_to(self, path: str, protocol: str = "http", width: int = 1440) -> Visit:
        """Open a page in the tab of the last one, in less than half the time of a new context."""
        if (protocol, width) not in self.tabs:
            self.tabs[protocol, width] = self.tab(width)
        visit = self.tabs[protocol, width]
        visit.open(f"{self.addresses[protocol]}/{path}")
        return visit

    def tab(self, width: int, **options: str | bool) -> Visit:
        """Return an empty tab in a context of its own."""
        viewport = {"width": width, "height": HEIGHTS[width]}
        visit = Visit(self.browser.new_context(viewport=viewport, **options).new_page())
        visit.listen()
        return visit
