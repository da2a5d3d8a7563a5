"""Run the examples of the site's pages: ``python -m tools.pages.examples [--write] [PAGE ...]``.

A ``python`` fence runs, and the ``text title="output"`` below it is what it prints. A ``pycon``
fence is a session at the prompt. All examples of a page share their names. ``--write`` puts what
came in the place of what the page says.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from sybil import Document, Example, Lexeme, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.abstract import DocTestStringParser

from kata.lending import lending
from kata.paths import ROOT
from tools.pages.fences import Fence, FenceLexer

Evaluator = Callable[[Example], str | None]
# Shown, not run: shell, text, settings, pictures that the site draws, and quotations.
SHOWN = {
    "bash",
    "console",
    "text",
    "toml",
    "yaml",
    "json",
    "csv",
    "diff",
    "fx-graph",
    "solution",
    "differences",
}
OUTPUT = "output"
# A folder that holds no lesson: whatever a page imports from ``lessons`` is lent.
NO_LESSONS = ROOT / "docs"
# The code of these rooms has tests of its own.
TESTED = ("lessons/", "solutions/", "benchmarks/", "kata/")


@dataclass
class Page:
    """What one page's examples do; Sybil asks it about each fence in turn.

    Attributes:
        printed: What the latest example printed, until an output was compared with it.
        stale: The fences whose output differs, with the actual output.
    """

    printed: str | None = None
    stale: list[tuple[Fence, str]] = field(default_factory=list)

    def code(self, example: Example) -> str | None:
        """Run a ``python`` fence."""
        fence: Fence = example.parsed
        if fence.snippets:
            return untested(fence)
        if self.printed:
            return f"the example above prints, and the page doesn't show it:\n{self.printed}"
        with contextlib.redirect_stdout(io.StringIO()) as out:
            PythonEvaluator()(with_parsed(example, Lexeme(fence.text, 0, 0)))
        self.printed = out.getvalue()
        return None

    def output(self, example: Example) -> str | None:
        """Compare the text below an example with what it printed."""
        if self.printed is None:
            return "there is no example above this output"
        printed, self.printed = self.printed, None
        return self.compared(example.parsed, printed)

    def session(self, example: Example) -> str | None:
        """Run a ``pycon`` fence, and compare it with what a prompt would show."""
        fence: Fence = example.parsed
        sessions = list(DocTestStringParser()(fence.text + "\n", example.path))
        if not sessions:
            return "a session begins with >>>"
        shown = [transcript(each.parsed.source, example) for each in sessions]
        return self.compared(fence, "".join(shown))

    def compared(self, fence: Fence, came: str) -> str | None:
        came, says = clean(came), clean(fence.text)
        if came == says:
            return None
        self.stale.append((fence, came))
        return f"the page says\n\n{says}\n\nand this came:\n\n{came}"

    def shown(self, example: Example) -> str | None:
        """Nothing to run: only a known language, or what may be a slip of the pen?"""
        fence: Fence = example.parsed
        if fence.language in SHOWN:
            return None
        return f"unknown fence {fence.info!r}: python and pycon run, {sorted(SHOWN)} are shown"

    def __call__(self, document: Document) -> Iterable[Region]:
        """Yield a page's fences as Sybil's examples."""
        for region in FenceLexer()(document):
            region.evaluator = self.evaluator_of(region.parsed)
            yield region

    def evaluator_of(self, fence: Fence) -> Evaluator:
        if fence.language == "text" and fence.title == OUTPUT:
            return self.output
        return {"python": self.code, "pycon": self.session}.get(fence.language, self.shown)


def untested(fence: Fence) -> str | None:
    """Return what is wrong with a fence that shows files: all must be ones that the suite runs."""
    strangers = [path for path in fence.snippets if not path.startswith(TESTED)]
    return f"{strangers} are in no tested room" if strangers else None


def with_parsed(example: Example, parsed: Lexeme) -> Example:
    region = Region(example.start, example.end, parsed)
    return Example(example.document, example.line, example.column, region, example.namespace)


def transcript(source: str, example: Example) -> str:
    """Return what the prompt shows for one statement of a session."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(compile(source, example.path, "single", dont_inherit=True), example.namespace)
        except Exception as error:
            last = traceback.format_exception_only(error)[-1]
            print(f"Traceback (most recent call last):\n  ...\n{last}", end="")
    head, *rest = source.splitlines()
    prompt = [f">>> {head}", *(f"... {line}".rstrip() for line in rest)]
    return "\n".join(prompt) + "\n" + out.getvalue()


def clean(text: str) -> str:
    """The text without invisible white space."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def faults(path: Path, page: Page | None = None) -> list[str]:
    """Run a page's examples in the repository's root; return what is wrong, with its line."""
    page = page or Page()
    found = []
    with contextlib.chdir(ROOT), lending(NO_LESSONS):
        document = Sybil([page]).parse(path)
        document.namespace["__name__"] = f"page_{path.stem}"
        for example in document.examples():
            try:
                example.evaluate()
            except Exception as error:
                reason = "".join(traceback.format_exception_only(error))
                found.append(f"{path.name}, line {example.line}: {reason}")
    if page.printed:
        found.append(f"{path.name}: the last example prints, and the page doesn't show it")
    return found


def rewrite(path: Path) -> None:
    """Put the actual output into every output and session that differs."""
    page, text = Page(), path.read_text(encoding="utf-8")
    faults(path, page)
    for fence, came in sorted(page.stale, key=lambda each: each[0].start, reverse=True):
        text = text[: fence.inner.start] + fence.in_place(came) + text[fence.inner.stop :]
    path.write_text(text)


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
