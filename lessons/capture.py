"""Record the operators that torch runs, below the modules.

``symbolic_trace`` calls a model with proxies, so it fails at ``if x.shape[0] > 2``. Here you call
the model with *fake* tensors, which have a shape, a dtype and strides, but no data. The model runs
as usual, and torch's dispatcher passes each operation to your dispatch mode: below modules and
autograd, as one operator of ``aten``. The mode adds a node for it.
"""

from __future__ import annotations

import copy
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_stack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.export import ModuleCallEntry, ModuleCallSignature
from torch.export import graph_signature as signatures
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from .code import GraphModule
from .graph import Graph, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch._ops import OpOverload

aten = torch.ops.aten


def storage_id(tensor: Tensor) -> int:  # given
    """Return a number for a tensor's memory; tensors that share memory have the same number."""
    return tensor.untyped_storage()._cdata


def window(tensor: Tensor) -> tuple[Any, ...]:  # given
    """Return the part of its memory that a tensor covers: its shape, its strides and its offset.

    >>> window(torch.zeros(4, 6)[1:, ::2])
    ([3, 3], [6, 2], 6)
    """
    return list(tensor.shape), list(tensor.stride()), tensor.storage_offset()


def capture(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    table: Mapping[OpOverload, Callable[..., Any]] | None = None,
) -> GraphModule:  # given
    """Return the operators that a call of a model runs, as a flat graph.

    Args:
        model: A module, or a function.
        args: The positional arguments. Only the shapes, dtypes and strides of tensors matter.
        kwargs: The keyword arguments.
        table: From an operator to a function that computes the same with smaller ones, such as
            ``torch.export.default_decompositions()``.

    Returns:
        A module that takes the parameters, the buffers, then the leaves of ``args`` and
        ``kwargs``, and returns what the model returns. The model isn't changed.

    Raises:
        CaptureError: The model asks for data, or for something else that a graph can't hold.

    In torch: ``make_fx(model, tracing_mode="fake")``, and ``torch.export.export``.

    >>> flat = capture(nn.Linear(3, 2), (torch.ones(4, 3),))
    >>> [(node.name, str(node.target)) for node in flat.graph.find_nodes(op="call_function")]
    [('t', 'aten.t.default'), ('addmm', 'aten.addmm.default')]
    """
    recorder = Recorder(table or {})
    result = recorder.run(model, args, kwargs or {})
    recorder.finish(result)
    return as_module(recorder)


def as_module(recorder: Recorder) -> GraphModule:  # given
    """Return a module that runs the recorded graph and holds its constants."""
    root: Any = SimpleNamespace(**recorder.constants)
    return GraphModule(root, recorder.graph)


class CaptureError(RuntimeError):  # given
    """The model did something that a graph can't hold; the message names the model's line."""


@dataclass(eq=False)
class Memory:  # given
    """A piece of memory that tensors share.

    Attributes:
        base: The first tensor that used the memory. The graph has its value; views read from it.
        writes: How often the model has written to it.
    """

    base: Tensor
    writes: int = 0


@dataclass(eq=False)
class Value:  # given
    """A tensor of the run, and the node that has its value.

    Attributes:
        tensor: The tensor. While it is held, its ``id`` can't belong to another one.
        node: The node.
        memory: The tensor's memory.
        writes: The value of ``memory.writes`` when the node was up to date.
    """

    tensor: Tensor
    node: Node
    memory: Memory
    writes: int

    def refresh(self, node: Node) -> None:
        """Note the node of the current value."""
        self.node, self.writes = node, self.memory.writes


