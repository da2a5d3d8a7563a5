"""Unlike the core: what code that is written for torch's interpreters relies on.

- ``initial_env`` gives values to nodes that then don't run.
- Arguments and results are converted as the graph says: a graph with flat inputs takes containers.
- ``boxed_run`` takes its arguments out of a list, so that each is freed after its last use.
- ``*args`` and ``**kwargs`` can be placeholders.
- An error has the node and the line of the model in its message.
- ``Transformer`` keeps metadata and annotations, and asks its tracer which modules are leaves.
- ``ShapeProp`` runs on fake tensors, and describes sparse and quantised ones.
- ``profile`` measures what runs on a GPU by the GPU's clock.

Better than in torch: a value that nobody uses is freed, ``initial_env`` is not changed, an error
keeps its type, a list stays a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._prims_common import is_contiguous_for_memory_format_or_false
from torch._subclasses.meta_utils import is_sparse_any
from torch.fx import Proxy, Tracer, traceback
from torch.fx.passes.shape_prop import TensorMetadata
from torch.utils._pytree import tree_map_only

from .. import interpreter as core
from ..interpreter import last_uses, tensors_in

if TYPE_CHECKING:
    from torch import nn
    from torch.fx import Graph, GraphModule, Node

    from ..interpreter import Args, Kwargs

__all__ = [
    "Interpreter",
    "Profiler",
    "ShapeProp",
    "Transformer",
    "last_uses",
    "profile",
]


class Interpreter(core.Interpreter):
    """The core's interpreter, for all that torch's is used for.

    In torch: ``torch.fx.Interpreter``.
    """

    extra_traceback = True

    def __init__(
        self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        super().__init__(module, garbage_collect_values, graph)
        self.garbage_collect_values = garbage_collect_values
        self.submodules: dict[str, nn.Module] = dict(module.named_modules())

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Run the graph and return the value of its output.

        Args:
            args: The values of the placeholders that ``initial_env`` has no value for, in order.
            initial_env: The values of nodes that needn't run.
            enable_io_processing: Whether ``args`` and the result are those of the module's
                ``forward``, which the graph's code generator may have flattened.

        >>> from torch import fx
        >>> module = fx.symbolic_trace(lambda x: (x + 1) * 2)
        >>> x, add, *_ = module.graph.nodes
        >>> Interpreter(module).run(None, initial_env={add: 5})
        10
        """
        return self.run_in({**(initial_env or {})}, args, enable_io_processing)

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph with the values in a list, which is emptied: nothing else holds them.

        Raises:
            RuntimeError: There are more values than placeholders, or fewer.
        """
        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        if len(args_list) != len(placeholders):
            fault = "missing" if len(args_list) < len(placeholders) else "extra"
            raise RuntimeError(
                f"boxed_run got {len(args_list)} values for {len(placeholders)} placeholders "
                f"({fault} arguments): pass one for each, in order"
            )
        env = dict(zip(placeholders, args_list, strict=True))
        args_list.clear()
        return self.run_in(env, (), True)

    def run_in(self, env: dict[Node, Any], args: Args, enable_io_processing: bool) -> Any:
        """Run the graph on top of these values, which are freed after their last use as well."""
        # A graph of `lessons/graph.py` takes its values as they are.
        is_processed = enable_io_processing and hasattr(self.graph, "process_inputs")
        self.env = env
        self.args_iter = iter(self.graph.process_inputs(*args) if is_processed else args)
        result = self.run_nodes()
        return self.graph.process_outputs(result) if is_processed else result

    def execute(self, n: Node) -> None:
        if n in self.env:
            return
        super().execute(n)
        if self.garbage_collect_values and not n.users and n.op != "output":
            del self.env[n]

    def explain(self, error: Exception, n: Node) -> None:
        """Put the node, and the line of the model that it comes from, into the message.

        An error whose message is something else than a text gets a note.
        """
        if not self.extra_traceback:
            return
        words = f"While executing {n.format_node()}"
        if "stack_trace" in n.meta:
            words += f"\nOriginal traceback:\n{n.meta['stack_trace']}"
        match error.args:
            case str(message), *rest if not isinstance(error, KeyError):
                error.args = (f"{message}\n\n{words}", *rest)
        if words not in str(error):
            error.add_note(words)

    def run_node(self, n: Node) -> Any:
        if not traceback.has_preserved_node_meta():
            return super().run_node(n)
        # Who records what happens finds the node's metadata there: ``make_fx``, or a transformer.
        with traceback.set_current_meta(n, f"Interpreter_{type(self).__name__}"):
            return super().run_node(n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        try:
            return super().map_nodes_to_values(args, n)
        except KeyError as error:
            raise RuntimeError(
                f"{n} needs the value of {error.args[0]}, which has not been computed or was freed "
                "already: `graph.lint()` says whether the nodes are in order"
            ) from error

    def placeholder(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Return the next argument, or the default; all that are left where the name has a star."""
        if target.startswith("**"):
            return {}
        if target.startswith("*"):
            return tuple(self.args_iter)
        return super().placeholder(target, args, kwargs)

    def fetch_attr(self, target: str) -> Any:
        try:
            return super().fetch_attr(target)
        except AttributeError as error:
            raise RuntimeError(f"`{target}` is a nonexistent target: {error}") from error


