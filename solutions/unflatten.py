"""Give a flat exported graph its module tree back.

``torch.export`` records a model as one flat graph: no modules, every parameter an input. But each
node remembers which module calls it was recorded in, so a call is a slice of the graph. You cut
these slices out and turn each into a module, with the name that it had in the eager model.
"""

from __future__ import annotations

import copy
import operator
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from torch import nn
from torch._export.utils import _check_input_constraints_for_graph
from torch.export import ExportedProgram
from torch.export._tree_utils import reorder_kwargs
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from .graph import Graph, Node, map_arg
from .interpreter import Interpreter


def unflatten(module: ExportedProgram) -> UnflattenedModule:  # given
    """Turn an exported program into a tree of modules.

    The tree shares no tensors with the program, and the program isn't changed.

    In torch: ``torch.export.unflatten``.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> tree = unflatten(torch.export.export(model, (torch.ones(1, 2),)))
    >>> [name for name, _ in tree.named_modules()]
    ['', '0', '1']
    >>> torch.equal(tree(torch.ones(1, 2)), model(torch.ones(1, 2)))
    True
    """
    root = outline(module.graph)
    infer_inputs(root, state_names(module))
    infer_outputs(root)
    tree = UnflattenedModule(module)
    make_modules(root, tree)
    attach(root, restore_state(module), [entry.fqn for entry in module.module_call_graph])
    share_equal_bodies(root)
    for call in root.walk():
        call.module.finalize()
    return tree


# --- the words that the steps share


class Level(NamedTuple):  # given
    """One entry of a node's module stack: one call, by number, of the module at ``path``."""

    path: str
    call: int
    type_name: str | None


@dataclass(eq=False)
class ModuleCall:  # given
    """One call of one module: a slice of the flat graph.

    ``outline`` makes it, and the later steps fill in the rest.

    Attributes:
        path: The module's fully qualified name; empty for the root.
        index: The number of the call, 0 for the module's first.
        type_name: The class of the eager module.
        first: The first node of the slice.
        body: The nodes and the calls that the module itself makes, in order.
        inputs: Values made before the call, which the caller passes in.
        state: Values that the module reads from itself, and their names below it.
        outputs: Values made in the call and used after it.
        module: The module that runs the call.
        caller: The call that makes this one, and ``call_node``, the node in its graph that does so.
    """

    path: str
    index: int
    type_name: str | None
    first: Node
    body: list[Node | ModuleCall]
    inputs: list[Node] = field(default_factory=list)
    state: dict[Node, str] = field(default_factory=dict)
    outputs: list[Node] = field(default_factory=list)
    module: InterpreterModule = field(init=False, repr=False)
    caller: ModuleCall = field(init=False, repr=False)
    call_node: Node = field(init=False, repr=False)

    @property
    def name(self) -> str:
        """The name of this call: ``path`` for the first, then ``path@1``, ``path@2``, and so on."""
        return f"{self.path}@{self.index}" if self.index else self.path

    @property
    def last(self) -> Node:
        """The last node of the slice."""
        end = self.body[-1]
        return end.last if isinstance(end, ModuleCall) else end

    @property
    def calls(self) -> list[ModuleCall]:
        """The calls that this one makes directly."""
        return [item for item in self.body if isinstance(item, ModuleCall)]

    def walk(self) -> Iterator[ModuleCall]:
        """Yield every call below this one, then this one: callees before callers."""
        for call in self.calls:
            yield from call.walk()
        yield self

    def redirect(self, index: int) -> None:
        """Make the caller's graph call the module of the call with this index."""
        self.index = index
        self.call_node.target = relative_to(self.caller.path, self.name)


def is_below(path: str, ancestor: str) -> bool:  # given
    """Return whether the name ``path`` is below the module ``ancestor``.

    >>> is_below("encoder.0", "encoder"), is_below("encoder2", "encoder"), is_below("fc", "")
    (True, False, True)
    """
    return bool(path) and (not ancestor or path.startswith(f"{ancestor}."))