class Recorder(TorchDispatchMode):
    """Records each operator that is dispatched while the mode is on.

    Args:
        table: The decompositions, from operator to function.

    Attributes:
        graph: The nodes so far.
        values: The ``Value`` of each tensor, by the tensor's ``id``.
        memories: The ``Memory`` of each storage, by the ``storage_id`` of its tensors.
        constants: The tensors that are neither inputs nor state, by the target of their node.
        running: The modules that are running, outermost first, as items of ``nn_module_stack``.

    In torch: ``torch.fx.experimental.proxy_tensor.ProxyTorchDispatchMode``.
    """

    def __init__(self, table: Mapping[OpOverload, Callable[..., Any]]) -> None:  # given
        super().__init__()
        self.graph = Graph()
        self.table: dict[Any, Callable[..., Any]] = {
            aten.lift_fresh.default: aten.lift_fresh_copy.default,
            aten._native_batch_norm_legit.default: batch_norm,
            **dict(table),
        }
        self.fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.values: dict[int, Value] = {}
        self.memories: dict[int, Memory] = {}
        self.constants: dict[str, Tensor] = {}
        self.running: list[tuple[str, tuple[str, str]]] = []

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # given
        """Decompose an operator, or turn its write into a value, or record it.

        While this runs, the mode is off, so ``func(*args)`` computes, on fake tensors.
        """
        if func.namespace == "prim":  # torch asks for a device, say; an error here would end Python
            return func(*args, **(kwargs or {}))
        args, kwargs = tree_map_only(Tensor, self.known, (args, kwargs or {}))
        result = self.decompose(func, args, kwargs)
        if result is not NotImplemented:
            return result
        if func in (aten.detach.default, aten.alias.default):
            return self.bind(compute(func, args, kwargs), self.node_of(args[0]))
        if func._schema.is_mutable:
            return self.write(func, args, kwargs)
        return self.record(func, *args, **kwargs)

    def add_node(self, op: str, target: Any, args: Any = (), kwargs: Any = None) -> Node:
        """Add a node, with a dict of the items of ``running`` as its ``nn_module_stack``.

        A node for an operator has the operator's name, without the overload: ``add`` for
        ``aten.add.Tensor``. That is the ``__name__`` of the operator's ``overloadpacket``.
        """
        raise NotImplementedError(
            "capture: add a node, with a dict of the items of ``running`` as its ``nn_module_stack``"
        )

    def record(self, func: OpOverload, *args: Any, **kwargs: Any) -> Any:
        """Add a node for a call, and return the call's result.

        The node's arguments have nodes in place of tensors (``as_nodes``). ``compute`` computes
        the result; bind it to the node.

        >>> recorder = Recorder({})
        >>> with recorder.fake_mode, recorder:
        ...     y = torch.ones(2, 3).sum(0)
        >>> [(str(node.target), node.args) for node in recorder.graph.nodes]
        [('aten.ones.default', ([2, 3],)), ('aten.sum.dim_IntList', (ones, [0]))]
        """
        raise NotImplementedError("capture: add a node for a call, and return the call's result")

    def bind(self, result: Any, node: Node) -> Any:
        """Bind a result to its node, and return the result.

        ``meta["val"]`` becomes a copy of the result with each tensor detached, because the model
        may later change a tensor's shape in place, or its place in autograd's graph. Add an entry
        in ``values`` for a tensor. Its memory is the one known under its ``storage_id``, or a new
        one. For each tensor in a tuple or list, add a node of ``operator.getitem``, and bind it.

        >>> recorder = Recorder({})
        >>> with recorder.fake_mode, recorder:
        ...     low, high = torch.ones(2, 3).aminmax()
        >>> recorder.node_of(high), recorder.node_of(high).args, recorder.node_of(high).meta["val"]
        (getitem_1, (aminmax, 1), FakeTensor(..., size=()))
        """
        raise NotImplementedError("capture: bind a result to its node, and return the result")

    def known(self, tensor: Tensor) -> Tensor:
        """Return the fake tensor for a tensor that an operator is called with.

        A tensor that has an entry in ``values`` is already a fake one: return it. Any other tensor
        was made outside the run, so it is a constant. Keep it in ``constants``, as
        ``_tensor_constant0`` and so on, and add a ``get_attr`` node that reads it. Its fake tensor
        is ``fake_mode.from_tensor(tensor)``, which returns the same one each time. So a constant
        has one node, however often it is used.

        Raises:
            CaptureError: The tensor is a fake one without an entry in ``values``. Raise the error
                that ``failure`` returns.
        """
        raise NotImplementedError(
            "capture: return the fake tensor for a tensor that an operator is called with"
        )

    def node_of(self, tensor: Tensor) -> Node:  # given
        """Return the node that has a tensor's current value."""
        value = self.values[id(self.known(tensor))]
        if value.writes != value.memory.writes:
            self.read_again(value)
        return value.node

    def as_nodes(self, arguments: Any) -> Any:  # given
        """Return arguments with nodes in place of tensors."""
        return tree_map_only(Tensor, self.node_of, arguments)

    def decompose(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """Compute a call with smaller operators, which are recorded, or return ``NotImplemented``.

        Look up the rule in the table. For an operator that isn't there, use ``func.decompose``: it
        decomposes operators that torch itself computes by calling others, such as
        ``aten.reshape``. It returns ``NotImplemented`` for the rest. A rule may return that too:
        then don't try ``func.decompose``, and the call itself is recorded.

        The mode must be on while a rule runs: ``with self``.

        >>> recorder = Recorder({aten.sum.default: lambda x: x.reshape(-1).sum(0)})
        >>> with recorder.fake_mode, recorder:
        ...     y = torch.ones(2, 3).sum()
        >>> [str(node.target) for node in recorder.graph.nodes]
        ['aten.ones.default', 'aten.view.default', 'aten.sum.dim_IntList']
        """
        raise NotImplementedError(
            "capture: compute a call with smaller operators, which are recorded, or return ``NotImplemented``"
        )

    def lift(self, name: str, value: Any) -> Any:
        """Add a placeholder, bind it to a fake copy of a tensor, and return that copy.

        Return any other value as it is: the run treats it as a constant. Add a placeholder for it
        too, bound to the value. In a placeholder's name, ``_`` replaces what Python doesn't allow
        there.

        >>> recorder = Recorder({})
        >>> recorder.lift("p_block-1.scale", torch.ones(2)), recorder.lift("input_0", 3)
        (FakeTensor(..., size=(2,)), 3)
        >>> recorder.graph.find_nodes(op="placeholder")
        [p_block_1_scale, input_0]
        """
        raise NotImplementedError(
            "capture: add a placeholder, bind it to a fake copy of a tensor, and return that copy"
        )

    def lift_state(self, model: Callable[..., Any]) -> dict[str, Tensor]:
        """Lift a model's parameters and buffers; return their fake tensors by name.

        Lift the parameters first, then the buffers, in the model's order, and a tied tensor only
        once. A placeholder's name is ``p_`` or ``b_`` and then the path. A function has no state.

        >>> recorder = Recorder({})
        >>> list(recorder.lift_state(nn.Sequential(nn.Linear(2, 2)))), list(recorder.graph.nodes)
        (['0.weight', '0.bias'], [p_0_weight, p_0_bias])
        """
        raise NotImplementedError(
            "capture: lift a model's parameters and buffers; return their fake tensors by name"
        )

    def lift_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Lift the leaves of the arguments; return ``(args, kwargs)`` with the lifted ones.

        These are the leaves of the pytree ``(args, kwargs)``. Their placeholders are ``input_0``,
        ``input_1`` and so on.

        >>> recorder = Recorder({})
        >>> recorder.lift_arguments((torch.ones(2), [3]), {"scale": torch.ones(())})
        ((FakeTensor(..., size=(2,)), [3]), {'scale': FakeTensor(..., size=())})
        >>> list(recorder.graph.nodes)
        [input_0, input_1, input_2]
        """
        raise NotImplementedError(
            "capture: lift the leaves of the arguments; return ``(args, kwargs)`` with the lifted ones"
        )

    def finish(self, result: Any) -> None:
        """Add the output node, and erase the nodes whose results aren't used."""
        raise NotImplementedError(
            "capture: add the output node, and erase the nodes whose results aren't used"
        )

    def run(
        self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:  # given
        """Run a model on fake tensors with the mode on, and return its result."""
        state = self.lift_state(model)
        args, kwargs = self.lift_arguments(args, kwargs)
        with unchanged(model), no_fast_path(), self.fake_mode, self, self.module_stacks(model):
            if isinstance(model, nn.Module):
                return torch.func.functional_call(model, state, args, kwargs)
            return model(*args, **kwargs)

    @contextmanager
    def module_stacks(self, model: Callable[..., Any]) -> Iterator[None]:
        """While the block runs, keep in ``running`` the modules that are running, outermost first.

        ``stack_item`` makes an item, such as ``("L__self__net.0", ("net.0", "torch.nn…Linear"))``.
        The root's item is there from the beginning, even for a function. A call of a module below
        the root adds an item; count the calls of each path from 0. A call of any other module, such
        as the root itself, repeats the last item. Remove an item when its call ends, even with an
        error, because the model may catch it.

        ``torch.nn.modules.module`` has hooks for all modules:
        ``register_module_forward_pre_hook(hook)``, and
        ``register_module_forward_hook(hook, always_call=True)``, which is called even after an
        error. Remove both after the block, even after an error.
        """
        raise NotImplementedError(
            "capture: while the block runs, keep in ``running`` the modules that are running, outermost first"
        )

    def write(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """Record a call's write to its first argument as a new value; return that argument.

        Compute the value with ``functional(func)``, and pass it the ``defaults`` besides the
        arguments. Run it with the mode on, because the table may have a rule for it. Then
        ``compute`` the call of ``func`` itself, unrecorded: it refuses any write that eager
        refuses. Finally, store the value.

        An operator with the tag ``torch.Tag.inplace_view``, such as ``t_``, doesn't write to
        memory: it changes which part of its memory a tensor covers. After such an operator, bind
        the tensor to the value's node instead.

        >>> recorder = Recorder({})
        >>> with recorder.fake_mode, recorder:
        ...     y = torch.zeros(2).add_(1).relu_()
        >>> recorder.node_of(y), [str(node.target) for node in recorder.graph.nodes]
        (relu, ['aten.zeros.default', 'aten.add.Tensor', 'aten.relu.default'])
        """
        raise NotImplementedError(
            "capture: record a call's write to its first argument as a new value; return that argument"
        )

    def functional(self, func: OpOverload) -> OpOverload:
        """Return the operator that returns the value which ``func`` writes to its first argument.

        It has the same namespace and name, without the ``_`` at the end. Of the overloads of that
        name, it is the first that writes nothing and ``takes`` the same. So there is no such
        operator if ``func`` writes to several tensors, or to ``out=``.

        Raises:
            CaptureError: There is none. Name ``func`` in the error that ``failure`` returns.

        >>> str(Recorder({}).functional(aten.transpose_.default))
        'aten.transpose.int'
        """
        raise NotImplementedError(
            "capture: return the operator that returns the value which ``func`` writes to its first argument"
        )

    def store(self, target: Tensor, value: Tensor) -> None:
        """Write a value into the part of memory that a tensor covers.

        First convert the value to the dtype of the target (``aten._to_copy``), as eager does. If
        target, value and base have the same ``window``, the value becomes the base's. Otherwise
        ``aten.as_strided_scatter`` writes the value into the base's, at the target's window. In
        both cases, count one more write of the memory, and refresh the base with the new node.

        >>> recorder = Recorder({})
        >>> with recorder.fake_mode, recorder:
        ...     x = torch.zeros(2, 3)
        ...     row = x[0].fill_(1)
        >>> recorder.node_of(x), recorder.node_of(x).args
        (as_strided_scatter, (zeros, fill, [3], [1], 0))
        """
        raise NotImplementedError(
            "capture: write a value into the part of memory that a tensor covers"
        )

    def read_again(self, value: Value) -> None:
        """Refresh a value with the node that has its current value, after a write to its memory.

        If the tensor and its base (``base_of``) have the same ``window``, that is the base's node.
        Otherwise ``aten.as_strided`` reads the tensor's window of the base.

        >>> recorder = Recorder({})
        >>> with recorder.fake_mode, recorder:
        ...     x = torch.zeros(2, 3)
        ...     row = x[1]
        ...     x = x.add_(1)
        >>> recorder.node_of(row), recorder.node_of(row).args
        (as_strided, (add, [3], [1], 3))
        """
        raise NotImplementedError(
            "capture: refresh a value with the node that has its current value, after a write to its memory"
        )

    def base_of(self, tensor: Tensor) -> Tensor:
        """Return the base of a tensor's memory.

        Raises:
            CaptureError: The tensor and its base read the bytes of the memory differently, so
                ``as_strided`` of the base isn't the tensor. Their dtypes differ, or only one of
                them has the conjugate bit or the negative bit (``is_conj()``, ``is_neg()``). Raise
                the error that ``failure`` returns.
        """
        raise NotImplementedError("capture: return the base of a tensor's memory")


def takes(func: OpOverload) -> list[Any]:  # given
    """Return the names and types of an operator's arguments, and its number of results."""
    arguments = [(each.name, str(each.type)) for each in func._schema.arguments]
    return [*arguments, len(func._schema.returns)]


def defaults(func: OpOverload, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return an operator's defaults for the arguments that a call leaves out, by name.

    The dispatcher leaves out an argument that has its default value, but the operator that returns
    the result may have no default for it. The arguments of ``func._schema`` are in order; each has
    a ``name``, a ``default_value``, and ``has_default_value()``.

    >>> defaults(aten.bernoulli_.float, (torch.ones(2),), {"generator": None})
    {'p': 0.5}
    """
    raise NotImplementedError(
        "capture: return an operator's defaults for the arguments that a call leaves out, by name"
    )


def batch_norm(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, *options: Any
) -> tuple[Tensor, ...]:  # given
    """Compute ``aten._native_batch_norm_legit``, but write its two tensors one at a time."""
    norm = aten._native_batch_norm_legit_functional.default
    *results, new_mean, new_variance = norm(x, weight, bias, mean, variance, *options)
    mean.copy_(new_mean)
    variance.copy_(new_variance)
    return tuple(results)


def stack_item(path: str, call: int, module: Any) -> tuple[str, tuple[str, str]]:  # given
    """Return the item of ``nn_module_stack`` for one call of a module, as export writes it."""
    number = f"@{call}" if call else ""
    kind = type(module)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return f"L__self__{path}{number}", (path, name)


@contextmanager
def unchanged(model: Any) -> Iterator[None]:  # given
    """After the block, give each module the attributes, parameters and buffers that it had."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    # ``functional_call`` leaves its tensors in a module that has two names: so copy the dicts too.
    before = [
        {
            name: copy.copy(each) if isinstance(each, dict) else each
            for name, each in vars(module).items()
        }
        for module in modules
    ]
    try:
        yield
    finally:
        for module, attributes in zip(modules, before, strict=True):
            vars(module).clear()
            vars(module).update(attributes)


@contextmanager
def no_fast_path() -> Iterator[None]:
    """While the block runs, make attention run as small operators, as export records it.

    ``torch.backends.mha`` has ``get_fastpath_enabled()`` and ``set_fastpath_enabled(value)``.
    Restore the value after the block, even after an error.
    """
    raise NotImplementedError(
        "capture: while the block runs, make attention run as small operators, as export records it"
    )


def compute(func: OpOverload, args: Any, kwargs: Any) -> Any:
    """Compute an operator on fake tensors.

    Raises:
        CaptureError: The result, or its shape, depends on the data that fake tensors don't have.
            torch raises ``DataDependentOutputException`` or ``DynamicOutputShapeException``, of
            ``torch._subclasses.fake_tensor``; raise the error that ``failure`` returns instead.

    >>> with FakeTensorMode():
    ...     compute(aten.sum.default, (torch.ones(2),), {})
    FakeTensor(..., size=())
    """
    raise NotImplementedError("capture: compute an operator on fake tensors")


def failure(fault: str, way_out: str) -> CaptureError:  # given
    """Return an error that names the model's innermost line: the innermost outside torch."""
    inside = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, torch.__file__))
    for frame, line in walk_stack(None):
        place = f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
        if not place.startswith(inside):
            break
    return CaptureError(f"{place} {fault}: {way_out}")


@dataclass(frozen=True)
class Program:  # given
    """A flat graph and a description of its inputs; ``unflatten`` takes it.

    Attributes:
        graph: The graph. Its constants are placeholders too, and its output is a tuple of leaves.
        graph_signature: What each placeholder and each output is.
        state_dict: The parameters and the persistent buffers, by name.
        constants: The other buffers, and the constants.
        module_call_graph: The root's calling convention, then the paths of all modules.
        range_constraints: Empty, because all sizes are numbers.

    In torch: ``torch.export.ExportedProgram``.
    """

    graph: Graph
    graph_signature: signatures.ExportGraphSignature
    state_dict: dict[str, Any]
    constants: dict[str, Any]
    module_call_graph: list[ModuleCallEntry]
    range_constraints: dict[Any, Any] = field(default_factory=dict)


def program(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    table: Mapping[OpOverload, Callable[..., Any]] | None = None,
) -> Program:  # given
    """Capture a model as a program, which says what each placeholder and each output is.

    Args:
        model: The model.
        args: As for ``capture``.
        kwargs: As for ``capture``.
        table: As for ``capture``.

    In torch: ``torch.export.export(model, args, kwargs).run_decompositions(table)``.

    >>> flat = program(nn.Linear(3, 2), (torch.ones(4, 3),))
    >>> [(spec.kind.name, spec.target) for spec in flat.graph_signature.input_specs]
    [('PARAMETER', 'weight'), ('PARAMETER', 'bias'), ('USER_INPUT', None)]
    """
    recorder = Recorder(table or {})
    leaves, out_spec = tree_flatten(recorder.run(model, args, kwargs or {}))
    recorder.finish(tuple(leaves))
    lift_constants(recorder.graph)
    in_spec = tree_flatten((args, kwargs or {}))[1]
    state = model.state_dict(keep_vars=True)
    others = {name: each for name, each in model.named_buffers() if name not in state}
    return Program(
        recorder.graph,
        signatures.ExportGraphSignature(input_specs(recorder, model), []),
        state,
        {**others, **recorder.constants},
        module_calls(model, ModuleCallSignature([], [], in_spec, out_spec)),
    )


def lift_constants(graph: Graph) -> None:
    """Turn the ``get_attr`` nodes of a graph into its first placeholders, in their order.

    A placeholder keeps the ``meta`` of its ``get_attr`` node.

    >>> recorder = Recorder({})
    >>> scale = torch.tensor(2.0)
    >>> recorder.finish(recorder.run(lambda x: x * scale, (torch.ones(2),), {}))
    >>> lift_constants(recorder.graph)
    >>> recorder.graph.find_nodes(op="placeholder")
    [_tensor_constant0, input_0]
    """
    raise NotImplementedError(
        "capture: turn the ``get_attr`` nodes of a graph into its first placeholders, in their order"
    )


def input_specs(recorder: Recorder, model: nn.Module) -> list[signatures.InputSpec]:
    """Return a spec for each placeholder, which says what it is.

    The constants come first, then parameters, buffers, and the user's inputs. A spec's kind is one
    of ``signatures.InputKind``: ``CONSTANT_TENSOR``, ``PARAMETER``, ``BUFFER``, ``USER_INPUT``. Its
    ``arg`` has the node's name; a ``signatures.TensorArgument`` is enough, even for a number. Its
    ``target`` is the name of the constant, parameter or buffer, and ``None`` for an input. For a
    buffer, ``persistent`` says whether it belongs to the ``state_dict``.
    """
    raise NotImplementedError("capture: return a spec for each placeholder, which says what it is")


def module_calls(model: nn.Module, root: ModuleCallSignature) -> list[ModuleCallEntry]:  # given
    """List the modules by path, first the root with its calling convention."""
    paths = [path for path, _ in model.named_modules() if path]
    return [ModuleCallEntry("", root), *map(ModuleCallEntry, paths)]
