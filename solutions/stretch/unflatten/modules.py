"""Unlike the core: modules that can be compiled, copied and printed, adapters, dispatchers, state.

Code is generated on first use. Most modules are only interpreted, so a tree is made in a fraction
of the time.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.export import FlatArgsAdapter
from torch.fx import GraphModule, Node
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.fx.graph_module import _print_readable
from torch.utils import _pytree as pytree

from given.capture import Attribute
from given.unflatten import check_inputs, in_order, input_leaves

from ... import unflatten as core
from ...capture import Flat
from ...unflatten import ModuleCall

RUN_WITH_INTERPRETER = ContextVar("RUN_WITH_INTERPRETER", default=True)


@contextmanager
def _disable_interpreter() -> Iterator[None]:
    """Let the modules that the block makes run generated code, not an interpreter.

    In torch: the function of the same name.
    """
    before = RUN_WITH_INTERPRETER.set(False)
    try:
        yield
    finally:
        RUN_WITH_INTERPRETER.reset(before)


class InterpreterModule(core.InterpreterModule):
    """Unlike the core's: the graph can be had as code.

    ``torch.compile`` can't trace an interpreter, so it traces the generated code.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._run_with_interpreter = RUN_WITH_INTERPRETER.get()

    def finalize(self) -> None:
        """Check the graph, note its parameters, and forget the code of the graph as it was."""
        super().finalize()
        self.__dict__.pop("graph_module", None)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph, with a value for each placeholder, by position or by name."""
        as_code = torch.compiler.is_dynamo_compiling() or not self._run_with_interpreter
        if as_code and not is_fx_symbolic_tracing():
            self._generate()
            return type(self.graph_module).forward(self._owner, *args, **kwargs)
        return super().forward(*args, **kwargs)

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
        """Return the graph as Python source, and print it unless told not to."""
        return _print_readable(self, type(self).__name__, print_output, **options)

    def __deepcopy__(self, memo: dict[int, Any]) -> InterpreterModule:
        """Copy the module with its graph, which then belongs to the copy."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__setstate__(copy.deepcopy(self.__dict__, memo))
        copied.graph.owning_module = copied._owner  # type: ignore[assignment]
        return copied


class UnflattenedModule(core.UnflattenedModule, InterpreterModule):
    """Unlike the core's: it keeps the program's metadata, and can be traced and exported.

    Attributes:
        graph_signature: The program's signature.
        module_call_graph: The program's module calls.
        check_input_constraints: Set it to ``False`` to skip the check of shapes and ranges.
        adapted: Whether arguments of another structure were adapted so far.
        meta: The metadata of the program's graph module, and this module as
            ``"unflattened_module"``.
    """

    check_input_constraints = True
    flat_args_adapter: FlatArgsAdapter | None = None
    adapted = False

    def describe(self, program: Any, flat_args_adapter: FlatArgsAdapter | None) -> None:
        """Keep what a program says about itself, and what to do with arguments of other structures.

        A ``Flat`` says nothing about itself.
        """
        self.graph_signature = getattr(program, "graph_signature", None)
        self.module_call_graph = getattr(program, "module_call_graph", [])
        self.flat_args_adapter = flat_args_adapter
        self.equality_constraints: list[Any] = []
        meta = getattr(getattr(program, "graph_module", None), "meta", {})
        self.meta = {**meta, "unflattened_module": self}

    @property
    def input_placeholders(self) -> list[Node]:
        """The placeholders of the root's graph: one per leaf of the arguments."""
        return list(self.graph.find_nodes(op="placeholder"))

    def flat_inputs(self, args: Any, kwargs: dict[str, Any]) -> list[Any]:
        """Return the leaves of the arguments, checked unless they are proxies or exported anew."""
        if is_fx_symbolic_tracing():
            # The structure and the shapes of proxies can't be checked.
            return pytree.tree_leaves((args, in_order(kwargs, self.in_spec)))
        # A program that is exported anew has its own ranges.
        if self.check_input_constraints and not torch.compiler.is_exporting():
            return self._checked(args, kwargs)
        return [leaf for _, leaf in self._input_leaves(args, kwargs)]

    @torch.compiler.disable(  # type: ignore[untyped-decorator]
        reason="the compiler can't trace the checks of the inputs"
    )
    def _checked(self, args: Any, kwargs: dict[str, Any]) -> list[Any]:
        leaves = self._input_leaves(args, kwargs)
        check_inputs(self.graph, leaves, self.range_constraints)
        return [leaf for _, leaf in leaves]

    def _input_leaves(self, args: Any, kwargs: dict[str, Any]) -> list[tuple[pytree.KeyPath, Any]]:
        """Return the leaves of the structure that the program wants, and their paths."""
        try:
            return input_leaves(args, kwargs, self.in_spec)
        except TypeError:
            if self.flat_args_adapter is None:
                raise
            return self._adapt(self.flat_args_adapter, args, kwargs)

    def _adapt(
        self, adapter: FlatArgsAdapter, args: Any, kwargs: Any
    ) -> list[tuple[pytree.KeyPath, Any]]:
        wanted = self.in_spec
        leaves, given = pytree.tree_flatten((args, kwargs))
        values = adapter.adapt(
            target_spec=wanted, input_spec=given, input_args=leaves, metadata=self.meta, obj=args
        )
        if len(values) != wanted.num_leaves:
            raise TypeError(f"adapt returned {len(values)} leaves instead of {wanted.num_leaves}")
        self.adapted = True
        paths = adapter.get_flat_arg_paths() or ["<unknown location>"] * len(values)
        return [
            ((pytree.SequenceKey(0), pytree.GetAttrKey(path)), value)
            for path, value in zip(paths, values, strict=True)
        ]

    def _print_graph(self) -> None:
        """Print the graph of each module, after the module's name."""
        for name, module in self.named_modules():
            print(f"{name}:\n{getattr(module, 'graph', '')}")

    def __deepcopy__(self, memo: dict[int, Any]) -> InterpreterModule:
        """Copy the tree, but not the signatures: torch warns when a tree spec is copied."""
        kept = [each.signature for each in self.module_call_graph]
        memo.update((id(each), each) for each in [*kept, self.in_spec, self.out_spec])
        return super().__deepcopy__(memo)


