"""Unlike the core: real programs of torch, with the writes that come back, and a backward."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export import graph_signature as signatures
from torch.utils._pytree import tree_flatten, tree_leaves

from given.capture import (
    Attribute,
    CaptureError,
    functionalized,
    lift_constants,
    prepared,
    refuse_hidden,
    state_of,
)
from given.graph import has_effect

from ... import capture as core

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch._ops import OpOverload

aten = torch.ops.aten
INPUTS, OUTPUTS = signatures.InputKind, signatures.OutputKind
KINDS = {
    "parameter": (INPUTS.PARAMETER, OUTPUTS.PARAMETER_MUTATION),
    "buffer": (INPUTS.BUFFER, OUTPUTS.BUFFER_MUTATION),
    "constant": (INPUTS.CONSTANT_TENSOR, OUTPUTS.BUFFER_MUTATION),  # no constant is written
}
PLAIN = (Tensor, nn.Parameter, nn.Buffer)


class Recorder(core.Recorder):
    """Unlike the core's: it knows which inputs were written, and refuses special tensors.

    Attributes:
        lifted: The tensor of each input, by the name of its placeholder.
        after: What the model has left of each, in the same order.
    """

    def __init__(self, table: Mapping[OpOverload, Callable[..., Any]]) -> None:
        super().__init__(table)
        self.lifted: dict[str, Tensor] = {}
        self.after: list[Tensor] = []

    def lift(self, name: str, value: Any) -> Any:
        """Make a tensor an input, unless a graph of plain tensors would be wrong for it."""
        if not isinstance(value, Tensor):
            return super().lift(name, value)
        refuse_special(name, value)
        lifted = super().lift(name, value)
        self.lifted[self.node_of(lifted).name] = lifted
        return lifted

    def run(self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a model as the core does, and note what it leaves in its inputs."""
        inputs = self.lift_state(model), *self.lift_arguments(args, kwargs)
        with prepared(model, self.constants), self.fake_mode, self, self.module_stacks(model):
            result, after = functionalized(partial(self.call, model), *inputs)
        self.after = [each for each in tree_leaves(after) if isinstance(each, Tensor)]
        return result

    def finish(self, result: Any) -> None:
        """Add the output node, and erase each node that no result needs."""
        refuse_hidden("the result", result)
        self.close(self.as_nodes(result))

    def close(self, outputs: Any) -> None:
        """Add the output node; of a graph of torch too, erase only nodes without an effect."""
        self.graph.output(outputs)
        self.graph.eliminate_dead_code(
            lambda node: node.op in ("placeholder", "output") or has_effect(node)
        )

    def written(self) -> dict[str, Any]:
        """Return the node of the new value of each input that the model wrote, by its name.

        A signature tells values apart by their nodes, so a value that two inputs have is cloned.
        """
        nodes: dict[Any, str] = {}
        for name, tensor in zip(self.lifted, self.after, strict=True):
            node: Any = self.node_of(tensor)
            if node in nodes:
                node = self.cloned(node)
            if node.name != name:
                nodes[node] = name
        return {name: node for node, name in nodes.items()}

    def cloned(self, node: Any) -> Any:
        """Add a node that clones the value of another."""
        clone = self.add_node("call_function", aten.clone.default, (node,))
        clone.meta["val"] = node.meta["val"]
        return clone


def refuse_special(name: str, tensor: Tensor) -> None:
    """Raise an error for a tensor whose operators aren't those of a plain one."""
    if tensor.layout is not torch.strided:
        raise CaptureError(f"{name} is {tensor.layout}: capture with tensor.to_dense()")
    if type(tensor) not in PLAIN:
        kind = type(tensor).__name__
        raise CaptureError(f"{name} is a {kind}, a subclass of Tensor: pass a plain tensor")


def capture(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    table: Mapping[OpOverload, Callable[..., Any]] | None = None,
) -> nn.Module:
    """Return the operators that a call of a model runs, as the core does."""
    return captured(Recorder(table or {}), model, args, kwargs)


def captured(recorder: Recorder, model: Callable[..., Any], args: Any, kwargs: Any) -> nn.Module:
    """Run a model with a recorder, and return a module that runs the recorded graph."""
    recorder.finish(recorder.run(model, args, kwargs or {}))
    return core.as_module(recorder)


class JointRecorder(Recorder):
    """Calls the model, then computes the gradients of its result.

    Args:
        table: As for ``Recorder``.
        trained: The names of the parameters.
    """

    def __init__(self, table: Mapping[OpOverload, Callable[..., Any]], trained: list[str]) -> None:
        super().__init__(table)
        self.trained = trained

    def call(
        self, model: Callable[..., Any], state: dict[str, Tensor], args: Any, kwargs: Any
    ) -> Any:
        """Return the loss and a list of the gradients."""
        wanted = [state[name] for name in self.trained]
        loss = super().call(model, state, args, kwargs)
        with torch._C.DisableTorchFunction():  # its result isn't detached: nothing follows it
            return loss, list(torch.autograd.grad(loss, wanted, allow_unused=True))


