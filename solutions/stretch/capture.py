"""Unlike the core: what a model writes comes back, and a backward is captured too.

- ``program`` makes a real ``ExportedProgram``, which ``torch.export.unflatten`` and everything else
  of export takes. Buffers and inputs that the model writes are outputs of it: batch norm in
  training, a cache. The core's program drops these writes.
- ``capture_joint`` records forward and backward in one graph, as AOTAutograd does for a compiler.
- Inputs for which a capture would be wrong are refused by name: sparse tensors, subclasses of
  ``Tensor``, tensors with symbolic sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, ModuleCallSignature
from torch.export import graph_signature as signatures
from torch.utils._pytree import tree_flatten, tree_leaves

from .. import capture as core
from ..capture import CaptureError, input_specs, lift_constants, module_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch._ops import OpOverload

PLAIN = (Tensor, nn.Parameter, nn.Buffer)


class Recorder(core.Recorder):
    """Unlike the core's: it knows which inputs were written, and refuses special tensors.

    Attributes:
        state: The tensors of the parameters and buffers, by name. A buffer that the model replaces
            by another tensor is that other tensor after the run.
        leaves: The leaves of the arguments.
    """

    def lift(self, name: str, value: Any) -> Any:
        """Make a tensor an input, unless a graph of plain tensors would be wrong for it."""
        if isinstance(value, Tensor):
            refuse_special(name, value)
        return super().lift(name, value)

    def lift_state(self, model: Callable[..., Any]) -> dict[str, Tensor]:
        """Lift parameters and buffers, and keep their tensors."""
        self.state = super().lift_state(model)
        return self.state

    def lift_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Lift the arguments, and keep their leaves."""
        lifted = super().lift_arguments(args, kwargs)
        self.leaves = tree_leaves(lifted)
        return lifted

    def written_inputs(self) -> list[tuple[signatures.OutputKind, str, Any]]:
        """Return the kind, the target and the new value of each input that was written."""
        placeholders = [
            each.name
            for each in self.graph.find_nodes(op="placeholder")
            if each.target not in self.constants
        ]
        kinds = signatures.OutputKind
        owned = [(kinds.BUFFER_MUTATION, name, each) for name, each in self.state.items()]
        names = placeholders[len(owned) :]
        given = [
            (kinds.USER_INPUT_MUTATION, name, each)
            for name, each in zip(names, self.leaves, strict=True)
        ]
        return [
            (kind, target, self.node_of(tensor))
            for (kind, target, tensor), name in zip([*owned, *given], placeholders, strict=True)
            if isinstance(tensor, Tensor) and self.node_of(tensor).name != name
        ]


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
    recorder = Recorder(table or {})
    recorder.finish(recorder.run(model, args, kwargs or {}))
    return core.as_module(recorder)


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
    recorder = Recorder(table or {})
    trained = [name for name, each in model.named_parameters() if each.requires_grad]

    with torch.enable_grad():
        loss = recorder.run(model, args, kwargs or {})
        with recorder.fake_mode, recorder:
            wanted = [recorder.state[name] for name in trained]
            gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
    recorder.finish((loss, list(gradients)))
    return core.as_module(recorder)


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
    written = recorder.written_inputs()
    results = [
        (signatures.OutputKind.USER_OUTPUT, None, leaf) for leaf in recorder.as_nodes(leaves)
    ]
    recorder.finish(tuple(node for _, _, node in [*written, *results]))
    lift_constants(recorder.graph)
    state = model.state_dict(keep_vars=True)
    others = {name: each for name, each in model.named_buffers() if name not in state}
    inputs = (args, kwargs or {})
    return ExportedProgram(
        torch.fx.GraphModule(nn.Module(), recorder.graph),  # type: ignore[arg-type]
        recorder.graph,  # type: ignore[arg-type]
        signatures.ExportGraphSignature(
            input_specs(recorder, model),
            [
                signatures.OutputSpec(kind, argument(leaf), to)
                for kind, to, leaf in [*written, *results]
            ],
        ),
        state,
        {},
        module_calls(model, ModuleCallSignature([], [], tree_flatten(inputs)[1], out_spec)),
        inputs,
        {**others, **recorder.constants},
    )


def argument(leaf: Any) -> Any:
    """Return what a signature says of an output: the name of its node, or the constant."""
    if isinstance(leaf, torch.fx.Node):
        return signatures.TensorArgument(leaf.name)
    return signatures.ConstantArgument("", leaf)
