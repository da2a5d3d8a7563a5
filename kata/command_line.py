"""The commands: ``kata --help`` lists them, ``kata`` alone says where you are."""

from __future__ import annotations

import argparse
import importlib

from kata.arguments import UsageError, near
from kata.terminal import harmless, open_console

# Imported only when they are called: most need no torch, and torch takes seconds.
COMMANDS = {
    "watch": "judge a lesson each time it is saved",
    "check": "judge lessons, and say why one isn't green",
    "run": "run a script of yours on your lessons",
    "hint": "show a hint, one more each time",
    "solution": "compare yours with the reference",
    "reset": "put a lesson back to its stub; --undo brings yours back",
    "graph": "draw a model's graph, or how yours differs from torch's",
    "card": "draw the course with the lessons that you have done, after the finale",
    "grade": "judge the lessons of all participants, and write one report",
    "doctor": "check your setup and suggest fixes",
}


def run(argv: list[str]) -> int:
    """Run the command that these words name; return the exit code."""
    name = next((word for word in argv if not word.startswith("-")), "")
    arguments = parser_for(name).parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except (OSError, UsageError) as error:
        open_console(stderr=True).print(harmless(f"error: {error}"), soft_wrap=True)
        return 1
    return code


def parser_for(name: str) -> argparse.ArgumentParser:
    """The parser of the whole command line; of the commands, only ``name`` is imported."""
    parser = argparse.ArgumentParser(
        prog="kata",
        description="Rebuild torch.fx piece by piece. Without a command: where you are.",
    )
    parser.set_defaults(
        run=lambda arguments: importlib.import_module("kata.commands.overview").main(arguments)
    )
    if name and name not in COMMANDS:
        parser.error(f"unknown command {name!r}{near(name, COMMANDS)}")
    subparsers = parser.add_subparsers(dest="command", metavar="command")
    for command, summary in COMMANDS.items():
        subparser = subparsers.add_parser(command, help=summary, description=summary)
        if command == name:
            module = importlib.import_module(f"kata.commands.{name}")
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.main)
    return parser