def relative_to(ancestor: str, path: str) -> str:  # given
    """Return the name that ``path`` has inside the module ``ancestor``.

    Raises:
        ValueError: ``path`` isn't below ``ancestor``.

    >>> relative_to("encoder", "encoder.0.weight"), relative_to("", "fc")
    ('0.weight', 'fc')
    """
    if not is_below(path, ancestor):
        raise ValueError(f"{path!r} isn't below the module {ancestor!r}, which calls it")
    return path.removeprefix(f"{ancestor}.")


# --- step 1: which nodes were recorded in which call of which module?

# What export writes on a node that a pass inserted: its module is unknown.
NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"


def outline(graph: Graph) -> ModuleCall:
    """Read the tree of module calls off a flat graph.

    ``node.meta["nn_module_stack"]`` lists the calls that a node was recorded in, outermost first:
    ``{key: (path, class)}``. If the stacks of neighbouring nodes agree up to some depth, the nodes
    are in the same call at that depth.

    - The first path is empty: the root.
    - The key of a module's second call ends in ``@1``, and so on. If a path ends like that too, cut
      the ``@1`` off.
    - A path that isn't below the one before it ends the stack: the node belongs to the caller.
    - Placeholders don't belong to any call, and the ``output`` node belongs to the root.
    - A node with the key ``NO_MODULE`` belongs to the same call as the node before it, or to the
      root if it is the first.

    Returns:
        The root's call.

    Raises:
        RuntimeError: A node has no ``nn_module_stack``, or an empty one. The message names the node
            and ``nn_module_stack``.

    >>> import torch
    >>> program = torch.export.export(nn.Sequential(nn.ReLU()), (torch.ones(1),))
    >>> root = outline(program.graph)
    >>> [call.name for call in root.calls], [node.name for node in root.calls[0].body]
    (['0'], ['relu'])
    """
    stacked = _with_stacks(node for node in graph.nodes if node.op != "placeholder")
    return _call(Level("", 0, _root_type(graph)), list(stacked), depth=0)


class _Stacked(NamedTuple):
    """A node and the calls below the root that it was recorded in, outermost first."""

    node: Node
    stack: tuple[Level, ...]


def _call(level: Level, stacked: Sequence[_Stacked], depth: int) -> ModuleCall:
    return ModuleCall(*level, first=stacked[0].node, body=_body(stacked, depth))


def _body(stacked: Sequence[_Stacked], depth: int) -> list[Node | ModuleCall]:
    """Group the nodes of a slice by the next level of their stacks."""
    body: list[Node | ModuleCall] = []
    for level, group in groupby(stacked, lambda item: item.stack[depth : depth + 1]):
        if level:
            body.append(_call(level[0], list(group), depth + 1))
        else:
            body.extend(item.node for item in group)
    return body


def _with_stacks(nodes: Iterable[Node]) -> Iterator[_Stacked]:
    stack: tuple[Level, ...] = ()
    for node in nodes:
        entries = node.meta.get("nn_module_stack")
        if node.op == "output":
            stack = ()
        elif not entries:
            raise RuntimeError(
                f"node {node.name!r} of the exported graph has no nn_module_stack, so its module "
                "is unknown; keep the metadata of nodes in passes over the graph"
            )
        elif NO_MODULE not in entries:
            stack = _levels(entries)
        yield _Stacked(node, stack)


def _levels(entries: Mapping[str, tuple[str, str]]) -> tuple[Level, ...]:
    levels: list[Level] = []
    for key, (name, type_name) in entries.items():
        path = name.partition("@")[0]
        if path:
            if levels and not is_below(path, levels[-1].path):
                break
            levels.append(Level(path, int(key.rpartition("@")[2]) if "@" in key else 0, type_name))
    return tuple(levels)


