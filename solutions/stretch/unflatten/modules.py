"""Unlike the core: bodies that can be compiled, copied and printed, and adapters at the root.

Code is generated on first use. Most modules are only interpreted, so a tree is made in a fraction
of the time.
"""

from __future__ import annotations

import abc
import copy
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.fx._pytree as fx_pytree
from torch import nn
from torch.export import ExportedProgram
from torch.export._tree_utils import reorder_kwargs
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind
from torch.fx import GraphModule, Node, Proxy
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.fx.graph_module import _print_readable
from torch.utils import _pytree as pytree
from torch.utils._pytree import TreeSpec

from ... import unflatten as core
from ...unflatten import ModuleCall
from .calls import CallGraph


class InterpreterModule(core.InterpreterModule):
    """Unlike the core's: wrong arguments are refused, and the graph can be had as code.

    ``torch.compile`` can't trace an interpreter, so it traces the generated code.
    """

    def finalize(self) -> None:
        """Check the graph, note its parameters, and forget the code of the graph as it was."""
        super().finalize()
        self.__dict__.pop("graph_module", None)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph, with a value for each placeholder, by position or by name.

        Raises:
            TypeError: A placeholder without a value or with two, or a value without a placeholder.
        """
        self._check_names(args, kwargs)
        if torch.compiler.is_dynamo_compiling() and not is_fx_symbolic_tracing():
            self._generate()
            return type(self.graph_module).forward(self._owner, *args, **kwargs)
        return super().forward(*args, **kwargs)

    def _check_names(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        names = self.arg_names
        if len(args) > len(names) or sorted(names[len(args) :]) != sorted(kwargs):
            raise TypeError(
                f"this {type(self).__name__} (of {self._ty}) takes the arguments {names}, but was "
                f"given {len(args)} by position and {list(kwargs)} by name"
            )

    @functools.cached_property
    def graph_module(self) -> GraphModule:
        """The graph as generated code, made when first asked for after ``finalize``."""
        generated = GraphModule(self._owner, self.graph)
        self.graph.owning_module = self._owner  # type: ignore[assignment]
        return generated

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _generate(self) -> None:
        # The compiler runs this instead of tracing it, and then traces the code that is there.
        _ = self.graph_module

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """Return the graph as Python source, and print it unless told not to.

        Args:
            print_output: Whether to print it.
            options: ``include_stride``, ``include_device``, ``colored``.
        """
        return _print_readable(self, type(self).__name__, print_output, **options)

    def __deepcopy__(self, memo: dict[int, Any]) -> InterpreterModule:
        """Copy everything except what never changes: torch warns when a tree spec is copied."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        memo.update((id(fact), fact) for fact in self._facts())
        copied.__setstate__(copy.deepcopy(self.__dict__, memo))
        copied.graph.owning_module = copied._owner  # type: ignore[assignment]
        return copied

    def _facts(self) -> Iterable[object]:
        return ()


class FlatArgsAdapter(abc.ABC):
    """Turns the flat arguments of another structure into those the program was exported with."""

    @abc.abstractmethod
    def adapt(
        self,
        target_spec: TreeSpec,
        input_spec: TreeSpec,
        input_args: list[Any],
        metadata: dict[str, Any] | None = None,
        obj: Any | None = None,
    ) -> list[Any]:
        """Return the leaves of ``target_spec``, made of those of ``input_spec``.

        Args:
            target_spec: The structure of ``(args, kwargs)`` at export.
            input_spec: The structure of ``(args, kwargs)`` of this call.
            input_args: The leaves of this call. They may be changed in place.
            metadata: The unflattened module's ``meta``.
            obj: The positional arguments of this call.
        """

    def get_flat_arg_paths(self) -> list[str]:
        """Return names for the adapted leaves, for error messages; empty if there are none."""
        return []


