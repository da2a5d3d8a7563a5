"""Unlike the core: a graph may decide how its function begins and ends, and take containers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch.fx import graph as torch_fx
from torch.utils import _pytree as pytree

from ..graph import Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from ... import graph as core

    Transform = Callable[[list[str]], list[str]]


class CodeGen:
    """Writes the first line and the last statement; a subclass may change them.

    In torch: ``torch.fx.graph.CodeGen``.
    """

    _body_transformer: Transform | None = None

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the first line, or lines, with these parameters and ``" -> int"`` or nothing."""
        parameters = free_vars if free_vars[:1] == ["self"] else ["self", *free_vars]
        return f"def forward({', '.join(parameters)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr) -> str:
        """Return the last statement."""
        return "return " + repr_fn(output_args)

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders for the module's arguments."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return the module's result for the value of the output node."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return the names that the lines of this class use, with their objects."""
        return []


class PyTreeCodeGen(CodeGen):
    """Flattens containers for the placeholders, and rebuilds them from the outputs.

    Args:
        pytree_info: ``orig_args``, ``in_spec`` and ``out_spec``: the names of the parameters, and
            the structure of arguments and result. An ``out_spec`` of ``None`` leaves the result
            unchanged.

    In torch: ``torch.fx.graph._PyTreeCodeGen``.
    """

    def __init__(self, pytree_info: Any) -> None:
        self.pytree_info = pytree_info

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        names = self.pytree_info.orig_args
        lines = [super().gen_fn_def(names, maybe_return_annotation)]
        if not free_vars:
            return lines[0]
        # Python allows no annotations in `x, y = …`, so each is a statement of its own.
        if annotations := "".join(f"{each}; " for each in free_vars if ":" in each):
            lines.append(f"{annotations}\n")
        own = ["self"] if names[:1] == ["self"] else []
        leaves = ", ".join(each.split(":")[0] for each in [*own, *free_vars])
        lines.append(f"{leaves}, = fx_pytree.tree_flatten_spec({self.containers()}, self._in_spec)")
        return "\n    ".join(lines)

    def containers(self) -> str:
        """Return an expression for the arguments, in the structure that ``in_spec`` describes."""
        names, spec = self.pytree_info.orig_args, self.pytree_info.in_spec
        if not has_keywords(spec, names):
            return f"[{', '.join(names)}]"
        number = spec.child(0).num_children
        by_name = ", ".join(f"{name!r}:{name}" for name in names[number:])
        return f"([{', '.join(names[:number])}], {{{by_name}}})"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr) -> str:
        if not self.pytree_info.out_spec:
            return super().generate_output(output_args, repr_fn=repr_fn)
        leaves = repr_fn(output_args)
        return f"return pytree.tree_unflatten({leaves}, self._out_spec)"

    def process_inputs(self, *args: Any) -> Any:
        return pytree.arg_tree_leaves(*args)

    def process_outputs(self, outputs: Any) -> Any:
        spec = self.pytree_info.out_spec
        if spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, list | tuple) else [outputs]
        return pytree.tree_unflatten(leaves, spec)


def has_keywords(spec: pytree.TreeSpec, names: list[str]) -> bool:
    """Return whether a spec is of ``(args, kwargs)``, and not of two arguments of these types.

    Args:
        spec: The structure.
        names: The parameters. They end with the keywords, if there are any.
    """
    types = [spec.child(each).type for each in range(spec.num_children)]
    if spec.type is not tuple or types != [tuple, dict]:
        return False
    args, kwargs = spec.child(0), spec.child(1)
    return names[args.num_children :] == kwargs.context


def codegen_of(graph: core.Graph) -> Any:
    """Return the code generator of a graph; ours replaces either of torch's own two."""
    own = getattr(graph, "_codegen", None)
    if own is not None and type(own) is torch_fx._PyTreeCodeGen and own.pytree_info is not None:
        ours: Any = PyTreeCodeGen(own.pytree_info)
    elif own is None or type(own) is torch_fx.CodeGen:
        ours = CodeGen()
    else:
        return own
    ours._body_transformer = getattr(own, "_body_transformer", None)
    return ours


def on_generate_code(
    self: Graph, make_transformer: Callable[[Transform | None], Transform]
) -> AbstractContextManager[None]:
    """Transform the lines of the body: from this call on, or until a ``with`` block ends.

    ``make_transformer`` gets the present transformer, or ``None``, and returns the new one, which
    gets the lines and returns those to use instead.

    In torch: ``Graph.on_generate_code``.
    """
    if self._codegen is None:
        self.set_codegen(CodeGen())
    codegen, before = self._codegen, self._codegen._body_transformer
    codegen._body_transformer = make_transformer(before)

    @contextmanager
    def restoring() -> Iterator[None]:
        try:
            yield
        finally:
            codegen._body_transformer = before

    return restoring()


# `graph` is an earlier lesson and doesn't know this one, so its class gets the method here.
setattr(Graph, on_generate_code.__name__, on_generate_code)