def _root_type(graph: Graph) -> str | None:
    stacks = (node.meta.get("nn_module_stack", {}) for node in graph.nodes)
    return next((ty for stack in stacks for path, ty in stack.values() if not path), None)


# --- step 2: what does a call read from its module, and what does it take as an input?


def infer_inputs(root: ModuleCall, names: Mapping[str, Sequence[str]]) -> None:
    """Fill in the ``inputs`` and the ``state`` of every call.

    A call needs the earlier values that its nodes use, and the earlier values that calls inside it
    take as inputs. List each of them once, in the order of first use. Such a value is *state* if
    one of its names is below the call's path: the module reads it from itself, under the rest of
    the first such name. Otherwise it is an *input*. The inputs of the root are those of the
    program: all placeholders that have no names, used or not, in the graph's order.

    Args:
        root: The outline.
        names: The result of ``state_names``: for the placeholder of each parameter, buffer or
            constant, the fully qualified names of that tensor.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(2, 2))
    >>> root = outline(torch.export.export(model, (torch.ones(1, 2),)).graph)
    >>> infer_inputs(root, {"p_0_weight": ["0.weight"], "p_0_bias": ["0.bias"]})
    >>> root.calls[0].inputs, list(root.calls[0].state.values()), root.inputs
    ([input], ['weight', 'bias'], [input])
    """
    position = _positions(root)
    for call in root.walk():
        for value in dict.fromkeys(_values_used(call)):
            if position[value] < position[call.first]:
                owned = [name for name in names.get(value.name, ()) if is_below(name, call.path)]
                if owned:
                    call.state[value] = relative_to(call.path, owned[0])
                else:
                    call.inputs.append(value)
    placeholders = root.first.graph.find_nodes(op="placeholder")
    root.inputs = [value for value in placeholders if value.name not in names]


def _positions(root: ModuleCall) -> dict[Node, int]:
    return {node: position for position, node in enumerate(root.first.graph.nodes)}


def _values_used(call: ModuleCall) -> Iterator[Node]:
    for item in call.body:
        yield from item.inputs if isinstance(item, ModuleCall) else item.all_input_nodes


def state_values(program: ExportedProgram) -> dict[str, Any]:  # given
    """Return everything the eager model owned, by fully qualified name, in the model's order."""
    return {**program.state_dict, **program.constants}


def state_names(program: ExportedProgram) -> dict[str, list[str]]:
    """Return all names of each placeholder that is state.

    The first name is the ``target`` of the placeholder's input spec in the program's
    ``graph_signature``. Then come all names that the same object has in ``state_values``, so the
    target is there twice. The name of the placeholder is ``spec.arg.name``.

    >>> import torch
    >>> tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> tied[1].weight = tied[0].weight
    >>> program = torch.export.export(tied, (torch.ones(1, 2),))
    >>> state_names(program)["p_0_weight"]
    ['0.weight', '0.weight', '1.weight']
    """
    values = state_values(program)
    names: dict[int, list[str]] = defaultdict(list)
    for name, value in values.items():
        names[id(value)].append(name)
    return {
        spec.arg.name: [spec.target, *names[id(values[spec.target])]]
        for spec in program.graph_signature.input_specs
        if spec.target in values
    }


def unflatten_plain(program: ExportedProgram) -> Callable[..., Any]:  # given
    """Return a function that runs a plain program call by call, with only the first two steps.

    It makes two assumptions that the later steps drop: each module is called once, and returns its
    last value. The function takes the leaves of the arguments and returns a tuple of leaves.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> plain = unflatten_plain(torch.export.export(model, (torch.ones(1, 2),)))
    >>> torch.equal(plain(torch.ones(1, 2))[0], model(torch.ones(1, 2)))
    True
    """
    root = outline(program.graph)
    infer_inputs(root, state_names(program))
    return partial(_run_plain, root, state_values(program))


