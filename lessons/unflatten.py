"""Give a flat graph its module tree back.

``capture`` and ``torch.export`` record a model as one flat graph: no modules, and every parameter
is an input. But each node remembers the module calls that it was recorded in. So a call is a slice
of the graph. You take the slices out, the innermost first, and leave one node in the place of each:
inlining, run backwards.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

from torch import nn
from torch.export import ExportedProgram

from given.capture import Attribute
from given.unflatten import (
    NO_MODULE,
    ROOT,
    Level,
    all_names,
    check_inputs,
    graph_key,
    input_leaves,
    is_below,
    levels_of,
    parts_of,
    reading_state,
    refuse_submodules,
    refuse_taken,
    register,
    relative_to,
)

from .capture import Flat
from .graph import Graph, Node, map_arg
from .split_module import Partition, build_graph


def unflatten(program: Flat | ExportedProgram) -> UnflattenedModule:  # given
    """Turn a flat graph into a tree of modules, with tensors of its own. The graph isn't changed.

    Raises:
        ValueError: The program has a block such as ``torch.no_grad()``, which is a submodule.

    In torch: ``torch.export.unflatten``.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> tree = unflatten(torch.export.export(model, (torch.ones(1, 2),)))
    >>> [name for name, _ in tree.named_modules()]
    ['', '0', '1']
    >>> torch.equal(tree(torch.ones(1, 2)), model(torch.ones(1, 2)))
    True
    """
    flat = flat_of(program)
    refuse_submodules(flat.graph)
    outliner = Outliner(flat)
    outliner.take_out_all()
    tree = UnflattenedModule(outliner, flat)
    modules = make_modules(tree, outliner.calls)
    refuse_taken(modules, [*flat.paths, *flat.state])
    state = copy.deepcopy(dict(flat.state))  # one copy of all: tied tensors stay tied
    attach(modules, state, flat.paths)
    for name in ["", *outliner.calls]:
        modules[name].finalize()
    return tree


def flat_of(program: Flat | ExportedProgram) -> Flat:  # given
    """Return what ``capture_flat`` or torch's export recorded as a ``Flat``."""
    return Flat(**parts_of(program)) if isinstance(program, ExportedProgram) else program


@dataclass(eq=False)
class ModuleCall(Partition):  # given
    """The partition of the nodes that were recorded in one call of a module: see ``Level``."""

    level: Level = ROOT


def stacks_of(graph: Graph) -> dict[Node, tuple[Level, ...]]:  # step 1
    """Return the calls that each node was recorded in, from the root to the innermost.

    ``node.meta["nn_module_stack"]`` has them, in export's form; ``levels_of`` reads it. Only the
    nodes that compute something were recorded in a call: placeholders, ``get_attr`` nodes and the
    output aren't in the result.

    A pass over the graph may have inserted a node. If its stack has the key ``NO_MODULE``, the node
    belongs to the same calls as the one before it in the result, whatever else its stack has and
    whichever values it uses. If no node comes before it, its stack is ``(ROOT,)``.

    Raises:
        RuntimeError: A node has no ``nn_module_stack``, or an empty one. The message names the node
            and ``nn_module_stack``.

    >>> import torch
    >>> program = torch.export.export(nn.Sequential(nn.ReLU()), (torch.ones(1),))
    >>> for node, stack in stacks_of(program.graph).items():
    ...     print(node, [level.path for level in stack])
    relu ['', '0']
    """
    raise NotImplementedError("unflatten: stacks_of")


def find_borders(call: ModuleCall) -> None:  # step 2
    """Fill in the ``inputs`` and the ``outputs`` of a call.

    Inputs are the values that its nodes use and that it doesn't compute, in the order of first use.
    Outputs are the values that it computes and that a node outside uses, in the graph's order.
    Both are dicts, as in the lesson ``split_module``; the values don't matter here.

    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> first = graph.call_function(abs, (x,))
    >>> second = graph.call_function(max, (first, x))
    >>> output = graph.output(second)
    >>> call = ModuleCall("block", [first, second])
    >>> find_borders(call)
    >>> list(call.inputs), list(call.outputs)
    ([x], [max_1])
    """
    raise NotImplementedError("unflatten: find_borders")


