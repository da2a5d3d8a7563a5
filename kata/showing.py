"""Show a verdict on the terminal: the first failure in full, the others' reasons, the score."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rich.console import Console

from kata.judging.verdict import Report, Verdict
from kata.naming import place_of
from kata.prose import filled
from kata.reasons import Reason, other_reasons
from kata.results import PASSED, Count, count
from kata.terminal import clipped, harmless, show_labelled

# A lesson's verdict fits a terminal. Besides the failure, the other reasons and what is to be noted
# it has a line that counts them, a blank one, and the score.
LINES = 25
BESIDES = 3
ENDING = 10
PRINTED = 5
# How many reasons are listed besides the first while no test of the core passes.
FEW = 3


def show(console: Console, verdict: Verdict) -> None:
    """Print why the lesson isn't green, if it isn't, and how it stands."""
    show_failures(console, verdict)
    show_score(console, verdict)


def show_failures(console: Console, verdict: Verdict) -> None:
    """Print the first failure (or why the run was cut short), then the others' reasons."""
    if not verdict.is_finished:
        show_ending(console, verdict)
    elif verdict.first_failure:
        show_failure(console, verdict.lesson, verdict.first_failure)
    show_others(console, verdict)


def show_ending(console: Console, verdict: Verdict) -> None:
    """Print why the run was cut short."""
    headline(console, f"{verdict.lesson}: {verdict.ending.how}", "red")
    body(console, verdict.ending.text)


def show_failure(console: Console, lesson: str, report: Report) -> None:
    """Print one failure in full: its headline, its text, what was printed meanwhile."""
    # What only the stretch asks for leaves a lesson done.
    headline(console, f"{lesson}: {report.headline}", "heading" if report.is_stretch else "red")
    body(console, report.text)
    show_printed(console, report)


def show_others(console: Console, verdict: Verdict) -> None:
    """Print the reasons of the failures after the first, and the blank line that ends them all."""
    first = verdict.first_failure
    if first is not None and verdict.is_finished:
        others = [each for each in verdict.of("failed") if each is not first]
        if others and first.title:
            console.print(f"all {len(others) + 1} tests wait for this")
        elif others:
            show_reasons(console, verdict, first, others)
    if first is not None or not verdict.is_finished:
        console.print()


def show_reasons(console: Console, verdict: Verdict, first: Report, others: list[Report]) -> None:
    """Print how many tests are red besides, and their reasons: those that there is room for."""
    reasons = other_reasons(first, others)
    # Where nothing is right yet, all reasons are one: it isn't written.
    most = len(reasons) if verdict.counts(stretch=False)["passed"] else FEW
    room = room_below(first) - len(list(notes(verdict)))
    items = fitting(reasons[:most], room, console.width)
    if len(items) < len(reasons):
        items = fitting(reasons[:most], room - 1, console.width)
    console.print(f"{more_tests(others)} red, {for_reasons(reasons, items)}")
    for line in itertools.chain.from_iterable(items):
        console.print(line, soft_wrap=True)
    if items and len(items) < len(reasons):
        console.print(f"… and {len(reasons) - len(items)} more like these")


def for_reasons(reasons: list[Reason], items: list[list[str]]) -> str:
    """What leads to the list of reasons, or stands for it where there is no room."""
    if items or not reasons:
        return "for other reasons:" if items else "for the same reason"
    return f"for {len(reasons)} other reason{'s' * (len(reasons) > 1)}"


def more_tests(others: list[Report]) -> str:
    """How many more tests there are, and how many of them the core has where not all are its."""
    core = sum(not report.is_stretch for report in others)
    some = f" ({core} of the core)" if 0 < core < len(others) else ""
    return f"{len(others)} more {f'tests{some} are' if len(others) > 1 else 'test is'}"


def room_below(first: Report) -> int:
    """How many lines a screen has left below the first failure and above the score."""
    printed = min(len(first.printed.splitlines()), PRINTED)
    above = 1 + len(fitted(first.text.splitlines())) + printed + bool(printed)
    return LINES - above - BESIDES


def fitting(reasons: list[Reason], room: int, width: int) -> list[list[str]]:
    """The reasons that fit into so many lines; where there is still room, with their hints."""
    items = []
    for reason in reasons:
        items.append(as_item(reason.why, width))
        room -= len(items[-1])
        if room < 0:
            return items[:-1]
    for number, reason in enumerate(reasons):
        longer = as_item(str(reason), width)
        more = len(longer) - len(items[number])
        if more <= room:
            items[number], room = longer, room - more
    return items


def as_item(text: str, width: int) -> list[str]:
    return filled(f"- {harmless(text)}", width)


def headline(console: Console, text: str, style: str) -> None:
    console.print(clipped(f"── {harmless(text)} ", console.width, fill="─"), style=style)


def body(console: Console, text: str) -> None:
    """The explanation: laid out for 80 columns, and broken where there are fewer."""
    for line in fitted(harmless(text).splitlines()):
        for part in filled(line, console.width) if len(line) > console.width else [line]:
            console.print(part, soft_wrap=True)


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
    if reasons and verdict.state != "todo":
        yield f"skipped: {len(verdict.of('skipped'))} ({'; '.join(reasons)})"
