"""Show a verdict on the terminal: the first failure in full, how many others there are, the score.

When the core is green, the score comes first, with what the lessons so far can do together. The
commands, the watch and plain pytest all print through this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import Console

from kata.progress import has_changed, is_pristine, unwritten
from kata.steps import steps_of
from kata.terminal import clipped, filled, harmless, show_labelled
from kata.verdict import PASSED, Count, Report, State, Verdict, cause_of
from lessons import TOGETHER

# A lesson's verdict fits a terminal. Besides the failure it has a headline, two lines about the
# other failures, a blank one, the score, and a note.
LINES, BESIDES = 25, 6
# Lines of a failure that are shown: at least, of its end if it is cut, and of the test's output.
LEAST, ENDING, PRINTED = 4, 10, 5
NOT_ENOUGH = "the core is green; --stretch asks for the stretch too: it is red"


def show(console: Console, verdict: Verdict, *, stretch: bool = False, milestone: str = "") -> None:
    """Print the lesson's state, and why it isn't green; or the milestone that it has reached."""
    if verdict.state in PASSED and verdict.is_finished and not (stretch or verdict.step):
        show_green(console, verdict, milestone)
    else:
        show_failures(console, verdict)
        show_score(console, verdict, stretch=stretch)


def show_green(console: Console, verdict: Verdict, milestone: str) -> None:
    """Print that the lesson is done, what can be done with it, and what is left of the stretch."""
    show_score(console, verdict)
    if milestone:
        show_labelled(console, "", milestone)
    if first := next(iter((*verdict.failures, *verdict.of("todo"))), None):
        more = f"optional: `kata check {verdict.lesson} --stretch`"
        console.print(clipped(f"{more}: {first.headline}", console.width), style="quiet")


def show_failures(console: Console, verdict: Verdict) -> None:
    """Print the first failure, why the run was cut short, and how many others there are."""
    if verdict.first_failure:
        show_failure(console, verdict.lesson, verdict.first_failure)
    show_rest(console, verdict)


def show_failure(console: Console, lesson: str, report: Report) -> None:
    """Print one failure: its headline, its text, and the output of the test."""
    # What only the stretch asks for leaves a lesson done.
    headline(console, f"{lesson}: {report.headline}", "heading" if report.is_stretch else "red")
    for line in failure_lines(console, report):
        console.print(line, soft_wrap=True)


def failure_lines(console: Console, report: Report) -> list[str]:
    """The text of a failure and the end of what the code printed, if there is room for it."""
    # The last two lines of a terminal are the keys' and the cursor's.
    room = (min(LINES, console.height - 2) if console.is_terminal else LINES) - BESIDES
    last = report.printed.splitlines()[-PRINTED:] if room > LEAST + PRINTED else []
    printed = [clipped(f"    {harmless(each)}", console.width) for each in last]
    if printed:
        printed.insert(0, "your code printed:")
    text = broken(report.text, console.width)
    return [*fitted(text, max(LEAST, room - len(printed))), *printed]


def broken(text: str, width: int) -> list[str]:
    """A text written for 80 columns, in lines that fit the terminal."""
    lines = harmless(text).splitlines()
    return [
        part for each in lines for part in (filled(each, width) if len(each) > width else [each])
    ]


def fitted(lines: list[str], room: int) -> list[str]:
    """At most so many lines; the cause is at the end, and is kept."""
    if len(lines) <= room:
        return lines
    ending = min(ENDING, room // 2)
    return [*lines[: room - ending - 1], "…", *lines[len(lines) - ending :]]


def show_rest(console: Console, verdict: Verdict) -> None:
    """Print the lines after the first failure, and the blank line that ends the screen."""
    first = verdict.first_failure
    if not verdict.is_finished:
        headline(console, f"{verdict.lesson}: {verdict.ending.how}", "red")
        for line in broken(verdict.ending.text, console.width):
            console.print(line, soft_wrap=True)
    elif first is not None and first.title:
        console.print(f"all {len(verdict.of('failed'))} tests wait for this")
    elif first is not None:
        show_others(console, first, verdict.failures[1:])
    if first is not None or not verdict.is_finished:
        console.print()


def show_others(console: Console, first: Report, others: tuple[Report, ...]) -> None:
    """Print how many more tests are red, and another likely cause if there is one."""
    known = ("", cause_of(first))
    another = next((cause for each in others if (cause := cause_of(each)) not in known), "")
    word = "tests are" if len(others) > 1 else "test is"
    if others:
        more = "; another cause:" * bool(another)
        console.print(f"{len(others)} more {word} red{more}")
    if another:
        console.print(clipped(f"- {harmless(another)}", console.width))


def headline(console: Console, text: str, style: str) -> None:
    console.print(clipped(f"── {harmless(text)} ", console.width, fill="─"), style=style)


def show_score(
    console: Console, verdict: Verdict, *, stretch: bool = False, green: str = ""
) -> None:
    """Print the lesson's state, name and counts, and what is to be noted.

    Of a lesson of which only a part was run, ``green`` is said in the place of ``done``.
    """
    green = green or "green" * bool(verdict.step)
    state = (verdict.state in PASSED and green) or verdict.state
    show_labelled(console, state, score(verdict), style=state)
    for line in notes(verdict, stretch=stretch):
        show_labelled(console, "", line)


def score(verdict: Verdict) -> str:
    name = f"{verdict.lesson:<15} "
    if verdict.state == State.TODO:
        if verdict.lesson in TOGETHER:
            return f"{name}write these first: {', '.join(unwritten(verdict.lesson))}"
        if not is_pristine(verdict.lesson):
            return f"{name}no test passes yet"
        return f"{name}not started: open lessons/{verdict.lesson}.py"
    if verdict.step:
        title = steps_of(verdict.lesson)[verdict.step].title
        return f"{name}step {verdict.step}: {verdict.count(stretch=False)} ({title})"
    return name + counts(verdict.count(stretch=False), verdict.count(stretch=True))


def counts(core: Count, stretch: Count) -> str:
    """``core 3 of 20, stretch 1 of 6``; a part that has no tests is left out."""
    parts = {"core": core, "stretch": stretch}
    return ", ".join(f"{name} {part}" for name, part in parts.items() if part.planned)


def notes(verdict: Verdict, *, stretch: bool = False) -> Iterator[str]:
    skipped = verdict.of("skipped")
    if verdict.state != State.TODO:
        if verdict.yours is not None and verdict.lent:
            needs = TOGETHER[verdict.lesson].needs
            yield f"{len(verdict.yours)} of {len(needs)} pieces are yours; done when all are"
        yield from verdict.borrowed
        if verdict.lent:
            yield f"lent by the reference: {', '.join(verdict.lent)}"
        if changed := [lesson for lesson in verdict.lent if has_changed(lesson)]:
            yield f"changed since it was green: {', '.join(changed)}; `kata check` judges it"
    if step := next_step(verdict):
        yield step
    if stretch and verdict.state == State.DONE and verdict.first_failure:
        yield NOT_ENOUGH
    if skipped and verdict.state != State.TODO:
        reasons = dict.fromkeys(report.text for report in skipped)
        yield f"skipped: {len(skipped)} ({'; '.join(reasons)})"


def next_step(verdict: Verdict) -> str:
    """The first function that tests of the core wait for; empty if there is none."""
    waiting = [each for each in verdict.of("todo") if not each.is_stretch and each.line]
    if not waiting or is_pristine(verdict.lesson):
        return ""
    first = waiting[0]  # the easiest test
    tests = Counter(each.text for each in waiting)[first.text]
    wait = f"{tests} test{'s wait' if tests > 1 else ' waits'} for it"
    word = "then" if verdict.failures else "next"  # what is shown as red comes first
    lesson, _, function = first.text.partition(": ")
    return f"{word}: {function}, lessons/{lesson}.py:{first.line}; {wait}"