class RecordingTracer(Tracer):
    """Records a graph again: no module is looked into."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


class Transformer(core.Transformer, Interpreter):
    """The core's, with what the nodes say beside what they do.

    In torch: ``torch.fx.Transformer``.
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph.set_codegen(self.graph._codegen)
        self.tracer: Any = RecordingTracer()
        self.tracer.root, self.tracer.graph, self.tracer.tensor_attrs = module, self.new_graph, {}

    def transform(self) -> GraphModule:
        with traceback.preserve_node_meta():
            module = super().transform()
        self.new_graph.output_node().meta.update(self.graph.output_node().meta)
        return module

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n.op == "placeholder" and isinstance(value, Proxy):
            value.node.type = n.type
        return value

    def call_module(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Record a call of a module, or what it does if the tracer says that it is no leaf."""
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)


class ShapeProp(core.ShapeProp, Interpreter):
    """The core's, for tensors of every kind.

    Args:
        gm: The module.
        fake_mode: Where given, or where one is active, nothing is computed: the graph runs on fake
            tensors, which have a shape and no numbers.

    In torch: ``torch.fx.passes.shape_prop.ShapeProp``.

    >>> import torch
    >>> from torch import fx
    >>> from torch._subclasses import FakeTensorMode
    >>> module = fx.symbolic_trace(torch.nn.Linear(20_000, 10_000, device="meta"))
    >>> ShapeProp(module, FakeTensorMode()).propagate(torch.ones(8, 20_000, device="meta")).shape
    torch.Size([8, 10000])
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode: Any = detect_fake_mode() if fake_mode is None else fake_mode
        if self.fake_mode is not None:
            from torch._dynamo.utils import deepcopy_to_fake_tensor  # takes seconds

            self.fake_module = deepcopy_to_fake_tensor(gm, self.fake_mode)

    def propagate(self, *args: Any) -> Any:
        if self.fake_mode is not None:
            args = tree_map_only(Tensor, self.fake_mode.from_tensor, args)
        return super().propagate(*args)

    def run_node(self, n: Node) -> Any:
        """Run a node and describe its value, in the fake mode if there is one.

        Sizes that depend on data are those of an earlier run, and new ones are noted down.
        """
        if self.fake_mode is None:
            return super().run_node(n)
        from torch.fx.experimental import symbolic_shapes as symbols  # takes a second

        self.module, real_module = self.fake_module, self.module
        try:
            with enable_python_dispatcher(), self.fake_mode:
                value = super().run_node(n)
        finally:
            self.module = real_module
        symbols.rebind_unbacked(self.fake_mode.shape_env, n, value)
        bindings = symbols.compute_unbacked_bindings(self.fake_mode.shape_env, value)
        if bindings:
            n.meta["unbacked_bindings"] = bindings
        return value

    def describe(self, a: Any) -> Any:
        if not isinstance(a, Tensor):
            return a
        if is_sparse_any(a):
            return TensorMetadata(a.shape, a.dtype, a.requires_grad, (), None, a.is_quantized, {})
        return super().describe(a)._replace(qparams=qparams(a) if a.is_quantized else {})

    def is_contiguous(self, a: Tensor, memory_format: torch.memory_format) -> bool:
        if self.fake_mode is None:
            return super().is_contiguous(a, memory_format)
        # Where it depends on a size that isn't known, the answer is no.
        return is_contiguous_for_memory_format_or_false(a, memory_format=memory_format)


def qparams(a: Tensor) -> dict[str, Any]:
    """Return what turns the integers of a quantised tensor into the numbers they stand for."""
    scheme = {"qscheme": a.qscheme()}
    if "per_tensor" in str(a.qscheme()):
        return scheme | {"scale": a.q_scale(), "zero_point": a.q_zero_point()}
    scales, zero_points = a.q_per_channel_scales().tolist(), a.q_per_channel_zero_points().tolist()
    return scheme | {"scale": scales, "zero_point": zero_points, "axis": a.q_per_channel_axis()}


class GpuClock(Interpreter):
    """Lets the GPU take the time of what it computes: Python goes on before it is done."""

    def run_nodes(self) -> Any:
        self.events: list[tuple[Node, Any, Any]] = []
        value = super().run_nodes()
        for node, start, end in self.events:
            end.synchronize()
            node.meta["seconds"] = start.elapsed_time(end) / 1e3
        return value

    def run_node(self, n: Node) -> Any:
        if not torch.cuda.is_available():
            return super().run_node(n)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        value = super().run_node(n)
        end.record()
        if any(each.is_cuda for each in tensors_in(value)):
            self.events.append((n, start, end))
        return value


class Profiler(core.Profiler, GpuClock):
    """The core's, which waits for a GPU where there is one."""


def profile(module: Any, *args: Any) -> str:
    """Return a table of the time and the memory of each node of a module."""
    return Profiler(module).profile(*args)
