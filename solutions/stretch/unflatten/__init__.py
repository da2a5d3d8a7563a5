"""Unlike the core: every program, and modules that can be swapped.

- Functional programs (``functional``): mutations are written back, and operations with side effects
  need no tokens.
- Preserved signatures (``signatures``): a module takes and returns what the eager one did, so that
  it can be swapped, also where it is called several times.
- ``calls``: interrupted calls, and the branches of ``torch.cond``.
- ``modules``: trees can be compiled, copied, traced and printed, and take adapters. Names of one
  tensor are recognised by its memory, as programs from a file need it.
"""

from __future__ import annotations

import copy

from torch.export import ExportedProgram, FlatArgsAdapter
from torch.fx import Graph

from ...unflatten import (
    ModuleCall,
    attach,
    infer_inputs,
    infer_outputs,
    make_modules,
    share_equal_bodies,
)
from .calls import CallGraph, attach_branches, outline
from .functional import remove_tokens, restore_mutations
from .modules import (
    InterpreterModule,
    InterpreterModuleDispatcher,
    UnflattenedModule,
    dispatch,
    restore_state,
    state_names,
)
from .signatures import preserve_signatures, refuse_detours

__all__ = [
    "CallGraph",
    "FlatArgsAdapter",
    "InterpreterModule",
    "InterpreterModuleDispatcher",
    "UnflattenedModule",
    "outline",
    "restore_state",
    "state_names",
    "unflatten",
]


def unflatten(
    module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
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
    root = prepare_calls(module)
    tree = UnflattenedModule(module, flat_args_adapter)
    make_modules(root, tree)
    attach(root, restore_state(module), [entry.fqn for entry in module.module_call_graph])
    attach_branches(root, module.graph_module)
    share_equal_bodies(root)
    dispatch(root, {entry.fqn for entry in module.module_call_graph if entry.signature})
    for call in root.walk():
        call.module.finalize()
    return tree


def prepare_calls(program: ExportedProgram) -> ModuleCall:
    """Return the root's call of a program, and in each call what it takes and returns."""
    signature = program.graph_signature
    preserved = {
        each.fqn: each.signature for each in program.module_call_graph[1:] if each.signature
    }
    functional = len(signature.output_specs) > len(signature.user_outputs)
    graph = _copied(program.graph) if preserved or functional else program.graph
    if functional:
        restore_mutations(graph, signature)
        remove_tokens(graph, signature)
    if preserved:
        preserve_signatures(graph, preserved)
    root = outline(graph)
    infer_inputs(root, state_names(program))
    infer_outputs(root)
    for call in root.walk():
        if call.name in preserved:
            refuse_detours(call)
    return root


def _copied(graph: Graph) -> Graph:
    """Copy a graph with the names of its nodes, because signatures refer to nodes by name.

    ``copy.deepcopy`` renames nodes that have the name of a builtin, such as ``input``.
    """
    copied = copy.deepcopy(graph)
    for ours, theirs in zip(copied.nodes, graph.nodes, strict=True):
        ours.name = theirs.name
    return copied
