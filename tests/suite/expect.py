"""Comparisons that say what was expected, what came, the likely cause and what to try next."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator

import torch

WIDTH = 80


class Mismatch(AssertionError):
    """A comparison failed; the message is written for the person whose code was judged."""


def mismatch(*, expected: object, got: object, cause: str, hint: str) -> Mismatch:
    """Compose the four lines that every failure has."""
    lines = {"expected": shown(expected), "got": shown(got), "likely cause": cause, "try": hint}
    return Mismatch("\n".join(labelled(label, text) for label, text in lines.items() if text))


def labelled(label: str, text: str) -> str:
    """``label: text`` wrapped to the width of a terminal, the lines after the first indented."""
    head = f"{label + ':':<14}"
    wrapped = (
        textwrap.wrap(line, WIDTH - len(head), break_on_hyphens=False) or [""]
        for line in text.splitlines()
    )
    body = [line for lines in wrapped for line in lines]
    return "\n".join((head if number == 0 else " " * 14) + line for number, line in enumerate(body))


def shown(value: object) -> str:
    """A value on a few lines at most: its own text if it is text, else its ``repr``."""
    text = value if isinstance(value, str) and "\n" in value else repr(value)
    return text if len(text) <= 300 else text[:297] + "…"


class Words(str):
    """Text that is shown as it is, without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def equal(actual: object, expected: object, *, cause: str = "", hint: str = "") -> None:
    """Fail unless ``actual`` is of the type of ``expected`` and equal to it."""
    if type(actual) is not type(expected) or actual != expected:
        raise mismatch(expected=expected, got=actual, cause=cause, hint=hint)


def holds(
    condition: object, expected: str, *, got: object = "", cause: str = "", hint: str = ""
) -> None:
    """Fail with the sentence ``expected`` unless ``condition`` is true."""
    if not condition:
        raise mismatch(expected=Words(expected), got=got, cause=cause, hint=hint)


def same_numbers(actual: object, expected: object, *, cause: str = "", hint: str = "") -> None:
    """Fail unless two (nested) results agree in structure, shape, dtype and numbers."""
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True)
    except AssertionError as error:
        raise mismatch(
            expected=Words("the numbers that the eager model gives"),
            got=Words(" ".join(str(error).split())),
            cause=cause,
            hint=hint,
        ) from None


@contextlib.contextmanager
def refuses(
    error_type: type[BaseException], *words: str, cause: str = "", hint: str = ""
) -> Iterator[None]:
    """Fail unless the block raises ``error_type`` with all of ``words`` in its message.

    The ``NotImplementedError`` of a stub passes through, though it is a ``RuntimeError``: a lesson
    that isn't started has refused nothing.
    """
    expected = Words(f"{error_type.__name__}{' that names ' if words else ''}{', '.join(words)}")
    try:
        yield
    except NotImplementedError as error:
        if error_type is not NotImplementedError:
            raise
        got: BaseException | None = error
    except error_type as error:
        got = error
    else:
        got = None
    if got is None:
        raise mismatch(expected=expected, got=Words("no error"), cause=cause, hint=hint)
    if not all(word in str(got) for word in words):
        raise mismatch(expected=expected, got=got, cause=cause, hint=hint)
