"""Comparisons that print the expected and the actual value, the cause if it was seen, and a hint.

A false cause is worse than none: ``cause=`` comes with what shows it, the most specific first::

    equal(path, "a", cause=(is_value("b"), "the last of two names was taken"))
    holds(fired == 2, "the hook fires twice", got=fired, cause=[
        (is_value(1), "there are two modules, and one has the hook"),
        (lambda fired: fired > 2, "a call runs more than once"),
    ])

A predicate gets the actual value, graph, list of warnings or error (``None``: no error was raised).
One that raises has seen nothing. A bare string is for ``refuses`` alone, which prints it where
nothing was raised, and for ``noting``, which notes it on what torch raises; elsewhere
``tests/project/test_causes.py`` forbids it. Where nothing shows the cause, expected and got are
enough, and an error of the learner's own code is shown with its line alone.
"""

from __future__ import annotations

import contextlib
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx.proxy import TraceError
from torch.utils._pytree import tree_flatten

from kata.comparing import ADDRESS
from kata.terminal import clipped
from lessons import COURSE

WIDTH = 80
# What Python, torch's proxies and its tracer raise where something isn't recorded. A comparison
# that failed is none of these: it has its cause already.
STOPS = (TraceError, TypeError, NameError, RuntimeError)
OF_THE_JUDGED = ("lessons.", "solutions.", "tests.answers.")

Seen = tuple[Callable[[Any], object] | bool, str]
Cause = str | Seen | Sequence[Seen]


class MismatchError(AssertionError):
    """A comparison failed; the message is written for the person whose code was judged."""


def mismatch(*, expected: object, got: object, cause: str, hint: str) -> MismatchError:
    """Compose the four lines that every failure has."""
    lines = {"expected": shown(expected), "got": shown(got), "likely cause": cause, "try": hint}
    return MismatchError("\n".join(labelled(label, text) for label, text in lines.items() if text))


def words_of(cause: Cause, got: object) -> str:
    """The first cause that the actual value proves; empty if there is none."""
    if isinstance(cause, str):
        return cause
    pairs: Any = [cause] if isinstance(cause[-1], str) else cause
    return next((words for predicate, words in pairs if has_seen(predicate, got)), "")


def has_seen(predicate: Callable[[Any], object] | bool, got: object) -> bool:
    """Return whether a predicate holds; what it can't read it hasn't seen."""
    if isinstance(predicate, bool):
        return predicate
    try:
        return bool(predicate(got))
    except Exception:
        return False


def is_value(value: object) -> Callable[[object], bool]:
    """A predicate of a cause: this very value came."""
    return lambda got: type(got) is type(value) and got == value


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
    return clipped(ADDRESS.sub("", text), 300)


class Words(str):
    """Text that is shown as it is, without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def equal(actual: object, expected: object, *, cause: Cause = "", hint: str = "") -> None:
    """Fail unless ``actual`` is of the type of ``expected`` and equal to it."""
    if type(actual) is not type(expected) or actual != expected:
        raise mismatch(expected=expected, got=actual, cause=words_of(cause, actual), hint=hint)


def holds(
    condition: object, expected: str, *, got: object = Words(""), cause: Cause = "", hint: str = ""
) -> None:
    """Fail with the sentence ``expected`` unless ``condition`` is true."""
    if not condition:
        raise mismatch(expected=Words(expected), got=got, cause=words_of(cause, got), hint=hint)


def same_numbers(actual: object, expected: object, *, cause: Cause = "", hint: str = "") -> None:
    """Fail unless two (nested) results agree in structure, shape, dtype and numbers.

    Tensors agree within the tolerances of ``torch.testing.assert_close``; anything else is equal.
    """
    ours, our_structure = tree_flatten(actual)
    theirs, their_structure = tree_flatten(expected)
    if our_structure != their_structure:
        raise mismatch(expected=expected, got=actual, cause=words_of(cause, actual), hint=hint)
    for our, their in zip(ours, theirs, strict=True):
        difference = numeric_difference(our, their)
        if difference:
            expected_words = Words("the numbers that the eager model returns")
            seen = words_of(cause, actual)
            raise mismatch(expected=expected_words, got=Words(difference), cause=seen, hint=hint)


def numeric_difference(our: object, their: object) -> str:
    """Return how two leaves differ, in one line; empty if they are equal."""
    if not isinstance(their, torch.Tensor):
        return "" if our == their else f"{our!r} instead of {their!r}"
    if are_equal(our, their):  # most are, and this takes a fraction of the time
        return ""
    try:
        torch.testing.assert_close(our, their, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


def are_equal(our: object, their: torch.Tensor) -> bool:
    """Return whether two tensors are of one kind, and have equal numbers, none of them nan."""
    return (
        isinstance(our, torch.Tensor)
        and (our.layout, our.device, our.dtype) == (their.layout, their.device, their.dtype)
        and torch.equal(our, their)
    )


@contextlib.contextmanager
def refuses(
    error_type: type[Exception] | tuple[type[Exception], ...],
    *words: str,
    cause: Cause = "",
    hint: str = "",
) -> Iterator[None]:
    """Fail unless the block raises ``error_type`` (or one of them) with ``words`` in its message.

    The ``NotImplementedError`` of a stub passes through, though it is a ``RuntimeError`` too: a
    lesson that isn't started has refused nothing. So does the ``NameError`` of a misspelt name.
    A bare string as a cause says what happened instead, where nothing was raised.
    """
    types = error_type if isinstance(error_type, tuple) else (error_type,)
    names = " or ".join(each.__name__ for each in types)
    expected = Words(f"{names}{' that names ' if words else ''}{', '.join(words)}")
    got: Exception | None = None
    try:
        yield
    except error_type as error:
        if is_todo(error) or is_misspelling(error):
            raise
        got = error
        if all(word in str(error) for word in words):
            return
    except AssertionError:
        raise
    except Exception as error:
        if not is_todo(error) and not is_misspelling(error):
            error.add_note(f"expected: {expected}")
        raise
    if isinstance(cause, str):
        cause = (got is None, cause)
    shown_got = Words("no error") if got is None else got
    # The error is the cause of the failure: its line is shown as well.
    raise mismatch(expected=expected, got=shown_got, cause=words_of(cause, got), hint=hint) from got


def is_misspelling(error: BaseException) -> bool:
    """Return whether Python itself raised this, for a name that the code doesn't define."""
    return isinstance(error, NameError) and error.name is not None


