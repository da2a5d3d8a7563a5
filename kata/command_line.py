"""The commands: ``python -m kata --help`` lists them, ``python -m kata`` says where you are."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from kata import bases
from kata.naming import near
from kata.terminal import open_console
from lessons import LESSONS

# Imported only when they are called: most need no torch, and torch takes seconds.
COMMANDS = {
    "list": "list the lessons and how they stand",
    "watch": "judge a lesson each time it is saved",
    "check": "judge lessons, and say why one isn't green",
    "hint": "show a hint, one more each time",
    "reset": "put a lesson back to its stub; a copy of yours is kept",
    "restore": "bring a kept copy of yours back",
    "update": "merge stubs that have changed into yours",
    "solution": "compare yours with the reference",
    "grade": "judge everybody's lessons, and write one report",
    "graph": "draw a model's graph, or how yours differs from torch's",
    "bench": "time the reference beside torch",
    "doctor": "look whether everything is there that the lessons need",
    "pipeline": "run a split model as a pipeline of processes",
}
# Without a command.
OVERVIEW = "overview"


def run(words: list[str]) -> int:
    """Run the command named by the words of the command line; return the exit code."""
    return carried_out(parsed(words))


def parsed(words: list[str]) -> argparse.Namespace:
    """What the words of the command line ask for; ``run`` is the command's function."""
    name = next((word for word in words if not word.startswith("-")), "")
    return parser_for(name).parse_args(words)


def carried_out(arguments: argparse.Namespace) -> int:
    """Do what was asked for; return the exit code."""
    try:
        bases.remember_what_is_new()
        code: int = arguments.run(arguments)
    except BrokenPipeError:
        # The reader has seen enough (`| head`); Python would complain again while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        open_console(plain=arguments.plain, stderr=True).print(f"error: {error}")
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
        run=lambda arguments: importlib.import_module("kata.overview").main(arguments)
    )
    if name and name not in COMMANDS:
        parser.error(unknown_command(name))
    subparsers = parser.add_subparsers(dest="command", metavar="command")
    for command, summary in COMMANDS.items():
        subparser = subparsers.add_parser(command, help=summary, description=summary)
        subparser.add_argument(
            "--plain", action="store_true", default=argparse.SUPPRESS, help=PLAIN
        )
        if command == name:
            module = importlib.import_module(f"kata.{name}")
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.main)
    return parser


PLAIN = "no colours, no redrawn lines, ASCII alone"


def unknown_command(name: str) -> str:
    """What to say to a word that is no command: the nearest one, or the one that was meant."""
    lesson = name.removeprefix("tests/").removeprefix("test_").removesuffix(".py")
    if any(lesson == row.name for row in LESSONS):
        return f"{name!r} is no command: to judge the lesson, `kata check {lesson}`"
    return f"unknown command {name!r}{near(name, COMMANDS)}"
