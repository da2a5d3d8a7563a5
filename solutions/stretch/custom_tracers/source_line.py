"""Note the line of your code that asked for a node."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from torch.fx import Node

from ..tracer import Tracer


class SourceLine(NamedTuple):
    """A line of code: the file, the line's number, and the function it is in."""

    filename: str
    lineno: int
    function: str

    def __str__(self) -> str:  # given
        return f"{self.filename}:{self.lineno} in {self.function}"


class SourceLineTracer(Tracer):
    """Note, for each operation, the line of your code that asked for it.

    The line is the innermost one, of those that run because of the trace, that lies outside torch
    and outside these lessons. It is in ``node.meta["source_line"]`` as a ``SourceLine``. Nodes that
    no line of yours asked for have no entry: placeholders, the output, and what torch's own
    containers call.

    In torch: ``Tracer.record_stack_traces`` keeps the whole stack, as text.

    >>> from colorsys import rgb_to_yiq
    >>> operation = SourceLineTracer().trace(rgb_to_yiq).output_node().prev
    >>> print(operation.op, "from", operation.meta["source_line"].function)
    call_function from rgb_to_yiq
    """

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """Create the node as every tracer does, and note the line that asked for it.

        Args:
            *args: what ``Tracer.create_node`` takes.
            **kwargs: the same, by name.

        Returns:
            The node.
        """
        node = super().create_node(*args, **kwargs)
        line = next(_source_lines(), None)
        if line is not None:
            node.meta["source_line"] = line
        return node


def _source_lines() -> Iterator[SourceLine]:
    """Yield the lines outside torch and outside the lessons that run now, innermost first."""
    for frame in _frames_of_the_run():
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package not in _MACHINERY:
            code = frame.f_code
            yield SourceLine(code.co_filename, frame.f_lineno, code.co_name)


def _frames_of_the_run() -> Iterator[FrameType]:
    """Yield the frames below ``trace``: what called ``trace`` isn't part of the run."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not Tracer.trace.__code__:
        yield frame
        frame = frame.f_back


_MACHINERY = frozenset({"torch", __name__.partition(".")[0]})
