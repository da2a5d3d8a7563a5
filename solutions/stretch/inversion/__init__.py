"""Run a graph backwards, operation by inverse operation.

A chain ``y = exp(tan(x))`` is undone from its end: first what undoes ``exp``, then what undoes
``tan``. The graph of the inverse is built the same way. The output becomes the placeholder, each
node becomes its inverse, and the placeholder becomes the output.

A graph can be inverted if it is such a chain: one value goes in, each step has one input, and no
value is used twice. Constants are no inputs: ``x + 2`` and ``x * weight`` are steps too.
"""

from .inverses import NotInvertibleError, add_inverse, inverse_of
from .invert import invert
from .modules import AdditiveCoupling, Inverse, RevBlock

__all__ = [
    "AdditiveCoupling",
    "Inverse",
    "NotInvertibleError",
    "RevBlock",
    "add_inverse",
    "inverse_of",
    "invert",
]
