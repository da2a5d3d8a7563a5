"""Around the steps: the root of the tree, which is called like the eager model."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
import torch.fx._pytree as fx_pytree
from torch._export.utils import _check_input_constraints_for_graph
from torch.export import ExportedProgram
from torch.export._tree_utils import reorder_kwargs
from torch.export.exported_program import ModuleCallSignature
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind
from torch.fx import Graph, Node, Proxy
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.utils import _pytree as pytree
from torch.utils._pytree import TreeSpec

from .adapter import FlatArgsAdapter
from .runner import GraphRunner
from .turns import InterpreterModuleDispatcher


class UnflattenedModule(GraphRunner):  # given
    """An exported program as a tree of modules, like the eager model it came from.

    ``unflatten`` makes it, and fills it. It takes the arguments of the eager model, and checks
    them against what was exported: structure, shapes and ranges.

    Args:
        export_module: the program; the module keeps its signature and its constraints.
        flat_args_adapter: what to do with arguments of another structure.

    Attributes:
        graph_signature: the program's signature.
        module_call_graph: the program's module calls.
        range_constraints: the range of every dynamic dimension.
        check_input_constraints: set it to ``False`` to skip the check of shapes and ranges.
        meta: the metadata of the program's graph module, and this module as
            ``"unflattened_module"``.
    """

    def __init__(
        self,
        export_module: ExportedProgram,
        flat_args_adapter: FlatArgsAdapter | None = None,
    ) -> None:
        super().__init__(Graph())
        self.graph_signature = _without_tokens(export_module.graph_signature)
        self.module_call_graph = [copy.copy(entry) for entry in export_module.module_call_graph]
        self.flat_args_adapter = flat_args_adapter
        self.range_constraints = dict(export_module.range_constraints)
        self.equality_constraints: list[Any] = []
        self.check_input_constraints = True
        self.meta = {**export_module.graph_module.meta, "unflattened_module": self}

    @property
    def _signature(self) -> ModuleCallSignature:
        """How the program is called: export always keeps the root's signature."""
        signature: ModuleCallSignature = self.module_call_graph[0].signature
        return signature

    @property
    def input_placeholders(self) -> list[Node]:
        """The placeholders of the root's graph: one a leaf of the arguments."""
        return list(self.graph.find_nodes(op="placeholder"))

    @torch.compiler.disable(  # type: ignore[untyped-decorator]
        reason="the compiler can't trace the checks of the inputs"
    )
    def process_forward_inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Flatten the arguments, adapt them where they are of another structure, check them.

        Raises:
            ValueError: a keyword argument that the program doesn't have.
            TypeError: another structure, and no adapter, or one that doesn't fit.
            RuntimeError: a shape or value that the program wasn't exported for.
        """
        with_paths = self._flattened(args, kwargs)
        if self.check_input_constraints:
            _check_input_constraints_for_graph(
                self.input_placeholders, with_paths, self.range_constraints
            )
        return [leaf for _, leaf in with_paths]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program on the arguments of the eager model."""
        if is_fx_symbolic_tracing():
            flat_args = self._traced(args, kwargs)
        elif torch.compiler.is_exporting():
            # No check of ranges: the new program has its own.
            flat_args = [leaf for _, leaf in self._flattened(args, kwargs)]
        else:
            flat_args = self.process_forward_inputs(*args, **kwargs)
        try:
            result = self._run(flat_args)
        except Exception:
            self._reset_dispatchers()
            raise
        return pytree.tree_unflatten(result, self._signature.out_spec)

    def _flattened(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[tuple[pytree.KeyPath, Any]]:
        """The leaves of the structure that the program wants, and what to call them in errors."""
        wanted = self._signature.in_spec
        if kwargs:
            kwargs = reorder_kwargs(kwargs, wanted)
        with_paths, given = pytree.tree_flatten_with_path((args, kwargs))
        if given == wanted:
            return with_paths
        adapted = self._adapted([leaf for _, leaf in with_paths], given, args)
        return list(zip(self._adapted_paths(adapted), adapted, strict=True))

    def _traced(self, args: Any, kwargs: Any) -> list[Any]:
        """The leaves of proxies, which have no structure and no shape to compare."""
        wanted = self._signature.in_spec
        if isinstance(args, Proxy):
            # The tree itself is traced: all positional arguments are one value.
            return list(fx_pytree.tree_flatten_spec((args, kwargs), wanted))
        return pytree.tree_leaves((args, reorder_kwargs(kwargs, wanted)))

    def _adapted(self, flat_args: list[Any], given: TreeSpec, args: tuple[Any, ...]) -> list[Any]:
        wanted = self._signature.in_spec
        if self.flat_args_adapter is None:
            raise TypeError(
                f"the arguments have the structure {given}, but the program was exported for "
                f"{wanted}; call it like the eager model, or give unflatten a flat_args_adapter"
            )
        adapted = self.flat_args_adapter.adapt(
            target_spec=wanted,
            input_spec=given,
            input_args=flat_args,
            metadata=self.meta,
            obj=args,
        )
        if len(adapted) != wanted.num_leaves:
            raise TypeError(
                f"{type(self.flat_args_adapter).__name__}.adapt returned {len(adapted)} values, "
                f"but the program takes {wanted.num_leaves}: one a leaf of {wanted}"
            )
        return adapted

    def _adapted_paths(self, flat_args: list[Any]) -> list[pytree.KeyPath]:
        """What to call the adapted leaves in errors."""
        adapter = self.flat_args_adapter
        names = adapter.get_flat_arg_paths() if adapter else []
        if names and len(names) != len(flat_args):
            raise TypeError(
                f"{type(adapter).__name__}.get_flat_arg_paths returned {len(names)} names for "
                f"{len(flat_args)} values"
            )
        names = names or ["<unknown location>"] * len(flat_args)
        return [(pytree.SequenceKey(0), pytree.GetAttrKey(name)) for name in names]

    def _reset_dispatchers(self) -> None:
        """A run that broke off leaves the modules after it in the middle of their turns."""
        for module in self.modules():
            if isinstance(module, InterpreterModuleDispatcher):
                module.reset()

    def _facts(self) -> Iterable[object]:
        of_the_program = [value for value in self.meta.values() if value is not self]
        signatures = [entry.signature for entry in self.module_call_graph]
        return [*super()._facts(), *signatures, *of_the_program]


def _without_tokens(signature: ExportGraphSignature) -> ExportGraphSignature:  # given
    """A copy of the signature that lists what the tree takes and returns, and no tokens."""
    inputs = [replace(spec) for spec in signature.input_specs if spec.kind is not InputKind.TOKEN]
    outputs = [
        replace(spec) for spec in signature.output_specs if spec.kind is not OutputKind.TOKEN
    ]
    return ExportGraphSignature(inputs, outputs)