class Outliner:
    """Takes the calls of modules out of a flat graph, one by one.

    After each of them, ``graph`` still computes the same. At the end it is the root's graph.

    Attributes:
        graph: A copy of the flat graph in which state isn't a placeholder, but a ``get_attr`` node.
        stacks: The calls that each node of ``graph`` was recorded in: the result of ``stacks_of``.
        names: For the name of each attribute, all names of the same tensor; layers may share one.
        calls: The calls whose graphs are kept, by the name of the module that runs them.
        bodies: For the path of each module, the keys of its graphs, and the name that runs each.
    """

    def __init__(self, flat: Flat) -> None:  # given
        self.graph = reading_state(flat)
        self.stacks = stacks_of(self.graph)
        self.names = all_names(flat.state)
        self.calls: dict[str, ModuleCall] = {}
        self.bodies: dict[str, dict[Hashable, str]] = defaultdict(dict)
        self.type_name = next((root.type_name for root, *_ in self.stacks.values()), None)

    def take_out_all(self) -> None:  # given
        """Take out all calls: a callee before its callers."""
        for depth in range(max(map(len, self.stacks.values()), default=0) - 1, 0, -1):
            for call in self.calls_at(depth):
                self.take_out(call)
        for node in self.graph.find_nodes(op="get_attr"):
            if not node.users:  # only callees read it
                self.graph.erase_node(node)

    def take_out(self, call: ModuleCall) -> None:  # given
        """Move the nodes of a call into a graph of its own, and let one node call it."""
        find_borders(call)
        for node in build_graph(call, keep_original_node_name=True).find_nodes(op="call_module"):
            node.target = relative_to(call.level.path, str(node.target))
        self.read_state(call)
        self.replace(call, self.name_of(call))

    def calls_at(self, depth: int) -> list[ModuleCall]:  # step 1
        """Return the calls at a depth, in the order of the graph.

        Each has its ``level``, the path of the module as its ``name``, and its ``nodes``.

        The calls that the root makes have depth 1, and the calls that these make have depth 2. A
        call has all nodes that were recorded in it, those of its callees too, if they are still in
        ``graph``.

        The nodes of a call are neighbours, because a module's operations are recorded while it
        runs. If a pass put a ``get_attr`` node among them, skip it: it isn't in ``stacks``, and the
        call continues after it. Two calls of one module have different numbers, so their levels
        differ. If a pass put a caller's node into the middle of a call, each half is a call of its
        own: no node may move past another one, because either may write a buffer that the other
        reads.

        >>> import torch
        >>> model = nn.Sequential(nn.Sequential(nn.ReLU(), nn.Tanh()), nn.Tanh())
        >>> outliner = Outliner(flat_of(torch.export.export(model, (torch.ones(1),))))
        >>> [(call.name, call.nodes) for call in outliner.calls_at(1)]
        [('0', [relu, tanh]), ('1', [tanh_1])]
        >>> [(call.name, call.nodes) for call in outliner.calls_at(2)]
        [('0.0', [relu]), ('0.1', [tanh])]
        """
        raise NotImplementedError("unflatten: Outliner.calls_at")

    def read_state(self, call: ModuleCall) -> None:  # step 2
        """Let the graph of a call read what its module owns.

        For ``build_graph``, the parameter ``block.linear.weight`` is an input like any other. But
        ``block.linear`` owns it, because one of its ``names`` is below the call's path. No caller
        has to pass it: it leaves the ``inputs``, and instead of its placeholder, the call's graph
        has a ``get_attr`` node with the same ``meta``. The target is the first such name, as the
        module knows it. Add the node after all placeholders and before the copies of the call's
        nodes, and note it in ``environment``.

        >>> import torch
        >>> model = nn.Sequential(nn.Linear(2, 2, bias=False))
        >>> outliner = Outliner(flat_of(torch.export.export(model, (torch.ones(1, 2),))))
        >>> (call,) = outliner.calls_at(1)
        >>> find_borders(call)
        >>> graph = build_graph(call)
        >>> outliner.read_state(call)
        >>> [(node.op, node.target) for node in call.graph.nodes][:2]
        [('placeholder', 'input_1'), ('get_attr', 'weight')]
        """
        raise NotImplementedError("unflatten: Outliner.read_state")

    def replace(self, call: ModuleCall, name: str) -> Node:  # step 3
        """Put one node in the place of a call's nodes, and return it.

        It is a ``call_module`` node with the target ``name``, and its arguments are the call's
        inputs. Insert it after the call's last node: a ``get_attr`` node among the nodes may be one
        of its inputs. ``values_of`` of the lesson ``split_module`` adds a node for each output. Use
        these wherever the outputs were used, then erase the call's nodes, even if there are no
        outputs. The new nodes belong to the calls around this one, the levels before
        ``call.level``: note their ``stacks``. The call's first node may have been recorded deeper,
        in a callee.

        >>> import torch
        >>> program = torch.export.export(nn.Sequential(nn.ReLU()), (torch.ones(1),))
        >>> outliner = Outliner(flat_of(program))
        >>> (call,) = outliner.calls_at(1)
        >>> find_borders(call)
        >>> outliner.replace(call, "0").format_node()
        '%_0 : [num_users=1] = call_module[target=0](args = (%input_1,), kwargs = {})'
        >>> list(outliner.graph.nodes)
        [input_1, _0, output]
        """
        raise NotImplementedError("unflatten: Outliner.replace")

    def name_of(self, call: ModuleCall) -> str:  # given
        """Return the name of the module that runs a call.

        An earlier call of the module that does the same has the same name. Other calls are noted in
        ``calls``, under a new name: the first body of a module has the path as its name, the next
        ``path@1``, then ``path@2``, and so on.
        """
        bodies = self.bodies[call.level.path]
        new = f"{call.level.path}@{len(bodies)}" if bodies else call.level.path
        name = bodies.setdefault(graph_key(call.graph, map_arg), new)
        self.calls.setdefault(name, call)
        return name