def _run_plain(call: ModuleCall, state: Mapping[str, Any], *inputs: Any) -> Any:  # given
    values = dict(zip(call.inputs, inputs, strict=True))
    values |= {node: state[f"{call.path}.{name}".lstrip(".")] for node, name in call.state.items()}
    for item in call.body:
        if isinstance(item, ModuleCall):
            values[item.last] = _run_plain(item, state, *map(values.__getitem__, item.inputs))
        else:
            args, kwargs = map_arg((item.args, item.kwargs), values.__getitem__)
            function: Any = item.target
            values[item] = args[0] if item.op == "output" else function(*args, **kwargs)
    return values[call.last]


# --- step 3: what does a call return?


def infer_outputs(root: ModuleCall) -> None:
    """Fill in the ``outputs`` of every call.

    A call returns each value that a node after the call's last one uses, if the call's own nodes
    made it or a call inside it returned it. The values are in the order in which they were made.

    >>> import torch
    >>> program = torch.export.export(nn.Sequential(nn.ReLU()), (torch.ones(1),))
    >>> root = outline(program.graph)
    >>> infer_outputs(root)
    >>> root.calls[0].outputs, root.outputs
    ([relu], [])
    """
    position = _positions(root)
    for call in root.walk():
        last = position[call.last]
        call.outputs = [
            value
            for value in _values_made(call)
            if any(position[user] > last for user in value.users)
        ]


def _values_made(call: ModuleCall) -> Iterator[Node]:
    for item in call.body:
        yield from item.outputs if isinstance(item, ModuleCall) else [item]


# --- step 4: the graph of one call


class CallGraph:
    """Builds ``graph``, the graph of one call: its inputs and state, its body, its outputs.

    Raises:
        RuntimeError: The call needs a value that it neither makes nor receives.

    >>> import torch
    >>> root = outline(torch.export.export(nn.Sequential(nn.ReLU()), (torch.ones(1),)).graph)
    >>> infer_inputs(root, {})
    >>> infer_outputs(root)
    >>> list(CallGraph(root.calls[0]).graph.nodes), list(CallGraph(root).graph.nodes)
    ([input_1, relu, output], [input_1, _0, output])
    """

    def __init__(self, call: ModuleCall) -> None:  # given
        self.call = call
        self.graph = type(call.first.graph)()
        self.copies: dict[Node, Node] = {}
        self.add_inputs()
        for item in call.body:
            if isinstance(item, ModuleCall):
                self.add_call(item)
            else:
                self.copies[item] = self.graph.node_copy(item, self.value)
        if call.path:  # the root's body ends with an output node of its own
            self.add_output()

    def value(self, node: Node) -> Node:  # given
        """Return the node of this graph that stands for a node of the flat one."""
        if node not in self.copies:
            raise RuntimeError(
                f"the call {self.call.name!r} needs {node.name!r}, but neither makes nor receives "
                "it: it is missing among the call's inputs and state, or among a callee's outputs"
            )
        return self.copies[node]

    def add_inputs(self) -> None:
        """Add the nodes for the call's inputs and state, and note them in ``copies``.

        First add a placeholder for each input, with the ``name`` and ``type`` of the value; then a
        ``get_attr`` for each piece of state. Each node has a copy of the value's ``meta``.
        """
        for value in self.call.inputs:
            self.copies[value] = self.graph.placeholder(value.name, type_expr=value.type)
        for value, name in self.call.state.items():
            self.copies[value] = self.graph.create_node("get_attr", name)
        for value, node in self.copies.items():
            node.meta = copy.copy(value.meta)

    def add_call(self, callee: ModuleCall) -> None:
        """Add a ``call_module`` node for a call in the body.

        The target is the callee's name below this call's path, and the arguments are its inputs. If
        the callee has a single output, the node itself has its value. If it has several, they
        are a list: add a node for each item. These nodes need no ``meta``. The node becomes
        the callee's ``call_node``, and this call its ``caller``.
        """
        target = relative_to(self.call.path, callee.name)
        node = self.graph.call_module(target, tuple(map(self.value, callee.inputs)))
        callee.caller = self.call
        callee.call_node = node
        if len(callee.outputs) == 1:
            self.copies[callee.outputs[0]] = node
        else:
            for position, value in enumerate(callee.outputs):
                item = self.graph.call_function(operator.getitem, (node, position))
                self.copies[value] = item

    def add_output(self) -> None:
        """Add the ``output`` node: a single output as it is, none or several as a list."""
        results = [self.value(value) for value in self.call.outputs]
        self.graph.output(results[0] if len(results) == 1 else results)


