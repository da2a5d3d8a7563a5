"""Know which function undoes which."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

# A function that has two names stands here under both; the later pair is the one that is used.
PAIRS: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = (
    (torch.sin, torch.asin),
    (torch.sin, torch.arcsin),
    (torch.cos, torch.acos),
    (torch.cos, torch.arccos),
    (torch.tan, torch.atan),
    (torch.tan, torch.arctan),
    (torch.exp, torch.log),
    (torch.exp2, torch.log2),
    (torch.expm1, torch.log1p),
    (torch.sinh, torch.asinh),
    (torch.sinh, torch.arcsinh),
    (torch.tanh, torch.atanh),
    (torch.tanh, torch.arctanh),
    (torch.special.expit, torch.special.logit),
    (torch.sigmoid, torch.logit),
    (torch.erf, torch.erfinv),
    (torch.deg2rad, torch.rad2deg),
    (torch.reciprocal, torch.reciprocal),
    (torch.neg, torch.neg),
    (torch.negative, torch.negative),
    (operator.neg, operator.neg),
)

# Each function, and the one that undoes it: the one table that both functions below use.
INVERSES = dict(PAIRS) | {g: f for f, g in PAIRS}


class NotInvertibleError(RuntimeError):
    """A graph or a function has no inverse that is known; the message names it and says why."""


def add_inverse(f: Callable[..., Any], g: Callable[..., Any]) -> None:
    """Register two functions of one argument as inverses of each other.

    A later pair wins over an earlier one with the same function.

    Args:
        f: a function; ``invert`` replaces it by ``g``.
        g: its inverse; ``invert`` replaces it by ``f``.

    Raises:
        TypeError: one of them can't be called.

    >>> add_inverse(torch.special.ndtri, torch.special.ndtr)
    >>> inverse_of(torch.special.ndtr) is torch.special.ndtri
    True
    """
    for function in (f, g):
        if not callable(function):
            raise TypeError(f"an inverse pair needs two functions, and {function!r} isn't one")
    INVERSES[f] = g
    INVERSES[g] = f


def inverse_of(f: Callable[..., Any]) -> Callable[..., Any]:
    """Look up the function that undoes ``f``.

    Args:
        f: a function of one argument.

    Returns:
        Its registered inverse.

    Raises:
        NotInvertibleError: no pair with ``f`` was registered.

    >>> inverse_of(torch.exp) is torch.log
    True
    """
    try:
        return INVERSES[f]
    except (KeyError, TypeError):
        name = getattr(f, "__name__", repr(f))
        raise NotInvertibleError(
            f"no inverse of {name} is known: register one with add_inverse({name}, ...)"
        ) from None
