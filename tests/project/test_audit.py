"""The audit finds what strict mkdocs misses in the pages that it built."""

from __future__ import annotations

from pathlib import Path

import markdown
import pytest

from tools.pages.audit import audit

EXTENSIONS = ["admonition", "attr_list", "md_in_html", "pymdownx.details", "pymdownx.superfences"]
SOUND = """# Title

A [link](other.html#part), [one within](#title), [one to the world](https://pytorch.org).

??? tip "Hint"

    Text, and `!!! note` in code.

!!! note

    ![A picture](picture.png)

```text
!!! note
??? tip
```

<svg role="img"><title>A graph</title></svg>
"""
# What is added to a sound page, and the word by which the audit calls it.
FAULTS = {
    "raw link to a page": ('<a href="missing.html">x</a>', "leads nowhere: missing.html"),
    "raw link to an anchor": ('<a href="other.html#none">x</a>', "leads nowhere: other.html#none"),
    "link within the page": ('<a href="#none">x</a>', "leads nowhere: #none"),
    "link to a source file": ("[x](other.md)", "leads nowhere: other.md"),
    "link from the root": ('<a href="/other.html">x</a>', "leads nowhere: /other.html"),
    "script": ('<script src="https://cdn.example/x.js"></script>', "fetches https://cdn.example"),
    "script without a scheme": ('<script src="//cdn.example/x.js"></script>', "fetches //cdn"),
    "picture from elsewhere": ("![x](https://cdn.example/x.png)", "fetches https://cdn.example"),
    "picture in a style": ('<p style="background: url(http://x.example/y)">x</p>', "fetches http:"),
    "font": ('<link rel="preconnect" href="https://fonts.example">', "fetches https://fonts"),
    "missing picture": ("![x](missing.png)", "leads nowhere: missing.png"),
    "no alt": ('<img src="picture.png">', "image without alt"),
    "nameless drawing": ('<svg role="img"><path d="M0 0"/></svg>', "picture without a title"),
    "note that lost its text": ("!!! note\n\nText.", "a box with a title and no text"),
    "hint that lost its text": ('??? tip "Hint"\n\nText.', "a box with a title and no text"),
    "hint that is none": ("??? tip “Hint”\n\n    Text.", "shown as text"),
    "tab without tabs": ('=== "Exercise"\n\n    Text.', "shown as text"),
    "fence that never ends": ("```python\nx = 1\n", "shown as text"),
    "id twice": ('<p id="a">x</p>\n<p id="a">y</p>', "id 'a' is there twice"),
    "heading without a text": ("<table><tr><th></th></tr></table>", "heading of a table without"),
}


def build(folder: Path, text: str) -> Path:
    """Make a site of two pages and a picture."""
    for name, source in {"index": text, "other": "# Other { #part }\n\nText."}.items():
        html = markdown.markdown(source, extensions=[*EXTENSIONS, "toc"])
        (folder / f"{name}.html").write_text(f"<!doctype html><html><body>{html}</body></html>")
    (folder / "picture.png").write_bytes(b"")
    return folder


def test_a_sound_page_has_no_faults(tmp_path: Path):
    assert audit(build(tmp_path, SOUND)) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_no_other(fault: str, tmp_path: Path):
    added, says = FAULTS[fault]
    found = audit(build(tmp_path, f"{SOUND}\n{added}\n"))
    assert len(found) == 1
    assert says in found[0]


def test_a_style_sheet_that_fetches_is_found(tmp_path: Path):
    (build(tmp_path, SOUND) / "extra.css").write_text('@import "https://fonts.example/x.css";')
    assert audit(tmp_path) == ["extra.css: fetches https://fonts.example/x.css"]