class InterpreterModule(nn.Module):
    """A module that runs its graph with ``Interpreter`` of the lesson ``interpreter``.

    torch's own interpreter can't run a graph of yours.

    Args:
        graph: The graph; its placeholders are the module's parameters.
        ty: The class of the eager module that it replaces, as ``type_name()`` returns it.
        owner: The module whose attributes the graph reads: ``_owner``. Without it, this module.

    In torch: the class of the same name; there, a module owns what its graph reads.

    >>> import torch
    >>> double = InterpreterModule(torch.fx.symbolic_trace(lambda x: x + x).graph)
    >>> double.finalize()
    >>> double(torch.tensor(2)), double(x=torch.tensor(3))
    (tensor(4), tensor(6))
    """

    def __init__(self, graph: Graph, ty: str | None = None, owner: Any = None) -> None:  # given
        super().__init__()
        self.graph, self._ty = graph, ty
        # In a tuple: nn.Module would register the owner itself as a child.
        self._owners = (self if owner is None else owner,)

    @property
    def _owner(self) -> nn.Module:  # given
        return self._owners[0]

    def type_name(self) -> str | None:  # given
        """Return the class of the eager module, as export recorded it."""
        return self._ty

    def finalize(self) -> None:  # given
        """Check the graph, and note its parameters. Call it again after editing the graph."""
        self.graph.owning_module = self._owner  # type: ignore[assignment]
        self.graph.lint()
        self.arg_names = [str(node.target) for node in self.graph.find_nodes(op="placeholder")]
        parameters = [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in self.arg_names]
        self._signature = Signature(parameters)

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # step 4
        """Run the graph with a value for each placeholder, passed by position or by name.

        Submodules and state come from ``self._owner``.

        Raises:
            TypeError: A value is missing, or is one too many.
        """
        raise NotImplementedError("unflatten: InterpreterModule.forward")


class UnflattenedModule(InterpreterModule):
    """The root of the tree: it takes the eager model's arguments and returns its results.

    ``in_spec`` is the structure of ``(args, kwargs)``, ``out_spec`` that of the result.
    """

    def __init__(self, outliner: Outliner, flat: Flat) -> None:  # given
        super().__init__(outliner.graph, outliner.type_name)
        self.in_spec, self.out_spec = flat.in_spec, flat.out_spec
        self.range_constraints = flat.ranges

    def flat_inputs(self, args: Any, kwargs: dict[str, Any]) -> list[Any]:  # given
        """Return the leaves of the arguments, and refuse those that the program can't take."""
        leaves = input_leaves(args, kwargs, self.in_spec)
        check_inputs(self.graph, leaves, self.range_constraints)
        return [leaf for _, leaf in leaves]

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # step 4
        """Run the graph on ``flat_inputs``, and give the result the structure ``out_spec``."""
        raise NotImplementedError("unflatten: UnflattenedModule.forward")


def make_modules(tree: nn.Module, calls: Mapping[str, ModuleCall]) -> dict[str, Any]:  # step 5
    """Return the tree under the name ``""``, and a module for each call under the call's name.

    The module at ``path`` owns the state. ``path@1`` runs another graph on the same state, so the
    module at ``path`` is its ``owner``. In ``calls``, ``path`` comes before ``path@1``.
    """
    raise NotImplementedError("unflatten: make_modules")


def attach(  # step 5
    modules: dict[str, Any], state: Mapping[str, Attribute], paths: Iterable[str]
) -> None:
    """Register all modules and all state below the tree, ``modules[""]``.

    ``paths`` are the modules of the eager model. Register children in their order, and then those
    that aren't listed. A path without a call, such as a list of layers, gets a plain ``nn.Module``,
    and so does a missing parent. Among the ``paths``, leave out those with an ``@``: these are
    calls. ``register`` registers state, under its last name on the module that owns it.
    """
    raise NotImplementedError("unflatten: attach")
