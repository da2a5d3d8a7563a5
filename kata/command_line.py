"""The commands: ``kata --help`` lists them, ``kata`` alone says where you are."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from kata.lesson_names import UsageError, near
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
    "grade": "judge the lessons of all participants, and write one report",
    "doctor": "check your setup and suggest fixes",
}
PLAIN = "no colours, no redrawn lines, ASCII alone"


def run(argv: list[str]) -> int:
    """Run the command that these words name; return the exit code."""
    return carried_out(parsed(argv))


def parsed(argv: list[str]) -> argparse.Namespace:
    """Return what the words ask for; ``run`` is the command's function."""
    name = next((word for word in argv if not word.startswith("-")), "")
    return parser_for(name).parse_args(argv)


def carried_out(arguments: argparse.Namespace) -> int:
    """Run the command that the arguments name, and return the exit code."""
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough (`| head`); Python would complain again while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, UsageError) as error:
        errors = open_console(plain=arguments.plain, stderr=True)
        errors.print(harmless(f"error: {error}"), soft_wrap=True)
        return 1
    return code


def parser_for(name: str) -> argparse.ArgumentParser:
    """The parser of the whole command line; of the commands, only ``name`` is imported."""
    parser = argparse.ArgumentParser(
        prog="kata",
        description="Rebuild torch.fx piece by piece. Without a command: where you are.",
    )
    parser.add_argument("--plain", action="store_true", help=PLAIN)
    parser.set_defaults(
        run=lambda arguments: importlib.import_module("kata.commands.overview").main(arguments)
    )
    if name and name not in COMMANDS:
        parser.error(f"unknown command {name!r}{near(name, COMMANDS)}")
    subparsers = parser.add_subparsers(dest="command", metavar="command")
    for command, summary in COMMANDS.items():
        subparser = subparsers.add_parser(command, help=summary, description=summary)
        subparser.add_argument(
            "--plain", action="store_true", default=argparse.SUPPRESS, help=PLAIN
        )
        if command == name:
            module = importlib.import_module(f"kata.commands.{name}")
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.main)
    return parser
