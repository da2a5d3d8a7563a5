"""The reference on torch's own tracer; torch has nothing besides."""

from tests.suite.on_torch import on_torch

globals().update(vars(on_torch("inversion")))
