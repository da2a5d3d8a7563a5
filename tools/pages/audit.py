"""Look for what a strict build misses: ``python -m tools.pages.audit [SITE]``, once it is built.

Strict mkdocs reads Markdown. This reads the pages that came out: links and anchors in raw HTML,
resources that lie elsewhere, boxes that lost their text, pictures without words, heavy pages. A
page weighs what travels when it's the first one that is opened, compressed.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from urllib.parse import unquote, urlsplit

from kata.paths import ROOT
from tools.pages.markup import Markup, addresses_in_style, is_external

SITE = ROOT / "site"
# In bytes: one page, and the page in the middle.
HEAVIEST, MEDIAN = 160_000, 120_000
# Opened by the reader only.
SCHEMES = {"http", "https", "mailto"}


def audit(site: Path, heaviest: int = HEAVIEST) -> list[str]:
    """Return what is wrong with a built site, a line a fault."""
    pages = {path: Markup(path) for path in sorted(site.rglob("*.html"))}
    loads = first_loads(site, pages)
    found = [
        f"{path.relative_to(site)}: {fault}"
        for path, page in pages.items()
        for fault in (*faults_of(path, page, pages), *too_heavy(loads[path], heaviest))
    ]
    found += [f"the median: {fault}" for fault in too_heavy(median(loads.values()), MEDIAN)]
    return found + [
        f"{path.relative_to(site)}: fetches {address}"
        for path in sorted(site.rglob("*.css"))
        for address in addresses_in_style(path.read_text(encoding="utf-8"))
        if is_external(address)
    ]


def too_heavy(load: float, limit: int) -> Iterator[str]:
    """Say so if a load is over its limit."""
    if load > limit:
        yield f"weighs {load:.0f} bytes, compressed; {limit} are the limit"


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
        return is_root_page(path)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    target = target / "index.html" if target.is_dir() else target
    if not parts.fragment:
        return target.exists()
    page = pages.get(target)
    return page is not None and unquote(parts.fragment) in page.ids


def is_root_page(path: Path) -> bool:
    """The page of a 404 is shown at any depth, so its links begin at the root."""
    return path.name == "404.html"


def first_loads(site: Path, pages: dict[Path, Markup]) -> dict[Path, int]:
    """Return the bytes of each page together with all that it fetches, if nothing is cached."""
    weigh = cache(weight_of)
    return {path: sum(map(weigh, {path, *fetched(site, path, pages)})) for path in pages}


def fetched(site: Path, path: Path, pages: dict[Path, Markup]) -> Iterator[Path]:
    """The files of the site that a browser fetches for a page."""
    for address in pages[path].resources:
        # Of a page that can be met at any depth, they begin at the root.
        below = site if address.startswith("/") else path.parent
        file = (below / unquote(urlsplit(address).path).lstrip("/")).resolve()
        if not is_external(address) and file.is_file():
            yield file


def weight_of(path: Path) -> int:
    """The bytes that travel for a file, compressed as servers do."""
    return len(gzip.compress(path.read_bytes(), compresslevel=6))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("site", nargs="?", type=Path, default=SITE, metavar="SITE")
    parser.add_argument("--heaviest", type=int, default=HEAVIEST, metavar="BYTES")
    arguments = parser.parse_args()
    site = arguments.site.resolve()
    pages = {path: Markup(path) for path in site.rglob("*.html")}
    if not pages:
        print(f"{site} has no pages: build the site first", file=sys.stderr)
        return 1
    found = audit(site, arguments.heaviest)
    sys.stderr.writelines(f"{fault}\n" for fault in found)
    loads = first_loads(site, pages)
    heaviest = max(loads, key=loads.__getitem__)
    print(
        f"{len(pages)} pages. The first load, compressed: {median(loads.values()) / 1000:.0f} kB",
        end=" ",
    )
    print(
        f"in the median, {loads[heaviest] / 1000:.0f} kB at most ({heaviest.relative_to(site)}).",
        end=" ",
    )
    print(f"Faults: {len(found)}.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
