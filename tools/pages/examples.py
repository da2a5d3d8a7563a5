"""Run the examples of the site's pages: ``python -m tools.pages.examples [--write] [PAGE ...]``.

A ``python`` fence runs, and the ``text title="output"`` below it is what it prints. All
examples of a page share their names. ``--write`` replaces outputs that are stale.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kata.lending import lending
from kata.paths import ROOT
from tools.pages.fences import Fence, fences

# Shown, not run: the shell, text, pictures that the site draws, and quotations.
SHOWN = {"console", "text", "fx-graph", "solution", "strip", "plan"}
OUTPUT = "output"
# A folder that holds no lesson: whatever a page imports from ``lessons`` is lent.
NO_LESSONS = ROOT / "docs"
# The code of these rooms has tests of its own.
TESTED = ("lessons/", "solutions/", "benchmarks/", "kata/")


@dataclass
class Page:
    """A page whose examples run one after the other.

    Attributes:
        path: The page's file.
        names: The names that the examples share.
        printed: What the latest example printed, until an output was compared with it.
        stale: The fences whose output differs, with the actual output.
    """

    path: Path
    names: dict[str, Any] = field(default_factory=dict)
    printed: str | None = None
    stale: list[tuple[Fence, str]] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Run all examples in the repository's root; return what is wrong, with its line."""
        found = []
        text = self.path.read_text(encoding="utf-8")
        self.names["__name__"] = f"page_{self.path.stem}"
        with contextlib.chdir(ROOT), lending(NO_LESSONS):
            for fence in fences(text):
                line = text.count("\n", 0, fence.inner.start)
                try:
                    fault = self.fault_of(fence, line)
                except Exception as error:
                    fault = "".join(traceback.format_exception_only(error))
                if fault:
                    found.append(f"{self.path.name}, line {line}: {fault}")
        if self.printed:
            found.append(f"{self.path.name}: the last example prints, and the page doesn't show it")
        return found

    def fault_of(self, fence: Fence, line: int) -> str:
        """Run or compare one fence; return what is wrong with it."""
        if fence.language == "python":
            return self.run(fence, line)
        if fence.language == "text" and fence.title == OUTPUT:
            return self.output(fence)
        if fence.language in SHOWN:
            return ""
        return f"unknown fence {fence.info!r}: python runs, {sorted(SHOWN)} are shown"

    def run(self, fence: Fence, line: int) -> str:
        """Run a ``python`` fence; one that shows files must show files that the suite runs."""
        if fence.snippets:
            strangers = [path for path in fence.snippets if not path.startswith(TESTED)]
            return f"{strangers} are in no tested room" if strangers else ""
        if self.printed:
            return f"the example above prints, and the page doesn't show it:\n{self.printed}"
        # The lines have the numbers that they have on the page.
        source = "\n" * line + fence.text
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(source, self.path, "exec", dont_inherit=True), self.names)
        self.printed = out.getvalue()
        return ""

    def output(self, fence: Fence) -> str:
        """Compare the text below an example with what it printed."""
        if self.printed is None:
            return "there is no example above this output"
        printed, self.printed = self.printed, None
        got, says = clean(printed), clean(fence.text)
        if got == says:
            return ""
        self.stale.append((fence, got))
        return f"the page says\n\n{says}\n\nand the example printed:\n\n{got}"


def clean(text: str) -> str:
    """The text without invisible white space."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def faults(path: Path) -> list[str]:
    """Return what is wrong with a page's examples."""
    return Page(path).faults()


def rewrite(path: Path) -> None:
    """Put the actual output into every output that differs."""
    page, text = Page(path), path.read_text(encoding="utf-8")
    page.faults()
    for fence, got in reversed(page.stale):
        text = text[: fence.inner.start] + fence.in_place(got) + text[fence.inner.stop :]
    path.write_text(text, encoding="utf-8")


def all_pages() -> list[Path]:
    return sorted((ROOT / "docs").rglob("*.md"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="rewrite stale outputs")
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="all if none is named")
    arguments = parser.parse_args()
    wrong = []
    for path in arguments.pages or all_pages():
        if arguments.write:
            rewrite(path.resolve())
        wrong += faults(path.resolve())
    sys.stderr.writelines(f"{fault}\n" for fault in wrong)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
