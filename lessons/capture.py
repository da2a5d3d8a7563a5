"""Record the operators that torch runs, below the modules.

You call the model with *fake* tensors, which have a shape, a dtype and strides, but no data. It
runs as usual, and torch's dispatcher hands each operator to your dispatch mode, below modules and
autograd. The mode adds a node for it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten

from given import capture as given
from given.capture import Attribute, CaptureError

from .code import GraphModule
from .graph import Graph, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch._ops import OpOverload

aten = torch.ops.aten
DETACHES = (aten.detach.default, aten.alias.default)


def owned(model: Callable[..., Any]) -> Iterator[tuple[str, str, Tensor]]:  # given
    """Yield ``"p"`` or ``"b"``, the name and the tensor of each parameter, then of each buffer.

    A tied parameter comes once. A function owns nothing.
    """
    if isinstance(model, nn.Module):
        yield from (("p", *item) for item in model.named_parameters())
        yield from (("b", *item) for item in model.named_buffers())


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
        args: The positional arguments. Of a tensor, only shape, dtype and strides matter.
        kwargs: The keyword arguments.
        table: Decompositions: from an operator to a function that computes the same with smaller
            ones. torch's own are ``torch.export.default_decompositions()``.

    Returns:
        A module that takes the parameters, the buffers, then the leaves of ``args`` and
        ``kwargs``, and returns what the model returns. It trains like the model, unless you
        captured it under ``torch.no_grad()``. The model isn't changed.

    Raises:
        CaptureError: The model asks for data, or for something else that a graph can't hold.

    In torch: ``make_fx(model, tracing_mode="fake")``, and ``torch.export.export``.

    >>> flat = capture(nn.Linear(3, 2), (torch.ones(4, 3),))
    >>> [(node.name, str(node.target)) for node in flat.graph.find_nodes(op="call_function")]
    [('t', 'aten.t.default'), ('addmm', 'aten.addmm.default')]
    """
    recorder = Recorder(table or {})
    recorder.finish(recorder.run(model, args, kwargs or {}))
    return as_module(recorder)


def as_module(recorder: Recorder) -> GraphModule:  # given
    """Return a module that runs the recorded graph and holds its constants."""
    root: Any = SimpleNamespace(**recorder.constants)
    return GraphModule(root, recorder.graph)


