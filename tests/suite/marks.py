"""Marks for some parameters of a test."""

from __future__ import annotations

import pytest


def asking_more(value: object) -> object:
    """A parameter whose tests are stretch."""
    return pytest.param(value, marks=pytest.mark.stretch)
