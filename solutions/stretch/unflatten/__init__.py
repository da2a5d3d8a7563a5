"""Unlike the core: every program, and modules that can be swapped.

- Functional programs (``functional``): mutations are written back, and operations with side effects
  need no tokens.
- Preserved signatures (``signatures``): a module takes and returns what the eager one did, so that
  it can be swapped, also where it is called several times.
- ``calls``: shapes of calls, arguments by name, and the branches of ``torch.cond``.
- ``modules``: trees can be compiled, copied, traced and printed, and take adapters. Names of one
  tensor are recognised by its memory, as programs from a file need it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch.export import ExportedProgram, FlatArgsAdapter
from torch.fx import Graph

from given.unflatten import refuse_taken

from ...capture import Flat
from ...unflatten import attach, flat_of
from .calls import Outliner, attach_branches, join_names
from .functional import remove_tokens, restore_mutations
from .modules import (
    InterpreterModule,
    InterpreterModuleDispatcher,
    UnflattenedModule,
    _disable_interpreter,
    copied,
    dispatch,
    make_modules,
    tied,
)
from .signatures import preserve_signatures

__all__ = [
    "FlatArgsAdapter",
    "InterpreterModule",
    "InterpreterModuleDispatcher",
    "Outliner",
    "UnflattenedModule",
    "_disable_interpreter",
    "make_modules",
    "unflatten",
]


def unflatten(
    module: Flat | ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
) -> UnflattenedModule:
    """Make a tree of modules of an exported program, with the names of the eager model.

    Args:
        module: The program. It isn't changed, and shares no tensor with the result.
        flat_args_adapter: What to do with arguments of another structure than at export; a
            subclass of torch's ``FlatArgsAdapter``.

    Returns:
        The tree. It takes the eager model's arguments, returns its results, and has its
        ``state_dict``. To swap one of its modules for an eager one, name that module in
        ``torch.export.export(..., preserve_module_call_signature=...)``.

    Raises:
        RuntimeError: A value goes around a signature that is preserved.

    In torch: ``torch.export.unflatten``.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    >>> program = torch.export.export(model, (torch.ones(1, 2),))
    >>> tree = unflatten(program)
    >>> [name for name, _ in tree.named_modules()]
    ['', '0', '1']
    """
    flat = tied(flat_of(module))
    entries = getattr(module, "module_call_graph", [])
    preserved = {entry.fqn: entry.signature for entry in entries[1:] if entry.signature}
    flat.graph = prepared(flat.graph, getattr(module, "graph_signature", None), preserved)
    outliner = Outliner(flat, preserved)
    outliner.take_out_all()
    tree = UnflattenedModule(outliner, flat)
    tree.describe(module, flat_args_adapter)
    modules = make_modules(tree, outliner.calls)
    refuse_taken(modules, [*flat.paths, *flat.state])
    if not preserved:
        join_names(modules, flat.graph)
    attach(modules, copied(flat.state), flat.paths)
    attach_branches(modules, module)
    for path in ["", *outliner.calls]:
        modules[path].finalize()
    for path, names in outliner.turns().items():
        dispatch(modules, path, names, flat.state)
    return tree


def prepared(graph: Graph, signature: Any, preserved: Mapping[str, Any]) -> Graph:
    """Return a flat graph that mutates in place, and whose calls have the preserved signatures."""
    functional = signature and len(signature.output_specs) > len(signature.user_outputs)
    if preserved or functional:
        graph = _copied(graph)
    if functional:
        restore_mutations(graph, signature)
        remove_tokens(graph, signature)
    if preserved:
        preserve_signatures(graph, preserved)
    return graph


def _copied(graph: Graph) -> Graph:
    """Copy a graph with the names of its nodes, because signatures refer to nodes by name.

    ``copy.deepcopy`` renames nodes that have the name of a builtin, such as ``input``.
    """
    copied = copy.deepcopy(graph)
    for ours, theirs in zip(copied.nodes, graph.nodes, strict=True):
        ours.name = theirs.name
    return copied
