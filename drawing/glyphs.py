"""One shape for each opcode, so that no meaning rests on colour."""

from __future__ import annotations

# Paths around a middle of (0, 0).
SHAPES = {
    "placeholder": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "get_attr": "m0-4.5l4.5 4.5-4.5 4.5-4.5-4.5z",
    "call_module": "m-3.5-3.5h7v7h-7z",
    "call_function": "m0-4.2l4.4 7.8h-8.8z",
    "call_method": "m-3.6-4.4l7.8 4.4-7.8 4.4z",
    "output": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0zm2.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0-3 0z",
    "module": "m-4-3h3l1 1.5h4v5h-8z",
    "parameter": "m-4-2.5h8m-8 2.5h8m-8 2.5h8",
    "value": "m-2-4h-2v8h2m4-8h2v8h-2",
}
