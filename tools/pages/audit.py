"""Look for what a strict build misses: ``python -m tools.pages.audit [SITE]``, once it is built.

Strict mkdocs reads Markdown. This reads the built pages: links and anchors in raw HTML, resources
from other sites, boxes that lost their text, pictures without words.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kata.paths import ROOT
from tools.pages.markup import Markup, addresses_in_style, is_external

SITE = ROOT / "site"
# Opened by the reader only.
SCHEMES = {"http", "https", "mailto"}


def audit(site: Path) -> list[str]:
    """Return what is wrong with a built site, one line per fault."""
    pages = {path: Markup(path) for path in sorted(site.rglob("*.html"))}
    found = [
        f"{path.relative_to(site)}: {fault}"
        for path, page in pages.items()
        for fault in faults_of(path, page, pages)
    ]
    return found + [
        f"{path.relative_to(site)}: fetches {address}"
        for path in sorted(site.rglob("*.css"))
        for address in addresses_in_style(path.read_text(encoding="utf-8"))
        if is_external(address)
    ]


def faults_of(path: Path, page: Markup, pages: dict[Path, Markup]) -> Iterator[str]:
    """Everything that is wrong with one page."""
    yield from page.faults
    yield from (f"id {name!r} is there twice" for name in twice(page.ids))
    yield from (f"fetches {each}" for each in page.resources if is_external(each))
    for address in dict.fromkeys(page.links + page.resources):
        if not leads_somewhere(address, path, pages):
            yield f"leads nowhere: {address}"


def twice(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def leads_somewhere(address: str, path: Path, pages: dict[Path, Markup]) -> bool:
    """Return whether a link of a page leads to a file of the site, and to an id in it."""
    parts = urlsplit(address)
    if parts.scheme in SCHEMES or is_external(address) or parts.scheme == "data":
        return True
    if parts.scheme or parts.path.startswith("/"):
        # The page of a 404 is shown at any depth, so its links begin at the root.
        return path.name == "404.html"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    target = target / "index.html" if target.is_dir() else target
    if not parts.fragment:
        return target.exists()
    page = pages.get(target)
    return page is not None and unquote(parts.fragment) in page.ids


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("site", nargs="?", type=Path, default=SITE, metavar="SITE")
    site = parser.parse_args().site.resolve()
    count = len(list(site.rglob("*.html")))
    if not count:
        print(f"{site} has no pages: build the site first", file=sys.stderr)
        return 1
    found = audit(site)
    sys.stderr.writelines(f"{fault}\n" for fault in found)
    print(f"{count} pages. Faults: {len(found)}.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
