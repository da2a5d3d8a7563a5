"""Show a verdict on the terminal: the first failure in full, the others as one line, the score."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from kata.judging.verdict import Report, Verdict
from kata.naming import place_of
from kata.results import PASSED, Count, count
from kata.terminal import clipped, harmless, show_labelled

# A failure fits a terminal: its headline, its text, what was printed.
LINES = 25
ENDING = 10
PRINTED = 5


def show(console: Console, verdict: Verdict) -> None:
    """Print why the lesson isn't green, if it isn't, and how it stands."""
    show_failures(console, verdict)
    show_score(console, verdict)


def show_failures(console: Console, verdict: Verdict) -> None:
    """Print the first failure (a run that was cut short, first of all), then the others' names."""
    first = verdict.first_failure
    if not verdict.is_finished:
        headline(console, f"{verdict.lesson}: {verdict.ending.how}", "red")
        body(console, verdict.ending.text)
    elif first is not None:
        # What only the stretch asks for leaves a lesson done.
        style = "heading" if first.is_stretch else "red"
        headline(console, f"{verdict.lesson}: {first.headline}", style)
        body(console, first.text)
        show_printed(console, first)
        others = also_red(verdict, first)
        if others:
            console.print(clipped(others, console.width))
    if not verdict.is_finished or first is not None:
        console.print()


def headline(console: Console, text: str, style: str) -> None:
    console.print(clipped(f"── {harmless(text)} ", console.width, fill="─"), style=style)


def body(console: Console, text: str) -> None:
    """The explanation: laid out for 80 columns, and broken where there are fewer."""
    for line in fitted(harmless(text).splitlines()):
        console.print(line)


def fitted(lines: list[str]) -> list[str]:
    """At most as many lines as fit below a headline; the cause stands at the end, and stays."""
    if len(lines) < LINES:
        return lines
    return [*lines[: LINES - ENDING - 2], "…", *lines[-ENDING:]]


def show_printed(console: Console, report: Report) -> None:
    """The end of what the code printed while the test ran."""
    lines = report.printed.splitlines()
    if lines:
        console.print("printed meanwhile:" if len(lines) <= PRINTED else "printed last:")
    for line in lines[-PRINTED:]:
        console.print(clipped(f"    {harmless(line)}", console.width))


def also_red(verdict: Verdict, first: Report) -> str:
    """The other failures on one line: how many, and their sentences."""
    others = [report for report in verdict.of("failed") if report is not first]
    if not others:
        return ""
    sentences = list(dict.fromkeys(each.sentence for each in others if each.text != first.text))
    same = sum(report.text == first.text for report in others)
    parts = [f"the same in {same} more"] if same else []
    parts += [f"also red ({len(others) - same}): {'; '.join(sentences)}"] if sentences else []
    return "; ".join(parts)


def show_score(console: Console, verdict: Verdict) -> None:
    """The lesson's state, name and counts, and what was lent."""
    show_labelled(console, verdict.state, score(verdict), style=verdict.state)
    for line in notes(verdict):
        show_labelled(console, "", line)


def score(verdict: Verdict) -> str:
    if verdict.state == "todo":
        return f"{verdict.lesson}: not started, open {place_of(verdict.lesson)}"
    return (
        f"{verdict.lesson}: {counts(count(verdict, stretch=False), count(verdict, stretch=True))}"
    )


def counts(core: Count, stretch: Count) -> str:
    """``core 3 of 20, stretch 1 of 6``; a part that has no tests is left out."""
    parts = {"core": core, "stretch": stretch}
    return ", ".join(f"{name} {part}" for name, part in parts.items() if part.planned)


def notes(verdict: Verdict) -> Iterator[str]:
    if verdict.lent and verdict.state != "todo":
        yield f"lent by the reference: {', '.join(verdict.lent)}"
    if verdict.state in PASSED and verdict.first_failure:
        yield "the core is green; the stretch is more than the lesson asks"
    reasons = dict.fromkeys(report.text for report in verdict.of("skipped"))
    if reasons:
        yield f"skipped: {len(verdict.of('skipped'))} ({'; '.join(reasons)})"
