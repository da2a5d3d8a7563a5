"""Give a flat exported graph its module tree back.

``torch.export`` records a model as one flat graph: no modules, no attributes, every parameter an
input. ``unflatten`` makes a tree of modules of it again, with the names of the eager model. The
steps, one a module:

1. ``outline``: which nodes were recorded in which call of which module?
2. ``settle_inputs``: what does a call read from its module, and what is it handed?
3. ``settle_outputs``: what does a call return?
4. ``restore_state``: parameters, buffers and constants, tied ones still tied.
5. ``attach``: a module for every call, in the eager model's tree.
6. ``share_equal_bodies``: calls that do the same are done by one module.
7. ``dispatch``: a preserved module that is called several times takes turns.

After the first two, ``unflatten_plain`` runs. Beyond the core are ``restore_mutations``,
``remove_tokens`` and ``preserve_signatures``, which prepare graphs that not every model has.
"""

from __future__ import annotations

import copy

from torch.export import ExportedProgram
from torch.fx import Graph

from .adapter import FlatArgsAdapter
from .calls import ModuleCall, Signature
from .dispatching import dispatch
from .inputs import settle_inputs
from .interpreter import InterpreterModule
from .mutations import is_functional, restore_mutations
from .outlines import outline
from .outputs import settle_outputs
from .plain import unflatten_plain
from .preserve import preserve_signatures
from .sharing import share_equal_bodies
from .state import restore_state, state_names
from .tokens import has_tokens, remove_tokens
from .tree import attach
from .turns import InterpreterModuleDispatcher
from .unflattened import UnflattenedModule

__all__ = [
    "FlatArgsAdapter",
    "InterpreterModule",
    "InterpreterModuleDispatcher",
    "ModuleCall",
    "Signature",
    "UnflattenedModule",
    "attach",
    "dispatch",
    "outline",
    "preserve_signatures",
    "remove_tokens",
    "restore_mutations",
    "restore_state",
    "settle_inputs",
    "settle_outputs",
    "share_equal_bodies",
    "state_names",
    "unflatten",
    "unflatten_plain",
]


def unflatten(
    module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
) -> UnflattenedModule:  # given
    """Make a tree of modules of an exported program, with the names of the eager model.

    Args:
        module: the program. It isn't changed, and shares no tensor with the result.
        flat_args_adapter: what to do with arguments of another structure than at export.

    Returns:
        The tree. It takes the eager model's arguments, gives its results, and has its
        ``state_dict``. To swap one of its modules for an eager one, name that module in
        ``torch.export.export(..., preserve_module_call_signature=...)``.

    Raises:
        ValueError: the program is a joint graph, of a forward and a backward.

    Where torch does this: ``torch/export/unflatten.py``.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        >>> program = torch.export.export(model, (torch.ones(1, 2),))
        >>> tree = unflatten(program)
        >>> [name for name, _ in tree.named_modules()]
        ['', '0', '1']
        >>> torch.equal(tree(torch.ones(1, 2)), model(torch.ones(1, 2)))
        True
    """
    root = settled_outline(module)
    state = restore_state(module)
    tree = UnflattenedModule(module, flat_args_adapter)
    paths = [entry.fqn for entry in module.module_call_graph if "@" not in entry.fqn]
    bodies = attach(tree, root, state, paths[1:], module.graph_module)
    share_equal_bodies(tree, bodies)
    dispatch(tree, bodies, state)
    for body in bodies:
        body.module.finalize()
    tree.finalize()
    return tree


def settled_outline(program: ExportedProgram) -> ModuleCall:  # given
    """The calls of a program, and what crosses their borders: all that its graphs need."""
    if program.graph_signature.backward_signature is not None:
        raise ValueError(
            "the exported program is a joint graph, which computes gradients as well: it has no "
            "module tree to go back to; export the model's forward alone"
        )
    root = _outline(program)
    settle_inputs(root, state_names(program))
    settle_outputs(root)
    return root


def _outline(program: ExportedProgram) -> ModuleCall:  # given
    calls, signature = program.module_call_graph, program.graph_signature
    signatures = {entry.fqn: entry.signature for entry in calls[1:] if entry.signature}
    graph = program.graph
    if signatures or is_functional(signature):
        graph = _copied(graph)
    written = restore_mutations(graph, signature) if is_functional(signature) else {}
    if has_tokens(signature):
        remove_tokens(graph, signature)
    return preserve_signatures(graph, signatures, written) if signatures else outline(graph)


def _copied(graph: Graph) -> Graph:  # given
    """A copy whose nodes have the original's names: signatures know them by these.

    A plain copy renames a node that is called like a builtin, as ``input`` is.
    """
    copied = copy.deepcopy(graph)
    for ours, theirs in zip(copied.nodes, graph.nodes, strict=True):
        ours.name = theirs.name
    return copied
