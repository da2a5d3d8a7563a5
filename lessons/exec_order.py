"""Gather parameters ahead of time: plan it from a record of the order in which they are used.

A model registers its layers in one order and uses them in another, so the plan needs a record of
the order of use. A tracer enters modules and creates proxies in the order of a real run. It is the
caller's object, so you replace two of its methods during the trace instead of subclassing it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from .graph import Node
from .proxy import Proxy
from .tracer import Tracer


class Fetch(NamedTuple):
    """While one module runs, gather the parameters of another, which runs later.

    Attributes:
        during: The module that runs.
        module: The module to gather.
    """

    during: nn.Module
    module: nn.Module


def units_in_order(
    order: Iterable[nn.Module], units: Collection[nn.Module]
) -> list[nn.Module]:  # step 1
    """Return the modules that are gathered as a whole, in the order of their first use.

    Args:
        order: Every module that was called, in the order of use, such as ``module_forward_order``:
            a module that was called twice is in it twice. It may be an iterator.
        units: The modules that ``fully_shard`` was called on.

    Returns:
        Each unit that is used, once.

    >>> first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> model = nn.Sequential(second, first)
    >>> units_in_order([model, second, first, second], {first, second}) == [second, first]
    True
    """
    raise NotImplementedError("exec_order: units_in_order")


def prefetch_plan(
    order: Sequence[nn.Module], sizes: Mapping[nn.Module, int], budget: int
) -> list[Fetch]:  # step 1
    """Plan to gather each module as early as memory allows.

    Say that ``a``, ``b`` and ``c`` run one after the other and have one byte each. With a budget of
    2, ``b`` can be gathered while ``a`` runs, and then memory is full. When ``a`` has run, its byte
    is free, so ``c`` can be gathered while ``b`` runs.

    A module takes up memory from the moment its gather begins until it has run. At any moment, the
    modules that run and all that are gathered ahead may together take up ``budget`` bytes.

    - Modules are gathered in the order of use; a small one doesn't overtake a large one.
    - A module that doesn't fit while any earlier one runs is gathered when its turn comes,
      whatever the budget says. There is no fetch for it.
    - A block may contain modules that are gathered on their own. They run while the block runs, so
      the block has run when the last of these in ``order`` has.

    Args:
        order: The modules in the order of use, each once (``units_in_order``).
        sizes: The bytes of each module's parameters, without those of modules inside it that are
            in ``order`` themselves.
        budget: The bytes that may be gathered at the same time.

    Returns:
        The fetches, in the order in which they begin.

    >>> a, b, c = (nn.Linear(2, 2) for _ in range(3))
    >>> plan = prefetch_plan([a, b, c], {a: 1, b: 1, c: 1}, budget=2)
    >>> plan == [Fetch(during=a, module=b), Fetch(during=b, module=c)]
    True
    >>> prefetch_plan([a, b, c], {a: 1, b: 9, c: 1}, budget=2)
    []
    """
    raise NotImplementedError("exec_order: prefetch_plan")


def apply_prefetch(fetches: Iterable[Fetch]) -> None:  # step 1
    """Tell FSDP2 which modules to gather while another runs.

    ``during.set_modules_to_forward_prefetch(modules)`` says it. A second call for the same module
    would replace the first, so call it once for each, with all its modules in order.

    In torch: ``FSDPModule.set_modules_to_forward_prefetch``.
    """
    raise NotImplementedError("exec_order: apply_prefetch")


NamedParameters = list[tuple[str, nn.Parameter]]


class ParamUsageInfo(NamedTuple):
    """Parameters that are used together, and the module they are used in.

    If a module was called, these are that module and all its parameters. If an operation took
    parameters as arguments, these are the module that was running and those parameters.

    In torch: ``torch.distributed.fsdp._trace_utils._ParamUsageInfo``.
    """

    module: nn.Module
    named_params: NamedParameters


class ExecutionInfo:
    """The record of a forward pass: which modules and parameters it used, and in which order.

    In torch: ``torch.distributed.fsdp._trace_utils._ExecutionInfo``.
    """

    def __init__(self, root_module: nn.Module) -> None:  # given
        # The module whose forward runs now
        self.curr_module = root_module
        # The root, then one entry for each call of a module
        self.module_forward_order = [root_module]
        # For the root and each module that was called: what it used, in order
        self.module_to_param_usage_infos: dict[nn.Module, list[ParamUsageInfo]] = {root_module: []}
        # The parameters in the order of their first use, and the same as a set
        self.param_forward_order: list[nn.Parameter] = []
        self.visited_params: set[nn.Parameter] = set()


@dataclass
class TracingConfig:
    """How to trace a model whose execution order you want to record.

    Attributes:
        tracer: The tracer to use; some models need a special one.
        concrete_args: Arguments of ``forward`` that are values instead of proxies.

    In torch: ``torch.distributed.fsdp._trace_utils.TracingConfig``.
    """

    tracer: Tracer | torch.fx.Tracer = field(default_factory=Tracer)
    concrete_args: dict[str, Any] | None = None


class ExecOrderTracer:
    """Watches a tracer at work, and records the execution order.

    Attributes:
        exec_info: The record of the last trace, an ``ExecutionInfo``; ``None`` before the first.
        parameters: All parameters of the root of that trace, by name.

    In torch: ``torch.distributed.fsdp._trace_utils._ExecOrderTracer``.
    """

    exec_info: Any = None

    @contextmanager
    def patch_tracer(
        self, tracer: Tracer | torch.fx.Tracer, root_module: nn.Module
    ) -> Iterator[None]:  # step 2
        """Watch ``tracer`` during a block, and record in ``exec_info`` what the model uses.

        In the block, ``tracer.call_module(module, …)`` runs ``self.record_call(original, module,
        …)``, and ``tracer.create_proxy(kind, …)`` runs ``self.record_node(original, kind, …)``;
        ``original`` is the method that the tracer had. The object gets these methods, and not its
        class, because other tracers aren't watched. After the block, even if it failed, the tracer
        has the methods that it had before: perhaps those of another watcher.

        When the block begins, ``exec_info`` is a new record, and ``parameters`` holds the root's
        parameters by name.

        In torch: ``_ExecOrderTracer.patch_tracer``.
        """
        raise NotImplementedError("exec_order: ExecOrderTracer.patch_tracer")

    def record_call(
        self, call_module: Callable[..., Any], module: nn.Module, *how: Any
    ) -> Any:  # step 3
        """Record that a module is called, and call it.

        While ``Net`` runs, it calls ``block``. The call is something that ``Net`` does, so
        ``Net``'s list gets ``ParamUsageInfo(block, all parameters of block)``; if ``block`` has no
        parameters, it gets nothing. From then on, ``block`` is running: it is ``curr_module``, and
        what happens goes to its own list, which is empty at first. After the call, ``Net`` is
        ``curr_module`` again.

        - ``module_forward_order`` gets ``block`` before anything inside it.
        - If ``block`` is called a second time, torch empties its list; you may also keep it.
        - Don't use a ``finally``: after an error, ``curr_module`` shows where it happened.

        Args:
            call_module: The tracer's method; return what it returns.
            module: The module that is called.
            *how: The other arguments of ``call_module``: forward, args, kwargs.

        In torch: ``_ExecOrderTracer._patched_call_module``.
        """
        raise NotImplementedError("exec_order: ExecOrderTracer.record_call")

    def record_node(
        self,
        create_proxy: Callable[..., Proxy],
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        *more: Any,
        **options: Any,
    ) -> Proxy:  # step 4
        """Create a node, and record the parameters that it uses.

        If there are any (``parameters_used``), the current module's list gets one more
        ``ParamUsageInfo``, of the current module and these parameters. ``param_forward_order`` and
        ``visited_params`` get those that weren't used before.

        Args:
            create_proxy: The tracer's method. Pass it all the other arguments, and return the proxy
                that it returns; ``proxy.node`` is the node.
            kind: The node's opcode.
            target: What the node calls or reads.
            args: Its positional arguments, proxies among them.
            *more: The other arguments of ``create_proxy`` by position.
            **options: Those by name.

        In torch: ``_ExecOrderTracer._patched_create_proxy``.
        """
        raise NotImplementedError("exec_order: ExecOrderTracer.record_node")

    def parameters_used(self, node: Node, args: tuple[Any, ...]) -> NamedParameters:  # step 4
        """Return the parameters that a new node uses, with their names.

        - ``call_module``: a leaf creates this node while it is being called, so it is the current
          module. The node uses all its parameters, by their names in the leaf, such as ``weight``.
        - ``call_function``, ``call_method``: those among the positional arguments, by their names
          in the root, such as ``block.scale``. They are proxies, yours or torch's. One of them is a
          parameter if its node's target is a parameter's name.
        - Other nodes use none.

        torch misses parameters that are nested in a list, passed by keyword or given to a leaf
        module, and mistakes an input for a parameter of the same name. You may do the same, or do
        better.

        A parameter that is passed twice is listed twice. ``args`` has the positional arguments as
        the model passed them: proxies, where ``node.args`` has nodes.
        """
        raise NotImplementedError("exec_order: ExecOrderTracer.parameters_used")


def named(parameters: Mapping[Any, nn.Parameter], nodes: list[Node]) -> NamedParameters:  # step 4
    """Return each parameter whose name is the target of a node, with that name, in their order.

    >>> graph, parameters = torch.fx.Graph(), {"bias": nn.Parameter(torch.zeros(2))}
    >>> nodes = [graph.get_attr("bias"), graph.placeholder("x")]
    >>> [name for name, _ in named(parameters, nodes)]
    ['bias']
    """
    raise NotImplementedError("exec_order: named")
