"""Unlike the core: what code that is written for torch's interpreters relies on.

- ``initial_env`` gives values to nodes that then don't run.
- Arguments and results are converted as the graph says: a graph with flat inputs takes containers.
- ``boxed_run`` takes its arguments out of a list, so that each is freed after its last use.
- ``*args`` and ``**kwargs`` can be placeholders.
- An error has the node and the line of the model in its message; what is missing is named.
- ``Transformer`` keeps metadata and annotations, and asks its tracer which modules are leaves.
- ``ShapeProp`` runs on fake tensors.
- ``profile`` shows the memory, too, and measures operations on a GPU by the GPU's clock.

Better than in torch: an unused value is freed, ``initial_env`` is not changed, an error
keeps its type, a list stays a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch.fx import Proxy, Tracer, traceback
from torch.utils._pytree import tree_leaves, tree_map_only

from .. import interpreter as core
from .graph import map_arg

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn
    from torch.fx import GraphModule

    from ..graph import Graph, Node
    from ..interpreter import Args, Kwargs

__all__ = [
    "Interpreter",
    "Profiler",
    "ShapeProp",
    "Transformer",
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
        with traceback.set_current_meta(n, f"Interpreter_{type(self).__name__}"):  # type: ignore[arg-type]
            return super().run_node(n)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Args, Kwargs]:
        return self.map_nodes_to_values((n.args, n.kwargs), n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Return an argument of a node, with values in the place of nodes.

        Raises:
            RuntimeError: The value of a node isn't there.
        """
        try:
            return map_aggregate(args, lambda a: map_arg(a, self.env.__getitem__))
        except KeyError as error:
            raise RuntimeError(
                f"{n} needs the value of {error.args[0]}, which has not been computed or was freed "
                "already: `graph.lint()` says whether the nodes are in order"
            ) from error

    def placeholder(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Return the next argument, or the default; all that are left where the name has a star.

        Raises:
            RuntimeError: There is neither.
        """
        if target.startswith("**"):
            return {}
        if target.startswith("*"):
            return tuple(self.args_iter)
        try:
            return super().placeholder(target, args, kwargs)
        except StopIteration:
            raise RuntimeError(f"no value for the input {target}: pass one to run") from None

    def fetch_attr(self, target: str) -> Any:
        try:
            return super().fetch_attr(target)
        except AttributeError as error:
            raise RuntimeError(f"`{target}` is a nonexistent target: {error}") from error


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Return a copy of nested tuples, lists, dicts and slices, with a function applied inside.

    In torch: ``torch.fx.node.map_aggregate``, whose lists and dicts can't be changed.

    >>> map_aggregate([1, {"two": (2,)}, slice(3)], str)
    ['1', {'two': ('2',)}, slice('None', '3', 'None')]
    """
    if isinstance(a, tuple):
        items = [map_aggregate(each, fn) for each in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return [map_aggregate(each, fn) for each in a]
    if isinstance(a, dict):
        return {key: map_aggregate(each, fn) for key, each in a.items()}
    if isinstance(a, slice):
        return slice(*map_aggregate((a.start, a.stop, a.step), fn))
    return fn(a)


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
        if getattr(self.graph, "_codegen", None) is not None:
            self.new_graph.set_codegen(self.graph._codegen)
        self.tracer: Any = RecordingTracer()
        self.tracer.root, self.tracer.graph, self.tracer.tensor_attrs = module, self.new_graph, {}

    def transform(self) -> GraphModule:
        with traceback.preserve_node_meta():
            module = super().transform()
        old, new = self.graph.output_node(), self.new_graph.output_node()
        new.meta.update(old.meta)
        if old.type is not None:
            new.type = old.type
            module.recompile()
        return module

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n.op == "placeholder" and isinstance(value, Proxy):
            value.node.type = n.type
        return value

    def call_module(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Record a call of a module, or its operations if the tracer says that it isn't a leaf."""
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)


class ShapeProp(core.ShapeProp, Interpreter):
    """The core's, which needs no numbers.

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
        symbols.rebind_unbacked(self.fake_mode.shape_env, n, value)  # type: ignore[arg-type]
        bindings = symbols.compute_unbacked_bindings(self.fake_mode.shape_env, value)
        if bindings:
            n.meta["unbacked_bindings"] = bindings
        return value


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


def tensors_in(values: Any) -> list[Tensor]:
    """Return the tensors in nested containers."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


class Profiler(core.Profiler, GpuClock):
    """The core's, which waits for a GPU where there is one, and looks at the memory, too."""

    def run_node(self, n: Node) -> Any:
        """Run a node, and write the time it takes and the memory in use into its ``meta``.

        ``meta["bytes"]`` is the memory of this value and of all values in ``env``: what has to be
        there while the node runs.
        """
        value = super().run_node(n)
        n.meta["bytes"] = memory([value, *self.env.values()])
        return value


def memory(values: Any) -> int:
    """Return how many bytes the tensors in nested containers take; views share them."""
    storages = [each.untyped_storage() for each in tensors_in(values)]
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


def profile(module: Any, *args: Any) -> str:
    """Return a table of the time and the memory of each node of a module, in its second run.

    >>> import torch
    >>> from torch import fx
    >>> module = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> text = profile(module, torch.ones(250_000))
    >>> [(node.name, node.meta["bytes"]) for node in module.graph.nodes]
    [('x', 1000000), ('relu', 2000000), ('add', 2000000), ('output', 1000000)]
    """
    for _ in range(2):
        Profiler(module).run(*args)
    lines = ["node                                    ms        MB"]
    for node in module.graph.nodes:
        seconds, size = node.meta["seconds"], node.meta["bytes"]
        lines.append(f"{node.name:32}{seconds * 1e3:10.3f}{size / 1e6:10.3f}")
    return "\n".join(lines)
