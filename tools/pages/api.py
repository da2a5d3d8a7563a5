"""A hook of mkdocs: the navigation of the lessons, the API page of each, and their descriptions.

The pages are all alike: each names the modules whose docstrings mkdocstrings shows. In a search,
they and the solutions come after the lessons. The navigation has the name of each lesson, and
lessons and solutions describe themselves by what you write, and by their title.
"""

from __future__ import annotations

import re
from typing import Any

from kata.paths import ROOT
from lessons import COURSE, LESSONS, TOGETHER, Lesson
from tools.pages.lesson import LessonPage

BOOST = {"solutions": 0.6, "api": 0.4}
TITLES = {lesson.name: lesson.title for lesson in LESSONS}
SOLUTION = "{}: the reference solution of {}, step by step, beside what PyTorch does."
PAGE = """---
description: "API reference of {0}: classes and functions, with signatures, contracts and examples."
---

# API: `{0}`

::: solutions.{0}

::: solutions.stretch.{0}
"""
GIVEN = """
::: given.{0}
"""


def pages() -> dict[str, str]:
    """Return the text of each page by its path below ``docs/``."""
    return {f"api/{lesson.name}.md": page(lesson.name) for lesson in LESSONS}


def page(lesson: str) -> str:
    """The modules of a lesson: its core, its stretch and, where there is any, what it is given."""
    has_given = (ROOT / "given" / f"{lesson}.py").exists()
    return (PAGE + GIVEN * has_given).format(lesson)


def on_config(config: Any) -> Any:
    """Put the pages of the lessons into the navigation."""
    config.nav = with_lessons(config.nav)
    return config


def with_lessons(entries: list[Any]) -> list[Any]:
    """Return a navigation with the pages of a folder in the place of ``folder/*.md``.

    >>> with_lessons([{"Lessons": ["lessons/*.md"]}])[0]["Lessons"][:2]
    ['lessons/proxy.md', 'lessons/graph.md']
    """
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            ((title, inner),) = entry.items()
            found.append({title: with_lessons(inner) if isinstance(inner, list) else inner})
        elif entry == "lessons/*.md":
            found += map(entry_of, COURSE)
        else:
            found += (
                [entry.replace("*", each.name) for each in LESSONS] if "*" in entry else [entry]
            )
    return found


def entry_of(lesson: Lesson) -> str | dict[str, str]:
    """Return a lesson's page; what puts lessons together has a title in the navigation."""
    if lesson.name in TOGETHER:
        return {f"The {lesson.name}": f"{lesson.name}.md"}
    return f"lessons/{lesson.name}.md"


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those that mkdocs found in ``docs/``."""
    # Imported late: the checks of the pages run without mkdocs.
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **others: Any) -> None:
    """Set what is the same for all pages of a folder: weight in a search, name, description."""
    folder, _, file = page.file.src_uri.partition("/")
    lesson = file.removesuffix(".md")
    if folder in ("lessons", "solutions"):
        page.meta["subtitle"] = lesson
    if folder == "lessons":
        page.meta["description"] = written(LessonPage(lesson, markdown).goal)
    if folder == "solutions":
        page.meta["description"] = SOLUTION.format(TITLES[lesson], lesson)
    if folder in BOOST:
        page.meta["search"] = {"boost": BOOST[folder]}


def written(goal: str) -> str:
    """Return what you write in a lesson, without markup: the end of the paragraph below its title.

    >>> written("What is it? You write `Proxy`.")
    'You write Proxy.'
    """
    return re.sub(r"[`*]", "", goal[goal.index("You write ") :])
