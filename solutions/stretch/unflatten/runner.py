"""Step 5: run a graph, as the body of a call does and the root of the tree."""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Interpreter
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.utils._pytree import TreeSpec


class GraphRunner(nn.Module):
    """A module whose forward is a graph: interpreted, or generated code while compiling.

    Code is generated when it is first asked for: most modules are only ever interpreted.
    """

    graph: Graph
    arg_names: list[str]
    _generated: GraphModule

    def __init__(
        self, graph: Graph, ty: str | None = None, owner: nn.Module | None = None
    ) -> None:  # given
        super().__init__()
        self.graph = graph
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
        forward = textwrap.indent(textwrap.dedent(code.src).strip(), "    ")
        text = f"class {type(self).__name__}(torch.nn.Module):\n{forward}"
        if print_output:
            print(text)
        return text

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
