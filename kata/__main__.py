"""The commands: ``python -m kata --help`` lists them."""

from __future__ import annotations

import argparse
import importlib
import sys

# Imported only when they are called: most need no torch, and torch takes seconds.
COMMANDS = {
    "bench": "time the reference beside torch",
    "pipeline": "run a split model as a pipeline of processes",
}


def main(words: list[str] | None = None) -> int:
    """Run the command named by the words of the command line; return the exit code."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(prog="python -m kata", description="The kata's commands.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=summary)
        if name in words[:1]:
            command = importlib.import_module(f"kata.{name}")
            command.add_arguments(subparser)
            subparser.set_defaults(run=command.main)
    arguments = parser.parse_args(words)
    code: int = arguments.run(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main())