class UnflattenedModule(core.UnflattenedModule, InterpreterModule):
    """Unlike the core's: it keeps the program's metadata, and can be traced and exported.

    Args:
        export_module: The program; the module keeps its signature and its constraints.
        flat_args_adapter: What to do with arguments of another structure.

    Attributes:
        graph_signature: The program's signature.
        module_call_graph: The program's module calls.
        range_constraints: The range of every dynamic dimension.
        check_input_constraints: Set it to ``False`` to skip the check of shapes and ranges.
        meta: The metadata of the program's graph module, and this module as
            ``"unflattened_module"``.
    """

    def __init__(
        self, export_module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
    ) -> None:
        super().__init__(export_module)
        self.graph_signature = _without_tokens(export_module.graph_signature)
        self.module_call_graph = [copy.copy(entry) for entry in export_module.module_call_graph]
        self.flat_args_adapter = flat_args_adapter
        self.range_constraints = dict(export_module.range_constraints)
        self.equality_constraints: list[Any] = []
        self.check_input_constraints = True
        self.meta = {**export_module.graph_module.meta, "unflattened_module": self}

    def module_for(self, call: ModuleCall, owner: nn.Module | None) -> InterpreterModule:
        """Return a new module that runs the graph of a call on the attributes of ``owner``."""
        return InterpreterModule(CallGraph(call).graph, call.type_name, owner)

    @property
    def input_placeholders(self) -> list[Node]:
        """The placeholders of the root's graph: one per leaf of the arguments."""
        return list(self.graph.find_nodes(op="placeholder"))

    def flat_inputs(self, args: Any, kwargs: dict[str, Any]) -> list[Any]:
        """Return the leaves of the arguments, checked unless they are proxies or exported anew."""
        if is_fx_symbolic_tracing():
            return self._traced(args, kwargs)
        # A program that is exported anew has its own ranges.
        if self.check_input_constraints and not torch.compiler.is_exporting():
            return self._checked(args, kwargs)
        return [leaf for _, leaf in self.input_leaves(args, kwargs)]

    @torch.compiler.disable(  # type: ignore[untyped-decorator]
        reason="the compiler can't trace the checks of the inputs"
    )
    def _checked(self, args: Any, kwargs: dict[str, Any]) -> list[Any]:
        # A run that broke off has left the dispatchers after it in the middle.
        for module in self.modules():
            if isinstance(module, InterpreterModuleDispatcher):
                module.reset()
        return super().flat_inputs(args, kwargs)

    def _traced(self, args: Any, kwargs: Any) -> list[Any]:
        """Return the leaves of proxies, whose structure and shapes can't be checked."""
        wanted = self._signature.in_spec
        if isinstance(args, Proxy):
            # The tree itself is traced: all positional arguments are one value.
            return list(fx_pytree.tree_flatten_spec((args, kwargs), wanted))
        return pytree.tree_leaves((args, reorder_kwargs(kwargs, wanted)))

    def input_leaves(self, args: Any, kwargs: dict[str, Any]) -> list[tuple[pytree.KeyPath, Any]]:
        """Return the leaves of the structure that the program wants, and their paths."""
        try:
            return super().input_leaves(args, kwargs)
        except TypeError as error:
            if self.flat_args_adapter is None:
                raise TypeError(f"{error}, or give unflatten a flat_args_adapter") from None
            return self._adapted(self.flat_args_adapter, args, kwargs)

    def _adapted(
        self, adapter: FlatArgsAdapter, args: Any, kwargs: Any
    ) -> list[tuple[pytree.KeyPath, Any]]:
        wanted = self._signature.in_spec
        leaves, given = pytree.tree_flatten((args, kwargs))
        values = adapter.adapt(
            target_spec=wanted, input_spec=given, input_args=leaves, metadata=self.meta, obj=args
        )
        if len(values) != wanted.num_leaves:
            raise TypeError(
                f"{type(adapter).__name__}.adapt returned {len(values)} values, but the program "
                f"takes {wanted.num_leaves}: one per leaf of {wanted}"
            )
        paths = adapter.get_flat_arg_paths() or ["<unknown location>"] * len(values)
        return [
            ((pytree.SequenceKey(0), pytree.GetAttrKey(path)), value)
            for path, value in zip(paths, values, strict=True)
        ]

    def _facts(self) -> Iterable[object]:
        of_the_program = [value for value in self.meta.values() if value is not self]
        return [*of_the_program, *(entry.signature for entry in self.module_call_graph)]


def _without_tokens(signature: ExportGraphSignature) -> ExportGraphSignature:
    """Return a copy of the signature without tokens, which the tree doesn't take or return."""
    inputs = [spec for spec in signature.input_specs if spec.kind is not InputKind.TOKEN]
    outputs = [spec for spec in signature.output_specs if spec.kind is not OutputKind.TOKEN]
    return ExportGraphSignature(inputs, outputs)


class InterpreterModuleDispatcher(nn.Module):
    """Replaces a module that is called several times in one run with different graphs.

    Each call runs the next of ``call_modules``; after the last one, or after an exception, the
    first one is next. Submodules, parameters and buffers are those of the first module.

    Args:
        attrs: Names of further attributes to copy from the first module.
        call_modules: What to run, one module per call; at least one.

    In torch: the class of the same name; there, the buffers become plain attributes and drop out
    of the ``state_dict``.

    >>> from torch.fx import symbolic_trace
    >>> graphs = [symbolic_trace(each).graph for each in (torch.nn.ReLU(), torch.nn.Identity())]
    >>> modules = [InterpreterModule(graph) for graph in graphs]
    >>> for module in modules:
    ...     module.finalize()
    >>> by_turns = InterpreterModuleDispatcher(set(), modules)
    >>> [by_turns(torch.tensor(-1)).item() for call in range(3)]
    [0, -1, 0]
    """

    def __init__(self, attrs: set[str], call_modules: list[InterpreterModule]) -> None:
        super().__init__()
        first = call_modules[0]
        for name in (*_REGISTRIES, *attrs):
            setattr(self, name, getattr(first, name))
        self._ty = first.type_name()
        self._call_modules = call_modules
        self._turn = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the next module."""
        turn, self._turn = self._turn, 0  # after an exception, too
        result = self._call_modules[turn](*args, **kwargs)
        self._turn = (turn + 1) % len(self._call_modules)
        return result

    def reset(self) -> None:
        """Let the next call run the first module."""
        self._turn = 0

    def call_modules(self) -> list[InterpreterModule]:
        """The modules in the order of the calls; a module that does two calls is there twice."""
        return self._call_modules

    def type_name(self) -> str | None:
        """The class of the eager module, as export wrote it down."""
        return self._ty

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """Return the source of all modules, and print it unless told not to."""
        return "\n".join(
            each.print_readable(print_output, **options) for each in self._call_modules
        )


# What nn.Module keeps of the things it owns.
_REGISTRIES = ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules")