# --- step 5: parameters, buffers and constants


@dataclass(frozen=True)
class Attribute:
    """The value that one name of the eager model's state had, and how it was registered.

    Attributes:
        kind: ``InputKind.PARAMETER``, ``BUFFER``, or anything else for a plain attribute.
        value: A copy of the value.
        persistent: Whether a buffer belongs to the ``state_dict``.
    """

    kind: InputKind
    value: Any
    persistent: bool = True

    def register(self, module: nn.Module, name: str) -> None:
        """Register the value on a module under a name, as its ``kind``."""
        if self.kind is InputKind.PARAMETER:
            module.register_parameter(name, self.value)
        elif self.kind is InputKind.BUFFER:
            module.register_buffer(name, self.value, persistent=self.persistent)
        else:
            setattr(module, name, self.value)


def restore_state(program: ExportedProgram) -> dict[str, Attribute]:
    """Copy everything the eager model owned.

    Every name of ``state_values`` is restored, used or not, in that order. A tensor with two
    names remains one tensor. No copy shares memory with the program, and ``requires_grad`` is kept.

    Each of the program's ``graph_signature.input_specs`` has a name as its ``target``, the ``kind``
    of that name, and whether a buffer is ``persistent``. A name that isn't the target of any is a
    parameter if its value is one. Otherwise it is a buffer if it is in the ``state_dict``, and a
    constant (``InputKind.CONSTANT_TENSOR``) if not.

    >>> import torch
    >>> linear = nn.Linear(2, 2, bias=False).requires_grad_(False)
    >>> weight = restore_state(torch.export.export(linear, (torch.ones(1, 2),)))["weight"]
    >>> weight.kind.name, weight.value.requires_grad, weight.value is linear.weight
    ('PARAMETER', False, False)
    """
    return as_registered(program, copy.deepcopy(state_values(program)))


def as_registered(
    program: ExportedProgram, values: Mapping[str, Any]
) -> dict[str, Attribute]:  # reference only
    """Say of each value of the program's state as what the eager model had registered it."""
    listed = {spec.target: spec for spec in program.graph_signature.input_specs}

    def registered(name: str, value: Any) -> Attribute:
        if name in listed:
            spec = listed[name]
            return Attribute(spec.kind, value, spec.persistent is not False)
        if isinstance(value, nn.Parameter):
            return Attribute(InputKind.PARAMETER, value)
        in_dict = name in program.state_dict
        return Attribute(InputKind.BUFFER if in_dict else InputKind.CONSTANT_TENSOR, value)

    return {name: registered(name, value) for name, value in values.items()}


# --- step 6: modules that run a graph


