"""The command ``update``: a stub has changed (a ``git pull``), and yours has work in it."""

from __future__ import annotations

import argparse

from rich.console import Console

from kata import bases, places
from kata.copies import keep, write, yours
from kata.merging import CannotMergeError, Merged, merge
from kata.naming import NAMES, add_lesson
from kata.prose import show_prose
from kata.stubs import Module, modules_of
from kata.terminal import open_console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser, nargs="*", help="the lessons to update (default: all)")


def main(arguments: argparse.Namespace) -> int:
    """Merge each changed stub into yours; the exit code is 1 if something is left to be settled."""
    console = open_console(plain=arguments.plain)
    updates = [Update(lesson, console) for lesson in arguments.lesson or NAMES]
    for update in updates:
        update.run()
    if not any(update.changed or update.unsettled for update in updates):
        console.print("nothing to do: your files have today's stubs in them")
    return int(any(update.unsettled for update in updates))


class Update:
    """One lesson's update: its files are merged one by one, after one copy was kept."""

    def __init__(self, lesson: str, console: Console) -> None:
        self.lesson = lesson
        self.console = console
        self.changed = False
        self.unsettled = False

    def run(self) -> None:
        present = yours(self.lesson)
        for module in modules_of(self.lesson):
            new = module.stub_text(self.lesson).encode()
            if module.stub in present:
                self.merge(module, present[module.stub], new)
            elif present:
                self.write(module, new)
                self.say(module, "is a new step: its stub is written")
            # A lesson of which nothing is left was taken away on purpose.

    def merge(self, module: Module, text: bytes, new: bytes) -> None:
        base = bases.base_of(module, self.lesson)
        if new in (base, text):
            bases.remember(module, new)
            return
        try:
            merged = merge(text, base, new)
        except CannotMergeError as error:
            self.set_aside(module, new, str(error))
            return
        self.write(module, merged.text)
        bases.remember(module, new)
        self.report(module, merged)

    def write(self, module: Module, text: bytes) -> None:
        """Write over a file, after the lesson's copy was kept."""
        if not self.changed:
            self.copy = keep(self.lesson, "update")
        self.changed = True
        write(places.HERE.lessons / module.stub, text)

    def report(self, module: Module, merged: Merged) -> None:
        if merged.conflicts:
            self.unsettled = True
            lines = ", ".join(map(str, merged.conflicts))
            self.say(module, f"has both versions at line {lines}: settle them between the markers")
        else:
            self.say(module, "has the new stub in it")
        show_prose(self.console, f"`kata restore {self.lesson}` undoes this")

    def set_aside(self, module: Module, new: bytes, why: str) -> None:
        """Leave yours alone, and put the new stub where the learner can look at it."""
        self.unsettled = True
        file = places.HERE.memory / "new" / module.stub
        write(file, new)
        self.say(module, f"is left as it is: {why}")
        show_prose(self.console, f"the new stub is {places.shown(file)}")

    def say(self, module: Module, what: str) -> None:
        show_prose(self.console, f"lessons/{module.stub.as_posix()} {what}")
