"""The modules that an unflattened program is made of."""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.fx._pytree as fx_pytree
from torch import nn
from torch._export.utils import _check_input_constraints_for_graph
from torch.export import ExportedProgram
from torch.export._tree_utils import reorder_kwargs
from torch.export.exported_program import ModuleCallSignature
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind
from torch.fx import Graph, GraphModule, Interpreter, Node, Proxy
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.utils import _pytree as pytree
from torch.utils._pytree import TreeSpec


class GraphRunner(nn.Module):
    """A module whose forward is a graph: interpreted, or generated code while compiling.

    Code is generated when it is first asked for: most modules are only ever interpreted.
    """

    graph: Graph
    _generated: GraphModule

    def __init__(
        self, graph: Graph, ty: str | None = None, owner: nn.Module | None = None
    ) -> None:  # given
        super().__init__()
        self.graph = graph
        self.arg_names: list[str] = []
        self._ty = ty
        self._finalized = False
        # In a tuple: nn.Module would register the owner as a child.
        self._borrows_from = (owner,) if owner else ()

    @property
    def _owner(self) -> nn.Module:  # given
        """The module whose submodules, parameters and constants the graph reads."""
        return self._borrows_from[0] if self._borrows_from else self

    def type_name(self) -> str | None:  # given
        """The class of the eager module, as export wrote it down."""
        return self._ty

    @property
    def graph_module(self) -> GraphModule:  # given
        """The graph as generated code, made when first asked for after ``finalize``."""
        self._generate()
        return self._generated

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _generate(self) -> None:  # given
        # The compiler runs this instead of tracing it, and then traces the code that is there.
        if "_generated" not in self.__dict__:
            self.__dict__["_generated"] = GraphModule(self._owner, self.graph)
            self.graph.owning_module = self._owner  # type: ignore[assignment]

    def _run(self, args: Sequence[Any]) -> Any:  # given
        """Run the graph on positional arguments, one a placeholder."""
        self._check_finalized()
        if torch.compiler.is_dynamo_compiling() and not is_fx_symbolic_tracing():
            self._generate()
            return type(self._generated).forward(self._owner, *args)
        interpreter = Interpreter(self._owner, graph=self.graph)
        return interpreter.run(*args, enable_io_processing=False)

    def finalize(self) -> None:
        """Check the graph against the attributes it reads, and allow the module to run.

        The graph's ``owning_module`` becomes ``self._owner``, and the graph is linted. Then
        ``arg_names`` holds the names of its placeholders, ``_generated`` (the code of the graph
        as it was) is gone, and ``_finalized`` is true. Call it again after editing the graph.

        Raises:
            RuntimeError: the graph is malformed, or reads what isn't there.
        """
        self.graph.owning_module = self._owner  # type: ignore[assignment]
        self.graph.lint()
        self.arg_names = [str(node.target) for node in self.graph.find_nodes(op="placeholder")]
        self.__dict__.pop("_generated", None)
        self._finalized = True

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> str:  # given
        """Return the graph as Python source, and print it unless told not to."""
        code = self.graph.python_code(
            root_module="self",
            verbose=True,
            include_stride=include_stride,
            include_device=include_device,
            colored=colored,
        )
        lines = [f"class {type(self).__name__}(torch.nn.Module):"]
        lines += [line and f"    {line}" for line in code.src.lstrip("\n").split("\n")]
        if print_output:
            print("\n".join(lines))
        return "\n".join(lines)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphRunner:  # given
        """Copy everything but what never changes; torch warns where a tree spec is copied."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        memo.update((id(fact), fact) for fact in self._facts())
        copied.__setstate__(copy.deepcopy(self.__dict__, memo))
        copied.graph.owning_module = copied._owner  # type: ignore[assignment]
        return copied

    def _facts(self) -> Iterable[object]:  # given
        return [value for value in vars(self._owner).values() if isinstance(value, TreeSpec)]

    def _check_finalized(self) -> None:  # given
        if not self._finalized:
            raise RuntimeError(
                f"{self._described()} isn't finalized: its graph may still change; call "
                "finalize() when graph and attributes are complete"
            )

    def _described(self) -> str:  # given
        return f"this {type(self).__name__}" + (f" (of {self._ty})" if self._ty else "")


class InterpreterModule(GraphRunner):
    """A module that runs its graph with ``torch.fx.Interpreter``.

    Errors then point at the node that was run. Under ``torch.compile``, which can't look into an
    interpreter, it runs generated code.

    Args:
        graph: the graph; its placeholders are the module's parameters.
        ty: the class of the eager module it stands for.
        owner: the module whose attributes the graph reads, if it isn't this one. A later call of
            a module stands on the first one's module, and owns nothing.

    Where torch does this: the class of the same name in ``torch/export/unflatten.py``.

    Example:
        >>> graph = Graph()
        >>> doubled = graph.call_function(torch.add, (x := graph.placeholder("x"), x))
        >>> output = graph.output(doubled)
        >>> double = InterpreterModule(graph)
        >>> double.finalize()
        >>> double(torch.tensor(2)), double(x=torch.tensor(3))
        (tensor(4), tensor(6))
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph, each placeholder given by position or by name.

        Raises:
            RuntimeError: the module isn't finalized.
            TypeError: a placeholder without a value or with two, or a value without a placeholder.
        """
        self._check_finalized()
        return self._run(self._bind(args, kwargs))

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        names = self.arg_names
        by_name = names[len(args) :]
        missing = [name for name in by_name if name not in kwargs]
        unknown = [name for name in kwargs if name not in by_name]
        surplus = len(args) - len(names)
        if missing or unknown or surplus > 0:
            faults = [f"missing {missing}"] if missing else []
            faults += [f"unknown or given twice {unknown}"] if unknown else []
            faults += [f"{surplus} too many by position"] if surplus > 0 else []
            raise TypeError(f"{self._described()} takes the arguments {names}: {', '.join(faults)}")
        return [*args, *(kwargs[name] for name in by_name)]


class InterpreterModuleDispatcher(nn.Module):
    """A module that is called several times in one run, and does something else each time.

    The calls go to ``call_modules`` in turn, and begin anew after the last one, or after an
    exception. Submodules, parameters and buffers are those of the first of them.

    Args:
        attrs: names of further attributes of the first module that this one has, too.
        call_modules: what to run, one module a call; at least one.

    Raises:
        ValueError: no modules were given.

    Where torch does this: the class of the same name in ``torch/export/unflatten.py``; there,
    the buffers become plain attributes and drop out of the ``state_dict``.

    Example:
        >>> by_turns = InterpreterModuleDispatcher(set(), [torch.nn.ReLU(), torch.nn.Identity()])
        >>> [by_turns(torch.tensor(-1)).item() for call in range(3)]
        [0, -1, 0]
    """

    def __init__(self, attrs: set[str], call_modules: list[InterpreterModule]) -> None:
        super().__init__()
        if not call_modules:
            raise ValueError("InterpreterModuleDispatcher needs at least one module to call")
        first = call_modules[0]
        for name in _REGISTRIES:
            self.__dict__[name] = first.__dict__[name]
        for name in attrs - {*self._modules, *self._parameters, *self._buffers}:
            setattr(self, name, getattr(first, name))
        self._ty = getattr(first, "_ty", None)
        self._call_modules = call_modules
        self._num_calls = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module whose turn it is."""
        call_module = self._call_modules[self._num_calls]
        self._num_calls = (self._num_calls + 1) % len(self._call_modules)
        try:
            return call_module(*args, **kwargs)
        except Exception:
            self.reset()
            raise

    def reset(self) -> None:
        """Let the next call be the first."""
        self._num_calls = 0

    def call_modules(self) -> list[InterpreterModule]:  # given
        """The modules in the order of the calls; a module that does two calls is there twice."""
        return self._call_modules

    def type_name(self) -> str | None:  # given
        """The class of the eager module, as export wrote it down."""
        return self._ty

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> str:  # given
        """Return the source of all modules, and print it unless told not to."""
        options = (print_output, include_stride, include_device, colored)
        return "\n".join(module.print_readable(*options) for module in self._call_modules)


# What nn.Module keeps of the things it owns.
_REGISTRIES = ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules")


class FlatArgsAdapter(abc.ABC):  # given
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
            target_spec: the structure of ``(args, kwargs)`` at export.
            input_spec: the structure of ``(args, kwargs)`` of this call.
            input_args: the leaves of this call. They may be changed in place.
            metadata: the unflattened module's ``meta``.
            obj: the positional arguments of this call.
        """

    def get_flat_arg_paths(self) -> list[str]:
        """Names for the adapted leaves, for errors about them; empty if there are none."""
        return []


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
        return pytree.tree_leaves((args, reorder_kwargs(kwargs, wanted) if kwargs else kwargs))

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