class InterpreterModule(nn.Module):
    """A module that runs its graph with your ``Interpreter``.

    Args:
        graph: The graph; its placeholders are the module's parameters.
        ty: The class of the eager module that it replaces, as ``type_name()`` returns it.
        owner: The module whose attributes the graph reads: ``_owner``. Without it, this module.

    In torch: the class of the same name; there, a module owns what its graph reads.

    >>> import torch
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> output = graph.output(graph.call_function(torch.add, (x, x)))
    >>> double = InterpreterModule(graph)
    >>> double.finalize()
    >>> double(torch.tensor(2)), double(x=torch.tensor(3))
    (tensor(4), tensor(6))
    """

    graph: Graph
    arg_names: list[str]

    def __init__(self, graph: Graph, ty: str | None = None, owner: Any = None) -> None:  # given
        super().__init__()
        self.graph = graph
        self._ty = ty
        # In a tuple: nn.Module would register the owner itself as a child.
        self._owners = (self if owner is None else owner,)

    @property
    def _owner(self) -> nn.Module:  # given
        return self._owners[0]

    def type_name(self) -> str | None:  # given
        """Return the class of the eager module, as export recorded it."""
        return self._ty

    def finalize(self) -> None:
        """Check the graph, and note its parameters.

        The graph's ``owning_module`` becomes ``self._owner``, the graph is linted, and
        ``arg_names`` lists the targets of its placeholders. Call it again after editing the graph.
        """
        self.graph.owning_module = self._owner  # type: ignore[assignment]
        self.graph.lint()
        self.arg_names = [str(node.target) for node in self.graph.find_nodes(op="placeholder")]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph with a value for each placeholder, passed by position or by name.

        Take submodules and state from ``self._owner``.
        """
        named = [kwargs[name] for name in self.arg_names[len(args) :]]
        return Interpreter(self._owner, graph=self.graph).run(*args, *named)


class UnflattenedModule(InterpreterModule):
    """The root of the tree: it takes the eager model's arguments and returns its results.

    ``_signature`` says how the program is called: ``in_spec`` is the structure of
    ``(args, kwargs)``, ``out_spec`` that of the result.
    """

    def __init__(self, export_module: ExportedProgram) -> None:  # given
        super().__init__(type(export_module.graph)())
        self._signature = export_module.module_call_graph[0].signature
        self.range_constraints = export_module.range_constraints

    def module_for(self, call: ModuleCall, owner: nn.Module | None) -> InterpreterModule:  # given
        """Return a new module that runs the graph of a call on the attributes of ``owner``."""
        return InterpreterModule(CallGraph(call).graph, call.type_name, owner)

    def input_leaves(self, args: Any, kwargs: dict[str, Any]) -> list[tuple[pytree.KeyPath, Any]]:
        """Return the leaves of the arguments, with their paths.

        Keywords may come in any order: ``torch.export._tree_utils.reorder_kwargs``.

        Raises:
            TypeError: The structure of the arguments isn't ``in_spec``.
            ValueError: A keyword argument that the program doesn't have.
        """
        wanted = self._signature.in_spec
        if kwargs:
            kwargs = reorder_kwargs(kwargs, wanted)
        leaves, given = pytree.tree_flatten_with_path((args, kwargs))
        if given != wanted:
            raise TypeError(
                f"the arguments have the structure {given}, but the program was exported for "
                f"{wanted}; call it like the eager model"
            )
        return leaves

    def flat_inputs(self, args: Any, kwargs: dict[str, Any]) -> list[Any]:
        """Return the leaves of the arguments, and refuse those that the program can't take.

        ``torch._export.utils._check_input_constraints_for_graph`` checks them. It takes the
        placeholders of the graph, the leaves with their paths, and the range constraints.

        Raises:
            RuntimeError: A shape or value that the program wasn't exported for.
        """
        leaves = self.input_leaves(args, kwargs)
        placeholders = list(self.graph.find_nodes(op="placeholder"))
        _check_input_constraints_for_graph(placeholders, leaves, self.range_constraints)
        return [leaf for _, leaf in leaves]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph on the leaves, and give the result its structure."""
        result = super().forward(*self.flat_inputs(args, kwargs))
        return pytree.tree_unflatten(result, self._signature.out_spec)


# --- step 7: a module for every call, in the eager model's tree


