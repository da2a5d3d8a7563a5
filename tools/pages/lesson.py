"""A lesson's page by its parts: what a reader finds under which heading."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from kata.paths import ROOT
from tools.pages.fences import Fence, fences, without_fences

HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
# Settings of a page for mkdocs, above its title.
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n+", re.DOTALL)


@dataclass(frozen=True)
class LessonPage:
    """The page of one lesson."""

    name: str
    text: str

    @classmethod
    def of(cls, name: str) -> LessonPage:
        """Read a lesson's page."""
        return cls(name, FRONT_MATTER.sub("", page_of(name).read_text(encoding="utf-8")))

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def goal(self) -> str:
        """The paragraph below the title."""
        return self.text.split("\n\n")[1]

    @cached_property
    def sections(self) -> dict[str, str]:
        """The text below each heading of the second level, in order."""
        prose = without_fences(self.text)
        bounds = [*HEADING.finditer(prose), None]
        return {
            start[1]: self.text[start.end() : end.start() if end else None]
            for start, end in pairwise(bounds)
            if start
        }

    def fences_of(self, section: str) -> list[Fence]:
        return list(fences(self.sections[section]))


def page_of(name: str) -> Path:
    return ROOT / f"docs/lessons/{name}.md"
