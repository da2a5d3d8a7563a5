"""The command ``graph``: a model's graph as a picture in the browser."""

from kata.graph.command import add_arguments, main

__all__ = ["add_arguments", "main"]