def make_modules(root: ModuleCall, tree: UnflattenedModule) -> None:
    """Give every call a module with its graph and type name; the root's is the tree.

    ``tree.module_for`` makes each module.

    The module of the first call in the graph owns the state that its graph reads. The ``index`` of
    that call becomes 0: export also counts calls that left no node, so it may be 1. The module of a
    later call owns nothing; its ``owner`` is the first call's module. Make the modules of callees
    before those of their callers, because a caller's graph names its callees.
    """
    first: dict[str, InterpreterModule] = {}
    for call in root.walk():
        owner = first.get(call.path)
        call.module = tree.module_for(call, owner)
        if owner is None:
            first[call.path] = call.module
            call.index = 0
    tree.graph, tree._ty, root.module = root.module.graph, root.type_name, tree


def attach(root: ModuleCall, state: Mapping[str, Attribute], paths: Iterable[str]) -> None:
    """Register all modules and all state below the tree, ``root.module``.

    Register each call's module under the ``name`` of the call. If a name in ``paths`` has no call,
    or a parent is missing, register a plain ``nn.Module``. Register children in the order of
    ``paths``, and then those that aren't listed.

    Args:
        root: The outline, with a module for every call.
        state: What to register, by fully qualified name.
        paths: The modules of the eager model, in its order. Names with an ``@`` come from export:
            leave them out.
    """
    module_at: dict[str, nn.Module] = {call.name: call.module for call in root.walk()}
    listed = [path for path in paths if "@" not in path]
    for path in [*listed, *list(module_at), *(name.rpartition(".")[0] for name in state)]:
        _create_parents(module_at, path)
    for name, attribute in state.items():
        parent, _, field_name = name.rpartition(".")
        attribute.register(module_at[parent], field_name)


def _create_parents(module_at: dict[str, nn.Module], path: str) -> None:
    """Register the module at a path below its parent, and so on up to the root."""
    if path:
        parent, _, name = path.rpartition(".")
        _create_parents(module_at, parent)
        module_at[parent].add_module(name, module_at.setdefault(path, nn.Module()))


# --- step 8: calls that do the same share a module


def graph_key(graph: Graph) -> Hashable:
    """Return a key for what a graph does: graphs that do the same thing have equal keys.

    Such graphs agree node by node: in the operation, in the function, attribute or submodule, and
    in the arguments, where 1, 1.0 and True are different. Names of nodes and metadata don't count.

    >>> import torch
    >>> one, other = torch.fx.symbolic_trace(nn.ReLU()), torch.fx.symbolic_trace(nn.ReLU())
    >>> graph_key(one.graph) == graph_key(other.graph)
    True
    """
    results = {node: _Result(number) for number, node in enumerate(graph.nodes)}
    return tuple(_node_key(node, results) for node in graph.nodes)


class _Result(NamedTuple):
    """The result of the node with this number; its name doesn't matter."""

    number: int


def _node_key(node: Node, results: Mapping[Node, _Result]) -> Hashable:
    # As text: 1, 1.0 and True are equal, but not the same argument.
    arguments = repr(map_arg((node.args, node.kwargs), results.__getitem__))
    return node.op, None if node.op == "placeholder" else node.target, arguments


def share_equal_bodies(root: ModuleCall) -> None:
    """Let calls of one module that do the same thing share a module.

    They do the same thing if their graphs have equal keys. Keep the earliest module. Remove a later
    one from the tree, give its call the earliest module, and redirect the call to that module's
    index. Start with the callees: then callers that differed only in which of two equal bodies
    they call have become equal.
    """
    kept: dict[Hashable, ModuleCall] = {}
    for call in root.walk():
        earliest = kept.setdefault((call.path, graph_key(call.module.graph)), call)
        if earliest is not call:
            remove_module(root.module, call.name)
            call.module = earliest.module
            call.redirect(earliest.index)


def remove_module(tree: nn.Module, path: str) -> None:  # reference only
    """Remove the module at a path from a tree."""
    parent, _, name = path.rpartition(".")
    delattr(tree.get_submodule(parent), name)