def own(mixin: type, *methods: str) -> type:
    """Return a lesson's class, once it is sure that the methods are its own.

    The class comes before torch's ``Tracer``: a method that it lacks, or misspells, would be
    torch's, and every test would pass.
    """
    classes = [each for each in mixin.__mro__ if not each.__module__.startswith("torch.")]
    missing = [name for name in methods if not any(name in vars(each) for each in classes)]
    if missing:
        raise mismatch(
            expected=Words(f"a method `{missing[0]}` in `{mixin.__name__}`"),
            got=Words(
                ", ".join(name for name in vars(mixin) if not name.startswith("__")) or "none"
            ),
            cause="it was renamed or deleted, or is inherited from torch",
            hint="write the method itself, under the name that the stub has",
        )
    return mixin


@contextlib.contextmanager
def barred(owner: type, name: str) -> Iterator[None]:
    """Fail if the block calls torch's own method: the lesson asks for that very work."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise mismatch(
            expected=Words(f"a `{name}` that does the work itself"),
            got=Words(f"a call of `{owner.__name__}.{name}`"),
            cause="the question was handed on to torch's own method: `super()`, or another tracer",
            hint="that method is what the lesson asks you to write",
        )

    original = vars(owner)[name]
    setattr(owner, name, refuse)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def noting(
    *, cause: Cause, hint: str = "", on: tuple[type[Exception], ...] = STOPS
) -> Iterator[None]:
    """Note the cause on an error of the block, and let it pass as it is.

    Args:
        cause: The cause, in words a learner understands, with a predicate of the error. A bare
            string is noted on what torch raises; the learner's own errors speak for themselves.
        hint: What to try next.
        on: The types of errors that have this cause; all others pass without a note.
    """
    try:
        yield
    except on as error:
        if isinstance(cause, str):
            cause = (not is_learners_own(error), cause)
        words = words_of(cause, error)
        if words:
            error.add_note(f"likely cause: {words}")
        if words and hint:
            error.add_note(f"try: {hint}")
        raise


def is_learners_own(error: BaseException) -> bool:
    """Return whether a line of the judged code raised an error, and not what that line called."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return f"{frame.f_globals.get('__name__', '')}.".startswith(OF_THE_JUDGED)


@contextlib.contextmanager
def warns_of(*words: str) -> Iterator[None]:
    """Fail unless the block warns with all of ``words`` in one message.

    Unlike ``pytest.warns`` it lets an error pass: a stub's, or the learner's own.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(warning.message) for warning in caught]
    if not any(all(word in message for word in words) for message in messages):
        expected = Words(f"a warning that names {', '.join(words)}")
        got = Words("; ".join(messages) or "no warning")
        raise mismatch(expected=expected, got=got, cause="", hint="")


# --- a lesson that isn't started


# With these the errors of stubs begin.
PREFIXES = tuple(f"{lesson.name}: " for lesson in COURSE)


def is_todo(error: BaseException) -> bool:
    """Return whether a stub raised this: its message begins with the name of a lesson."""
    return isinstance(error, NotImplementedError) and str(error).startswith(PREFIXES)


def line_of(error: BaseException) -> int:
    """The line that raised an error: of a stub's, the function that is to be written is there."""
    *_, (_, line) = traceback.walk_tb(error.__traceback__)
    return line