class Recorder(TorchDispatchMode):
    """Records each operator that is dispatched while the mode is on.

    Args:
        table: The decompositions, from operator to function.

    Attributes:
        graph: The nodes so far.
        fake_mode: Makes fake tensors, and computes with them.
        nodes: From a tensor's ``id`` to the tensor and its node. The tensor is kept, so Python
            can't give its ``id`` to another one.
        state: From a placeholder's name to the name of the parameter or buffer.
        constants: From the target of a ``get_attr`` node to the tensor.
        running: The modules that are running, outermost first, as items of ``nn_module_stack``.

    In torch: ``torch.fx.experimental.proxy_tensor.ProxyTorchDispatchMode``.
    """

    def __init__(self, table: Mapping[OpOverload, Callable[..., Any]]) -> None:  # given
        super().__init__()
        self.graph = Graph()
        self.table: dict[Any, Callable[..., Any]] = {**given.RULES, **dict(table)}
        self.fake_mode = given.FakeMode(allow_non_fake_inputs=True)
        self.nodes: dict[int, tuple[Tensor, Node]] = {}
        self.state: dict[str, str] = {}
        self.constants: dict[str, Tensor] = {}
        self.running: list[tuple[str, tuple[str, str]]] = []

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # given
        """Record one operator, or decompose it: the dispatcher calls this instead of a kernel.

        While it runs, the mode is off. So ``func(*args)`` isn't recorded: it computes the result,
        on fake tensors.
        """
        # torch asks for a device, say, where an error would end Python; or somebody names a block.
        if func.namespace in ("prim", "profiler"):
            return func(*args, **(kwargs or {}))
        args, kwargs = given.map_tensors(self.known, (args, kwargs or {}))
        result = self.decompose(func, args, kwargs)
        if result is not NotImplemented:
            return result
        # Of a value that autograd doesn't follow, a detach changes nothing: no node.
        if func in DETACHES and not given.is_followed(self.node_of(args[0]), self.constants):
            return self.bind(func(*args, **kwargs), self.node_of(args[0]))
        if func is aten.copy_.default:  # a batch norm gives a buffer its new value (given.RULES)
            return self.bind(args[0], self.node_of(args[1]))
        if func._schema.is_mutable:
            raise CaptureError(f"writes by {func}: call the operator that returns the result")
        return self.record(func, *args, **kwargs)

    def add_node(self, op: str, target: Any, args: Any = (), kwargs: Any = None) -> Node:  # step 1
        """Add a node, and note which modules are running.

        ``aten.add.Tensor`` is an *overload* of the operator ``add``. ``target.overloadpacket`` is
        the operator, and its ``__name__`` names the node. Other targets, such as
        ``operator.getitem`` or the name of a placeholder, have no packet: pass no name to
        ``create_node``, and the graph finds one.

        ``meta["nn_module_stack"]`` is a dict of the items of ``running``, as they are now.

        >>> recorder = Recorder({})
        >>> recorder.running = [("L__self__", ("", "Net"))]
        >>> node = recorder.add_node("call_function", aten.add.Tensor, (1, 2))
        >>> node, node.meta
        (add, {'nn_module_stack': {'L__self__': ('', 'Net')}})
        """
        raise NotImplementedError("capture: Recorder.add_node")

    def record(self, func: OpOverload, *args: Any, **kwargs: Any) -> Any:  # step 1
        """Add a node for a call, and return the call's result.

        The dispatcher asked you for the result: ``func`` computes it. In the node's arguments,
        nodes take the place of tensors (``as_nodes``).

        >>> recorder = Recorder({})
        >>> with recorder.fake_mode, recorder:
        ...     y = torch.ones(2, 3).sum(0)
        >>> [(str(node.target), node.args) for node in recorder.graph.nodes]
        [('aten.ones.default', ([2, 3],)), ('aten.sum.dim_IntList', (ones, [0]))]
        """
        raise NotImplementedError("capture: Recorder.record")

    def bind(self, result: Any, node: Node) -> Any:  # step 1
        """Remember which node a result belongs to, and return the result.

        The model passes this very tensor to later operators, and ``node_of`` must find its node.
        Keep both in ``nodes``. A tensor that is bound again belongs to the new node.

        ``aminmax`` returns two tensors, and each is used by itself. So each tensor in a tuple or a
        list gets a node for ``operator.getitem(node, position)``. Other items, such as ``None``,
        get none.

        ``meta["val"]`` is the result. A tensor that requires a gradient is detached there
        (``given.detached``): a copy of the graph can't copy autograd's graph.

        >>> recorder = Recorder({})
        >>> with recorder.fake_mode, recorder:
        ...     low, high = torch.ones(2, 3).aminmax()
        >>> recorder.node_of(high), recorder.node_of(high).args, recorder.node_of(high).meta["val"]
        (getitem_1, (aminmax, 1), FakeTensor(..., size=()))
        """
        raise NotImplementedError("capture: Recorder.bind")

    def known(self, tensor: Tensor) -> Tensor:  # step 1
        """Return the fake tensor for a tensor that an operator is called with.

        Most are results of the run, and are in ``nodes``. In ``x * SCALE``, ``SCALE`` is a real
        tensor, which was made outside the run: a constant. ``fake_mode.from_tensor`` returns its
        fake tensor, the same one each time, and so do you. When you see it first, bind the fake
        tensor to a ``get_attr`` node, and keep the real one in ``constants``, as
        ``_tensor_constant0`` and so on.

        Raises:
            CaptureError: The tensor isn't in ``nodes``, but is a ``FakeTensor`` (a class of
                ``torch._subclasses``) all the same: it is of another run.

        >>> scale, recorder = torch.tensor([2.0]), Recorder({})
        >>> with recorder.fake_mode, recorder:
        ...     y = torch.ones(1) * scale * scale
        >>> [node.name for node in recorder.graph.nodes], recorder.constants
        (['ones', '_tensor_constant0', 'mul', 'mul_1'], {'_tensor_constant0': tensor([2.])})
        """
        raise NotImplementedError("capture: Recorder.known")

    def node_of(self, tensor: Tensor) -> Node:  # given
        """Return the node that has a tensor's value."""
        return self.nodes[id(self.known(tensor))][1]

    def as_nodes(self, arguments: Any) -> Any:  # given
        """Return arguments with nodes in place of tensors."""
        return given.map_tensors(self.node_of, arguments)

    def decompose(self, func: OpOverload, args: Any, kwargs: Any) -> Any:  # step 2
        """Compute a call with smaller operators, or return ``NotImplemented``.

        The table may have a rule for the operator: a function that takes the same arguments. Or
        torch may know the operator as a call of others, as it does for ``aten.reshape``: then
        ``func.decompose`` computes it. For the rest, ``func.decompose`` returns
        ``NotImplemented``. A rule may return it too: it declines, and torch isn't asked either.
        For ``NotImplemented``, ``__torch_dispatch__`` records the call itself.

        What a rule calls must be recorded in turn, or decomposed. But the mode is off here.

        >>> recorder = Recorder({aten.sum.default: lambda x: x.reshape(-1).sum(0)})
        >>> with recorder.fake_mode, recorder:
        ...     y = torch.ones(2, 3).sum()
        >>> [str(node.target) for node in recorder.graph.nodes]
        ['aten.ones.default', 'aten.view.default', 'aten.sum.dim_IntList']
        """
        raise NotImplementedError("capture: Recorder.decompose")

    def lift(self, name: str, value: Any) -> Any:  # step 3
        """Add a placeholder for a value, and return what the model gets in its place.

        For a tensor, that is the fake copy that ``self.fake`` makes. A number stays as it is, so
        the graph is right only for this number. It gets a placeholder all the same, so that the
        others keep their places. Either is bound to its placeholder: ``bind`` notes its
        ``meta["val"]``.

        ``given.refuse_hidden(name, value)`` refuses an object that holds tensors but isn't a
        pytree.

        A name such as ``p_block-1.scale`` isn't one in Python: ``_`` replaces each such character.

        >>> recorder = Recorder({})
        >>> recorder.lift("p_block-1.scale", torch.ones(2)), recorder.lift("input_0", 3)
        (FakeTensor(..., size=(2,)), 3)
        >>> recorder.graph.find_nodes(op="placeholder")
        [p_block_1_scale, input_0]
        """
        raise NotImplementedError("capture: Recorder.lift")

    def fake(self, tensor: Tensor) -> Tensor:  # given
        """Return a fake copy of a tensor. Two copies of one tensor are two tensors."""
        return self.fake_mode.from_tensor(given.same_memory(tensor))

    def lift_state(self, model: Callable[..., Any]) -> dict[str, Tensor]:  # step 3
        """Lift a model's parameters and buffers; return their fake tensors by name.

        ``owned`` lists them. Note in ``state`` what each placeholder is. Its key is the name of
        the node: ``a.b`` and ``a_b`` both ask for ``p_a_b``, and the graph calls the second
        ``p_a_b_1``.

        >>> recorder = Recorder({})
        >>> list(recorder.lift_state(nn.Sequential(nn.Linear(2, 2)))), list(recorder.graph.nodes)
        (['0.weight', '0.bias'], [p_0_weight, p_0_bias])
        >>> recorder.state
        {'p_0_weight': '0.weight', 'p_0_bias': '0.bias'}
        """
        raise NotImplementedError("capture: Recorder.lift_state")

    def lift_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # step 3
        """Lift each leaf of the arguments; return ``(args, kwargs)`` with the lifted ones.

        Lists, tuples and dicts in each other are a *pytree*, and what they hold are its *leaves*.
        ``leaves, structure = tree_flatten(tree)`` takes it apart;
        ``torch.utils._pytree.tree_unflatten(leaves, structure)`` puts it together again.

        >>> recorder = Recorder({})
        >>> recorder.lift_arguments((torch.ones(2), [3]), {"scale": torch.ones(())})
        ((FakeTensor(..., size=(2,)), [3]), {'scale': FakeTensor(..., size=())})
        >>> list(recorder.graph.nodes)
        [input_0, input_1, input_2]
        """
        raise NotImplementedError("capture: Recorder.lift_arguments")

    def finish(self, result: Any) -> None:  # step 3
        """Add the output node, and erase each call and constant that no result needs.

        Inputs and random operators stay: ``eliminate_dead_code`` of the graph knows them.
        ``given.refuse_hidden("the result", result)`` refuses a result that isn't a pytree but
        holds tensors.
        """
        raise NotImplementedError("capture: Recorder.finish")

    def run(
        self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:  # given
        """Run a model on fake tensors with the mode on, and return its result.

        ``given.functionalized`` turns each write of the model into an operator that returns the
        new value. What the inputs are afterwards is left out.
        """
        inputs = self.lift_state(model), *self.lift_arguments(args, kwargs)
        with given.prepared(model, self.constants), self.fake_mode, self, self.module_stacks(model):
            result, _ = given.functionalized(partial(self.call, model), *inputs)
        return result

    def call(
        self, model: Callable[..., Any], state: dict[str, Tensor], args: Any, kwargs: Any
    ) -> Any:  # given
        """Call a model with the lifted tensors in place of its parameters and buffers."""
        if isinstance(model, nn.Module):
            return torch.func.functional_call(model, state, args, kwargs)
        return model(*args, **kwargs)

    @contextmanager
    def module_stacks(self, model: Callable[..., Any]) -> Iterator[None]:  # step 4
        """While the block runs, keep in ``running`` the modules that are running, outermost first.

        During the call of ``net.0``, the last item is ``given.stack_item("net.0", 0, module)``;
        the number counts the calls of this path. A module with two paths has the first one. The
        first item is that of the model itself, with the path ``""``, even if it is a function. A
        call of a module that has no path of its own, which the model made in its ``forward``, say,
        or of the model itself, repeats the last item.

        torch calls hooks before and after the call of *any* module.
        ``register_module_forward_pre_hook(hook)`` and
        ``register_module_forward_hook(hook, always_call=True)`` of ``torch.nn.modules.module``
        register them. The first hook gets ``(module, args)``, the second ``(module, args,
        result)``; what either returns replaces the arguments or the result, so return ``None``.
        With ``always_call``, the second also runs after an error. Each of the two functions
        returns a handle: call its ``remove()`` after the block, even after an error.
        """
        raise NotImplementedError("capture: Recorder.module_stacks")


@dataclass
class Flat:  # given
    """A flat graph, and what the lesson ``unflatten`` needs to give it its module tree back.

    Attributes:
        graph: The graph. Its constants are placeholders too, and its output is a tuple of leaves.
        names: From the name of each placeholder that isn't an argument of the user's to the name
            of its attribute: ``{"p_0_weight": "0.weight"}``.
        state: Each attribute by its name, in the model's order. A tensor that has two names in the
            model is there twice.
        paths: The paths of all modules; the root's is ``""``.
        in_spec: The structure of ``(args, kwargs)``.
        out_spec: The structure of the result.
        ranges: The range of each size that isn't a number. In what ``capture`` records, all sizes
            are numbers.

    In torch: ``torch.export.ExportedProgram``.
    """

    graph: Graph
    names: dict[str, str]
    state: dict[str, Attribute]
    paths: list[str]
    in_spec: TreeSpec
    out_spec: TreeSpec
    ranges: dict[Any, Any] = field(default_factory=dict)


def capture_flat(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    table: Mapping[OpOverload, Callable[..., Any]] | None = None,
) -> Flat:  # given
    """Capture a model together with its state, so that ``unflatten`` can make a module of it.

    Args:
        model: The model.
        args: As for ``capture``.
        kwargs: As for ``capture``.
        table: As for ``capture``.

    In torch: ``torch.export.export(model, args, kwargs).run_decompositions(table)``.

    >>> flat = capture_flat(nn.Linear(3, 2), (torch.ones(4, 3),))
    >>> flat.names, list(flat.state), flat.paths
    ({'p_weight': 'weight', 'p_bias': 'bias'}, ['weight', 'bias'], [''])
    """
    recorder = Recorder(table or {})
    leaves, out_spec = tree_flatten(recorder.run(model, args, kwargs or {}))
    recorder.finish(tuple(leaves))
    constants = given.lift_constants(recorder.graph, recorder.constants)
    state = given.state_of(model)
    for name in constants.values():
        state[name] = Attribute("constant", recorder.constants[name])
    paths = [path for path, _ in model.named_modules()]
    in_spec = tree_flatten((args, kwargs or {}))[1]
    return Flat(recorder.graph, recorder.state | constants, state, paths, in_spec, out_spec)
