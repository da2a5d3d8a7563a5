"""Before the outline: operations with side effects are called without tokens."""

from __future__ import annotations

from torch.export.graph_signature import ExportGraphSignature, InputKind
from torch.fx import Graph


def has_tokens(signature: ExportGraphSignature) -> bool:  # given
    """Whether the graph keeps the order of side effects by handing tokens on."""
    return any(spec.kind is InputKind.TOKEN for spec in signature.input_specs)


def remove_tokens(graph: Graph, signature: ExportGraphSignature) -> None:
    """Call operations with side effects directly.

    ``run_decompositions`` strings such operations on a token, so that their order shows in the
    values: ``token, *results = with_effects(token, operation, *args)``. In a tree of modules the
    order is that of the calls, and nobody has a token to begin with.

    Args:
        graph: a flat graph whose ``output`` node returns no tokens any more. It is changed.
        signature: says which placeholders are tokens.

    Where torch does this: ``torch/export/_remove_effect_tokens_pass.py``, which edits the program
    that it is given.
    """
    raise NotImplementedError("unflatten: call operations with side effects directly")
