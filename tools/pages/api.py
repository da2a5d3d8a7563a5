"""A hook of mkdocs: it makes the API page of each lesson when the site is built.

The pages are all alike: each names the modules whose docstrings mkdocstrings shows.
"""

from __future__ import annotations

from typing import Any

from lessons import LESSONS

PAGE = """---
description: "API reference of {0}: classes and functions, with signatures, contracts and examples."
search:
  boost: 0.4
---

# API: `{0}`

::: solutions.{0}

::: solutions.stretch.{0}
"""


def pages() -> dict[str, str]:
    """Return the text of each page by its path below ``docs/``."""
    return {f"api/{lesson.name}.md": PAGE.format(lesson.name) for lesson in LESSONS}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those that mkdocs found in ``docs/``."""
    # Imported late: the checks of the pages run without mkdocs.
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files
