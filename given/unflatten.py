"""What the lesson ``unflatten`` gives you: names, facts about programs and graphs, checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from torch import nn
from torch._export.utils import _check_input_constraints_for_graph
from torch.export import ExportedProgram
from torch.export._tree_utils import reorder_kwargs
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from .capture import Attribute

# --- names of modules


def is_below(path: str, ancestor: str) -> bool:
    """Return whether the name ``path`` is below the module ``ancestor``.

    >>> is_below("encoder.0", "encoder"), is_below("encoder2", "encoder"), is_below("fc", "")
    (True, False, True)
    """
    return bool(path) and (not ancestor or path.startswith(f"{ancestor}."))


def relative_to(ancestor: str, path: str) -> str:
    """Return the name that ``path`` has inside the module ``ancestor``.

    Raises:
        ValueError: ``path`` isn't below ``ancestor``.

    >>> relative_to("encoder", "encoder.0.weight"), relative_to("", "fc")
    ('0.weight', 'fc')
    """
    if not is_below(path, ancestor):
        raise ValueError(f"{path!r} isn't below the module {ancestor!r}, which calls it")
    return path.removeprefix(f"{ancestor}.")


# --- module stacks

# The key that export gives the stack of a node that a pass inserted: its module is unknown.
NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"


class Level(NamedTuple):
    """One entry of a node's module stack: one call, by number, of the module at ``path``.

    ``type_name`` is the class of the module. The root's path is empty.
    """

    path: str
    call: int
    type_name: str | None


ROOT = Level("", 0, None)


def levels_of(entries: Mapping[str, tuple[str, str]]) -> tuple[Level, ...]:
    """Return the entries of a node's ``nn_module_stack`` as levels, outermost first.

    The key of a module's second call ends in ``@1``, and sometimes the path does, too. Strict
    export sometimes writes a path that isn't below the one before it: there the stack ends.

    >>> levels_of({"L__self__": ("", "Model"), "L__self__block@1": ("block", "Block")})[1]
    Level(path='block', call=1, type_name='Block')
    """
    levels: list[Level] = []
    for key, (name, type_name) in entries.items():
        path = name.partition("@")[0]
        if levels and not is_below(path, levels[-1].path):
            break
        levels.append(Level(path, int(key.rpartition("@")[2]) if "@" in key else 0, type_name))
    return tuple(levels)


# --- programs


def all_names(state: Mapping[str, Attribute]) -> dict[str, list[str]]:
    """Return all names of each tensor, by each of its names.

    If two layers share a weight, the flat graph has it under one name, but each knows its own.

    >>> weight = nn.Parameter(nn.Linear(2, 2).weight)
    >>> tied = {name: Attribute("parameter", weight) for name in ("first.weight", "last.weight")}
    >>> all_names(tied)["last.weight"]
    ['first.weight', 'last.weight']
    """
    names: dict[int, list[str]] = defaultdict(list)
    for name, attribute in state.items():
        names[id(attribute.value)].append(name)
    return {name: names[id(attribute.value)] for name, attribute in state.items()}


def refuse_submodules(graph: Any) -> None:
    """Refuse a graph with graphs in it: of a ``no_grad`` block, or of an operator such as cond."""
    for node in graph.find_nodes(op="get_attr"):
        raise ValueError(
            f"this program has the submodule {node.target!r}, for a block such as torch.no_grad() "
            "or for an operator that takes functions: program.run_decompositions() has no blocks"
        )


KINDS = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer"}


def parts_of(program: ExportedProgram) -> dict[str, Any]:
    """Return what the ``Flat`` of a program that torch exported consists of, by its attributes.

    A name that the program's signature doesn't list is a parameter if its value is one. Otherwise
    it is a buffer if it is in the ``state_dict``, and a constant if not.

    Raises:
        ValueError: The program is a joint graph.
    """
    signature = program.graph_signature
    if getattr(signature, "backward_signature", None) is not None:
        raise ValueError(
            "this program is a joint graph: it also computes gradients, and no module of the model "
            "does that; unflatten the program of the forward pass"
        )
    values = {**program.state_dict, **program.constants}
    specs = {spec.target: spec for spec in signature.input_specs if spec.target in values}

    def attribute(name: str, value: Any) -> Attribute:
        if name in specs:
            spec = specs[name]
            return Attribute(KINDS.get(spec.kind, "constant"), value, spec.persistent is not False)
        kind = "buffer" if name in program.state_dict else "constant"
        return Attribute("parameter" if isinstance(value, nn.Parameter) else kind, value)

    called: Any = program.module_call_graph[0].signature
    return {
        "graph": program.graph,
        "names": {spec.arg.name: str(target) for target, spec in specs.items()},
        "state": {name: attribute(name, value) for name, value in values.items()},
        "paths": [entry.fqn for entry in program.module_call_graph],
        "in_spec": called.in_spec,
        "out_spec": called.out_spec,
        "ranges": program.range_constraints,
    }


def reading_state(flat: Any) -> Any:
    """Return a copy of a flat graph that reads its state.

    The arguments come first. Then each placeholder of a parameter, buffer or constant is a
    ``get_attr`` node with the name of the attribute as its target.
    """
    graph = type(flat.graph)()
    copies: dict[Any, Any] = {}
    for node in sorted(flat.graph.nodes, key=lambda node: _rank(node, flat)):
        if node.name in flat.names:
            copies[node] = graph.create_node("get_attr", flat.names[node.name])
            copies[node].meta.update(node.meta)
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return graph


def _rank(node: Any, flat: Any) -> int:
    """The arguments first, then the state, then the rest of the graph."""
    return 2 if node.op != "placeholder" else int(node.name in flat.names)


# --- do two calls do the same?


def graph_key(graph: Any, map_arg: Callable[..., Any]) -> Hashable:
    """Return a key for what a graph does: graphs that do the same thing have equal keys.

    Such graphs agree node by node: in the operation, in the function, attribute or submodule, and
    in the arguments. Names of nodes, of placeholders, and metadata don't count. But 1, 1.0 and True
    are different arguments, although they are equal in Python: so arguments are compared as text.

    Args:
        graph: Any graph.
        map_arg: Replaces the nodes in arguments, as ``map_arg`` of the lesson ``graph`` does.

    >>> import torch
    >>> from torch.fx.node import map_arg
    >>> one, other = torch.fx.symbolic_trace(nn.ReLU()), torch.fx.symbolic_trace(nn.ReLU())
    >>> graph_key(one.graph, map_arg) == graph_key(other.graph, map_arg)
    True
    """
    numbers = {node: _Result(number) for number, node in enumerate(graph.nodes)}
    return tuple(
        (
            node.op,
            None if node.op == "placeholder" else node.target,
            repr(map_arg((node.args, node.kwargs), numbers.__getitem__)),
        )
        for node in graph.nodes
    )


class _Result(NamedTuple):
    """The result of the node with this number: as text, it differs from the number."""

    number: int


# --- what a tree owns and takes


def refuse_taken(modules: Mapping[str, Any], names: Iterable[str]) -> None:
    """Refuse a model in which something has a name that the modules of a tree have themselves.

    Args:
        modules: The modules that run graphs, by path.
        names: The names of what the model has: modules, parameters, buffers and constants.

    Raises:
        ValueError: A name is taken: ``graph``, say.
    """
    for name in names:
        parent, _, field = name.rpartition(".")
        owner = modules.get(parent)
        if field and (field in getattr(owner, "__dict__", ()) or hasattr(type(owner), field)):
            raise ValueError(
                f"the model has something with the name {name!r}, but the modules of the tree need "
                f"the name {field!r} for themselves: rename it in the model"
            )


def register(module: nn.Module, name: str, attribute: Attribute) -> None:
    """Register a value on a module: as a parameter, as a buffer, or as a plain attribute."""
    if attribute.kind == "parameter":
        module.register_parameter(name, attribute.value)
    elif attribute.kind == "buffer":
        module.register_buffer(name, attribute.value, persistent=attribute.is_saved)
    else:
        setattr(module, name, attribute.value)


def input_leaves(
    args: Any, kwargs: dict[str, Any], in_spec: pytree.TreeSpec
) -> list[tuple[pytree.KeyPath, Any]]:
    """Return the leaves of the arguments with their paths, as pairs of path and leaf.

    Keywords may come in any order.

    Raises:
        TypeError: The structure of the arguments isn't ``in_spec``.
        ValueError: A keyword is missing, or the program doesn't have it.
    """
    leaves, given = pytree.tree_flatten_with_path((args, in_order(kwargs, in_spec)))
    if given != in_spec:
        raise TypeError(
            f"the arguments have the structure {given}, but the program was exported for "
            f"{in_spec}; call it like the eager model"
        )
    return leaves


def in_order(kwargs: dict[str, Any], in_spec: pytree.TreeSpec) -> dict[str, Any]:
    """Return keyword arguments in the order in which a program takes them.

    Raises:
        ValueError: A keyword is missing, or the program doesn't have it.
    """
    return reorder_kwargs(kwargs, in_spec) if kwargs else kwargs


def check_inputs(graph: Any, leaves: list[tuple[pytree.KeyPath, Any]], ranges: Any) -> None:
    """Compare the leaves of the arguments, with their paths, with a graph's placeholders.

    Raises:
        RuntimeError: A shape or value that the graph wasn't made for, or a size out of range.
    """
    _check_input_constraints_for_graph(list(graph.find_nodes(op="placeholder")), leaves, ranges)