class InterpreterModuleDispatcher(nn.Module):
    """Replaces a module that is called several times in one run with different graphs.

    Each call runs the next of ``call_modules``; after the last one, or after an exception, the
    first one is next. Submodules, parameters and buffers are those of the first module.

    Args:
        attrs: Names of further attributes to copy from the first module.
        call_modules: What to run, one module per call; at least one.

    In torch: the class of the same name; there, the buffers become plain attributes and drop out
    of the ``state_dict``.
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

    def call_modules(self) -> list[InterpreterModule]:
        """The modules in the order of the calls; a module that does two calls is listed twice."""
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


def make_modules(tree: UnflattenedModule, calls: Mapping[str, ModuleCall]) -> dict[str, Any]:
    """Return the tree and a module for each call, by name."""
    modules: dict[str, Any] = {"": tree}
    for name, call in calls.items():
        owner = modules.get(call.level.path)
        modules[name] = InterpreterModule(call.graph, call.level.type_name, owner)
    return modules


def dispatch(
    modules: Mapping[str, Any], path: str, names: Sequence[str], state: Mapping[str, Attribute]
) -> None:
    """Put a dispatcher where a module with a preserved signature is called several times.

    A module with a preserved signature can be swapped for another one, so all its calls go to one
    attribute. There the first module is replaced by a dispatcher, which runs the modules of the
    calls in order. They are removed from the tree.

    Args:
        modules: The modules of the tree, by name.
        path: The module whose signature is preserved.
        names: The names of the modules that run its calls, in the order of the calls.
        state: What the tree owns: the dispatcher has the module's constants, too.

    In torch: ``UnflattenedModule._dispatch_modules``.
    """
    if len(names) > 1:
        for later in set(names) - {path}:
            parent, _, name = later.rpartition(".")
            delattr(modules[parent], name)
        owned = (name.rpartition(".") for name, each in state.items() if each.kind == "constant")
        constants = {name for parent, _, name in owned if parent == path}
        dispatcher = InterpreterModuleDispatcher(constants, [modules[name] for name in names])
        modules[""].set_submodule(path, dispatcher)


# --- what the modules own


def identity(value: Any) -> Hashable:
    """Return a key that all names of a value share: for tensors, their memory and its layout.

    A program that was loaded from a file has one object per name, even where two names are tied.

    >>> weight = torch.ones(2, 3)
    >>> identity(weight) == identity(weight.detach()), identity(weight) == identity(weight.t())
    (True, False)
    """
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        kind = isinstance(value, nn.Parameter), value.dtype
        window = value.shape, value.stride(), value.storage_offset()
        return value.untyped_storage(), kind, window
    return id(value)


def tied(flat: Flat) -> Flat:
    """Return a flat graph's description in which all names of one memory hold one object."""
    first: dict[Hashable, Any] = {}
    state = {
        name: each._replace(value=first.setdefault(identity(each.value), each.value))
        for name, each in flat.state.items()
    }
    return replace(flat, state=state)


def copied(state: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Copy everything the eager model owned, views and aliases as they were.

    Views of one storage must see each other's mutations. Custom objects are handed on as they are.

    In torch: in the middle of ``UnflattenedModule.__init__``, which copies views and aliased
    constants one by one, so that they no longer see each other's mutations.
    """
    values = [each.value for each in state.values()]
    tensors = {identity(each): each for each in values if isinstance(each, torch.Tensor)}
    # One deepcopy for all data: it copies each storage once.
    copies = copy.deepcopy([tensor.detach() for tensor in tensors.values()])
    data = dict(zip(tensors, copies, strict=True))
    for key, tensor in tensors.items():
        if isinstance(tensor, nn.Parameter):
            data[key] = nn.Parameter(data[key], tensor.requires_grad)
        else:
            data[key].requires_grad_(tensor.requires_grad)
    return {
        name: each._replace(value=data.get(identity(each.value), each.value))
        for name, each in state.items()
    }
