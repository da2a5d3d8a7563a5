"""Trace a function of a reader: the text becomes a graph, a picture and Python again."""

from __future__ import annotations

import contextlib
import io
import linecache
import traceback
from inspect import Parameter, signature
from types import FunctionType
from typing import Any

import torch

from drawing import Picture
from drawing.figure import figure
from drawing.listing import panel
from solutions.code import python_code
from solutions.graph import Graph
from solutions.proxy import GraphAppendingTracer, Proxy

FILE = "<your function>"
HEAD = "# The same graph, printed as Python"
NO_FUNCTION = "there is no function to trace: write one with `def`"


class NothingToTraceError(ValueError):
    """A text defines no function."""


def trace(text: str) -> dict[str, Any]:
    """Trace the last function that a text defines.

    Args:
        text: Python that may use ``torch``, which needs no import.

    Returns:
        ``says``, what the code printed and the error, and ``state``, ``red`` or ``traced``. A graph
        that was traced is there twice: ``figure`` is HTML, and ``code`` is Python.
    """
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            graph = recorded(function_of(text))
            code = python_code(graph).src
    except Exception as error:
        return {"says": printed.getvalue() + said_of(error), "state": "red"}
    steps = f"{len(graph.nodes)} nodes, recorded by the Proxy and the Graph of this course"
    title = "The graph of your function"
    picture = Picture(title, "", (panel(graph),))
    html = figure(picture, "fx-box", steps)
    return {
        "says": printed.getvalue(),
        "state": "traced",
        "figure": html,
        "code": f"{HEAD}\n{code.strip()}",
    }


def function_of(text: str) -> FunctionType:
    """Run a text, and return the last function that it defines."""
    lines = text.splitlines(keepends=True)
    linecache.cache[FILE] = (len(text), None, lines, FILE)
    scope: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    exec(compile(text, FILE, "exec"), scope)
    functions = [
        each
        for each in scope.values()
        if isinstance(each, FunctionType) and each.__code__.co_filename == FILE
    ]
    if not functions:
        raise NothingToTraceError(NO_FUNCTION)
    return functions[-1]


def recorded(function: FunctionType) -> Graph:
    """Call a function with a proxy for each parameter, and return the graph."""
    graph = Graph()
    tracer = GraphAppendingTracer(graph)
    args, kwargs = [], {}
    for name, each in signature(function).parameters.items():
        if each.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        proxy = Proxy(graph.placeholder(name), tracer)
        if each.kind is Parameter.KEYWORD_ONLY:
            kwargs[name] = proxy
        else:
            args.append(proxy)
    graph.output(tracer.create_arg(function(*args, **kwargs)))
    return graph


def said_of(error: Exception) -> str:
    """An error with the reader's own line, and no frame of ours."""
    words = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    if isinstance(error, NothingToTraceError):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename == FILE:
        return f"line {error.lineno}: {(error.text or '').strip()}\n{words}"
    own = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == FILE]
    return f"line {own[-1].lineno}: {own[-1].line}\n{words}" if own else words
