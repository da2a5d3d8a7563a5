"""Unlike the core: what code that is written for torch's interpreters relies on.

- ``initial_env`` gives values to nodes that then don't run; it is not changed.
- Arguments and results are converted as the graph says: a graph with flat inputs takes containers.
- ``boxed_run`` takes its arguments out of a list. An unused value is freed, too.
- ``*args`` and ``**kwargs`` can be placeholders.
- An error names the line of the model, and keeps its type and its arguments.
- ``Transformer`` keeps metadata, and asks its tracer which modules are leaves.
- ``ShapeProp`` runs on fake tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch.fx import Tracer, traceback
from torch.utils._pytree import tree_map_only

from .. import interpreter as core
from .graph import map_arg

if TYPE_CHECKING:
    from torch import nn
    from torch.fx import GraphModule

    from ..graph import Graph, Node
    from ..interpreter import Args, Kwargs


class Interpreter(core.Interpreter):
    """The core's interpreter, for all that torch's is used for."""

    extra_traceback = True

    def __init__(
        self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        super().__init__(module, garbage_collect_values, graph)
        self.garbage_collect_values = garbage_collect_values
        self.user_to_last_uses, self.name = self.last_uses, type(self).__name__
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
        """
        return self.run_in({**(initial_env or {})}, args, enable_io_processing)

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph with the values in a list, which is emptied: nothing else holds them."""
        placeholders = (node for node in self.graph.nodes if node.op == "placeholder")
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
        """Name the node, and the line of the model that it comes from, in notes."""
        if not self.extra_traceback:
            return
        super().explain(error, n)
        if "stack_trace" in n.meta:
            error.add_note(f"Original traceback:\n{n.meta['stack_trace']}")

    def run_node(self, n: Node) -> Any:
        if not traceback.has_preserved_node_meta():
            return super().run_node(n)
        # A tracer that records the run, such as ``make_fx``, copies the node's metadata from there.
        with traceback.set_current_meta(n, f"Interpreter_{type(self).__name__}"):  # type: ignore[arg-type]
            return super().run_node(n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Return an argument of ``n`` with the values of the nodes in it."""
        return map_arg(args, self.env.__getitem__)

    def placeholder(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Return the next argument, or the default; all that are left where the name has a star."""
        if target.startswith("**"):
            return {}
        if target.startswith("*"):
            return tuple(self.args_iter)
        return super().placeholder(target, args, kwargs)


class RecordingTracer(Tracer):
    """Records a graph again: no module is looked into."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


class Transformer(core.Transformer, Interpreter):
    """The core's, which keeps the metadata of the nodes."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        if getattr(self.graph, "_codegen", None) is not None:
            self.new_graph.set_codegen(self.graph._codegen)
        self.tracer: Any = RecordingTracer()
        self.tracer.root, self.tracer.graph, self.tracer.tensor_attrs = module, self.new_graph, {}

    def transform(self) -> GraphModule:
        with traceback.preserve_node_meta():
            module = super().transform()
        self.new_graph.output_node().meta.update(self.graph.output_node().meta)
        return module

    def placeholder(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Record an input; its default stays what it is, even a tensor."""
        proxy = self.record("placeholder", target, (), kwargs)
        proxy.node.args = args
        return proxy

    def call_module(self, target: str, args: Args, kwargs: Kwargs) -> Any:
        """Record a call of a module, or its operations if the tracer says that it isn't a leaf."""
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)


class ShapeProp(core.ShapeProp, Interpreter):
    """The core's, which needs no numbers.

    Args:
        gm: The module.
        fake_mode: If there is one, given or active, nothing is computed: the graph runs on fake
            tensors, which have a shape and no numbers.

    In torch: ``torch.fx.passes.shape_prop.ShapeProp``.
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
        """Run a node and describe its value, in the fake mode if there is one."""
        if self.fake_mode is None:
            return super().run_node(n)
        self.module, real_module = self.fake_module, self.module
        try:
            with enable_python_dispatcher(), self.fake_mode:
                return super().run_node(n)
        finally:
            self.module = real_module