def capture_joint(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    table: Mapping[OpOverload, Callable[..., Any]] | None = None,
) -> nn.Module:
    """Return forward and backward of a model whose result is a loss, as one flat graph.

    The model returns a tensor of one element. The arguments are those of ``capture``.

    Returns:
        A module that takes what a capture takes, and returns the loss and a list of the gradients
        of the parameters that require one, in the model's order; ``None`` for an unused one.

    In torch: ``torch._functorch.aot_autograd.aot_export_joint_simple``.

    >>> class Loss(nn.Linear):
    ...     def forward(self, x):
    ...         return super().forward(x).sum()
    >>> model = Loss(2, 1)
    >>> loss, gradients = capture_joint(model, (torch.ones(3, 2),))(
    ...     *model.parameters(), torch.ones(3, 2)
    ... )
    >>> gradients
    [tensor([[3., 3.]]), tensor([3.])]
    """
    trained = [name for name, each in model.named_parameters() if each.requires_grad]
    with torch.enable_grad():
        return captured(JointRecorder(table or {}, trained), model, args, kwargs)


def program(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    table: Mapping[OpOverload, Callable[..., Any]] | None = None,
) -> ExportedProgram:
    """Capture a model as an ``ExportedProgram`` of torch.

    Its first outputs are the new values of the buffers and inputs that the model writes.

    In torch: ``torch.export.export(model, args, kwargs).run_decompositions(table)``.

    >>> flat = program(nn.BatchNorm1d(2), (torch.ones(3, 2),))
    >>> [spec.target for spec in flat.graph_signature.output_specs]
    ['running_mean', 'running_var', 'num_batches_tracked', None]
    """
    recorder = Recorder(table or {})
    recorder.graph = torch.fx.Graph()  # type: ignore[assignment]
    leaves, out_spec = tree_flatten(recorder.run(model, args, kwargs or {}))
    refuse_hidden("the result", leaves)
    written, results = recorder.written(), recorder.as_nodes(leaves)
    recorder.close((*written.values(), *results))
    names = recorder.state | lift_constants(recorder.graph, recorder.constants)
    state = state_of(model)
    for name in set(names.values()) - set(state):
        state[name] = Attribute("constant", recorder.constants[name])
    outputs: list[Any] = [(*mutation(name, names, state), node) for name, node in written.items()]
    outputs += [(OUTPUTS.USER_OUTPUT, None, leaf) for leaf in results]
    saved = model.state_dict(keep_vars=True)
    inputs = args, kwargs or {}
    placeholders = recorder.graph.find_nodes(op="placeholder")
    return ExportedProgram(
        torch.fx.GraphModule(nn.Module(), recorder.graph),  # type: ignore[arg-type]
        recorder.graph,  # type: ignore[arg-type]
        signatures.ExportGraphSignature(
            [input_spec(node, names, state) for node in placeholders],
            [signatures.OutputSpec(kind, argument(leaf), to) for kind, to, leaf in outputs],
        ),
        saved,
        {},
        module_calls(model, tree_flatten(inputs)[1], out_spec),
        inputs,
        {name: each.value for name, each in state.items() if name not in saved},
    )


def module_calls(model: nn.Module, in_spec: Any, out_spec: Any) -> list[ModuleCallEntry]:
    """Return what a program says of the calls of modules: only the root's has a signature."""
    root = ModuleCallSignature([], [], in_spec, out_spec)
    paths = [path for path, _ in model.named_modules() if path]
    return [ModuleCallEntry("", root), *map(ModuleCallEntry, paths)]


def input_spec(
    node: Any, names: dict[str, str], state: dict[str, Attribute]
) -> signatures.InputSpec:
    """Return what a signature says of a placeholder."""
    argument = signatures.TensorArgument(node.name)
    if node.name not in names:
        return signatures.InputSpec(INPUTS.USER_INPUT, argument, None)
    name = names[node.name]
    persistent = state[name].is_saved if state[name].kind == "buffer" else None
    return signatures.InputSpec(KINDS[state[name].kind][0], argument, name, persistent)


def mutation(
    placeholder: str, names: dict[str, str], state: dict[str, Attribute]
) -> tuple[signatures.OutputKind, str]:
    """Return the kind and the target of an output that is the new value of an input."""
    if placeholder not in names:
        return OUTPUTS.USER_INPUT_MUTATION, placeholder
    return KINDS[state[names[placeholder]].kind][1], names[placeholder]


def argument(leaf: Any) -> Any:
    """Return what a signature says of an output: the name of its node, or the constant."""
    if isinstance(leaf, torch.fx.Node):
        return signatures.TensorArgument(leaf.name)
    return signatures.ConstantArgument("", leaf)
