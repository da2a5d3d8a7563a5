"""The command ``doctor``: what the lessons need, what is there, and how to mend what isn't."""

from __future__ import annotations

import argparse

from rich.console import Console

from kata.health import Finding, State, findings
from kata.prose import show_prose
from kata.terminal import open_console, say_json, show_labelled

STYLES = {State.OK: "green", State.NOTE: "yellow", State.PROBLEM: "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print a line for each thing looked at; the exit code is 1 if there is a problem."""
    found = findings()
    if arguments.json:
        say_json([finding._asdict() for finding in found])
    else:
        show(found, open_console(plain=arguments.plain))
    return int(any(finding.state is State.PROBLEM for finding in found))


def show(found: list[Finding], console: Console) -> None:
    for finding in found:
        text = f"{finding.name}: {finding.words}"
        show_labelled(console, finding.state, text, style=STYLES[finding.state])
        if finding.remedy:
            show_labelled(console, "", f"remedy: {finding.remedy}")
    problems = sum(finding.state is State.PROBLEM for finding in found)
    console.print()
    show_prose(console, conclusion(problems))


def conclusion(problems: int) -> str:
    if not problems:
        return "everything that the lessons need is there"
    return f"{problems} problem{'s' * (problems > 1)}: mend the first one first"
