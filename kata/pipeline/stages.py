"""The model, cut into stages, each of them a module that the engine can run."""

from __future__ import annotations

import importlib
from bisect import bisect_right
from operator import attrgetter

from torch import Tensor, nn
from torch.fx import GraphModule, Node, symbolic_trace

from kata.pipeline.cuts import calls_of, cuts_for
from kata.pipeline.plan import PipelineError, Plan


def split_into_stages(plan: Plan, model: nn.Module) -> GraphModule:
    """Trace and cut a model with the ``split_module`` that the plan names.

    Raises:
        PipelineError: it is not written yet, or the model cannot be cut into so many stages.
    """
    split_module = importlib.import_module(f"{plan.impl}.split_module").split_module
    m = symbolic_trace(model)
    cuts = cuts_for(m, plan.stages)
    position = {node: number for number, node in enumerate(calls_of(m))}
    try:
        split: GraphModule = split_module(m, model, lambda node: bisect_right(cuts, position[node]))
    except NotImplementedError as error:
        raise PipelineError(
            f"lessons/split_module is not written yet ({error}): "
            "finish the lesson, or run the reference with --impl solutions"
        ) from error
    return split


class Stage(nn.Module):
    """One submodule of a split model, and the parameters that the outer graph passes to it."""

    def __init__(self, split: GraphModule, call: Node) -> None:
        super().__init__()
        self.submodule: GraphModule = attrgetter(str(call.target))(split)
        self.arguments = [
            attrgetter(str(node.target))(split) if node.op == "get_attr" else None
            for node in call.all_input_nodes
        ]
        # The engine scales the gradients of the parameters that it finds on the module.
        for position, argument in enumerate(self.arguments):
            if isinstance(argument, nn.Parameter):
                self.register_parameter(f"argument_{position}", argument)

    def forward(self, value: Tensor) -> Tensor:
        """Put the value where the outer graph puts what travels."""
        # A clone: some models work in place, and what was received belongs to the engine.
        received = value.clone()
        # The engine sends only what is contiguous: values forward, gradients back.
        if received.requires_grad:
            received.register_hook(Tensor.contiguous)
        result: Tensor = self.submodule(*[received if a is None else a for a in self.arguments])
        return result.contiguous()


def stages_of(split: GraphModule) -> list[Stage]:
    return [Stage(split, call) for call in split.graph.nodes if call.op == "call_module"]
