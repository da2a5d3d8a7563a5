"""Watch a tracer at work, and record what torch records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any

from torch import nn
from torch.fx import Node, Proxy
from torch.fx.proxy import TracerBase

from .record import ExecutionInfo, NamedParameters, ParamUsageInfo


class ExecOrderTracer:
    """Watch a tracer at work, and record the execution order.

    In torch: ``torch.distributed.fsdp._trace_utils._ExecOrderTracer``.

    Attributes:
        exec_info: the record of the last trace; ``None`` before the first.

    >>> from torch.fx import Tracer
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> watcher, tracer = ExecOrderTracer(), Tracer()
    >>> with watcher.patch_tracer(tracer, model):
    ...     graph = tracer.trace(model)
    >>> [type(module).__name__ for module in watcher.exec_info.module_forward_order]
    ['Sequential', 'Linear', 'ReLU', 'Linear']
    >>> [tuple(parameter.shape) for parameter in watcher.exec_info.param_forward_order]
    [(3, 2), (3,), (2, 3), (2,)]
    """

    def __init__(self) -> None:  # given
        self.exec_info: ExecutionInfo | None = None

    @contextmanager
    def patch_tracer(self, tracer: TracerBase, root_module: nn.Module) -> Iterator[None]:
        """Watch ``tracer`` within a ``with`` block, and record in ``exec_info`` what it uses.

        The tracer's ``call_module`` and ``create_proxy`` are replaced on the object, and only
        within the block, even if it fails. ``exec_info`` is a new record from the start.

        A module is recorded before it is called: in ``module_forward_order``, and, if it has
        parameters, with all of them in the list of the module that calls it. While it runs it is
        ``curr_module``, with an empty list of its own.

        A node is recorded after it was created: the parameters it uses are noted in the list of the
        current module, and, where they are new, in ``param_forward_order``.

        Args:
            tracer: any tracer; the block calls its ``trace``.
            root_module: the module that the block traces.
        """
        self.exec_info = ExecutionInfo(root_module)
        watcher = _Watcher(self, self.exec_info, list(root_module.named_parameters()))
        with (
            _watched(tracer, "call_module", watcher.call_module),
            _watched(tracer, "create_proxy", watcher.create_proxy),
        ):
            yield

    def parameters_used(
        self, own: NamedParameters, parameters: Mapping[str, nn.Parameter], node: Node, args: Any
    ) -> NamedParameters:
        """Name the parameters that a new node uses.

        A ``call_module`` node uses all parameters of the current module, by their names in it. A
        ``call_function`` or ``call_method`` node uses those among its positional arguments, by
        their names in the root: a proxy stands for a parameter if its node's target is the
        parameter's name. What is nested in a list or passed by keyword isn't looked at. Other
        nodes use none.

        Args:
            own: all parameters of the current module, by their names in it.
            parameters: all parameters of the root by name.
            node: the node.
            args: its positional arguments as the model passed them, proxies among them.

        Returns:
            A new list of names and parameters, in order, repeated where an argument is.
        """
        if node.op == "call_module":
            return list(own)
        if node.op not in ("call_function", "call_method"):
            return []
        targets: list[Any] = [arg.node.target for arg in args or () if isinstance(arg, Proxy)]
        return [(target, parameters[target]) for target in targets if target in parameters]

    def begin_usages(self, info: ExecutionInfo, module: nn.Module) -> None:
        """Give a module that is called an empty list of usages, also where it had one before.

        Args:
            info: the record.
            module: the module that is called.
        """
        info.module_to_param_usage_infos[module] = []


@dataclass
class _Watcher:
    """What happens around the tracer's two methods, on behalf of an ``ExecOrderTracer``."""

    rules: ExecOrderTracer
    info: ExecutionInfo
    own: NamedParameters  # those of the current module; at first, of the root

    def __post_init__(self) -> None:
        self.parameters = dict(self.own)

    def call_module(
        self, method: Callable[..., Any], module: nn.Module, forward: Any, args: Any, kwargs: Any
    ) -> Any:
        self.info.module_forward_order.append(module)
        own = list(module.named_parameters())
        self.note_usage(module, own)
        caller = self.info.curr_module, self.own
        self.info.curr_module, self.own = module, own
        self.rules.begin_usages(self.info, module)
        output = method(module, forward, args, kwargs)
        # Not in a `finally`: after a failure, the current module tells where it happened.
        self.info.curr_module, self.own = caller
        return output

    def create_proxy(
        self,
        method: Callable[..., Proxy],
        kind: str,
        target: Any,
        args: Any,
        kwargs: Any,
        *more: Any,
        **options: Any,
    ) -> Proxy:
        proxy = method(kind, target, args, kwargs, *more, **options)
        used = self.rules.parameters_used(self.own, self.parameters, proxy.node, args)
        self.note_usage(self.info.curr_module, used)
        self.note_first_uses(used)
        return proxy

    def note_usage(self, module: nn.Module, named_params: NamedParameters) -> None:
        """Note in the current module's list that ``module`` uses these parameters, if any."""
        if named_params:
            usages = self.info.module_to_param_usage_infos[self.info.curr_module]
            usages.append(ParamUsageInfo(module, named_params))

    def note_first_uses(self, named_params: NamedParameters) -> None:
        for _, parameter in named_params:
            if parameter not in self.info.visited_params:
                self.info.visited_params.add(parameter)
                self.info.param_forward_order.append(parameter)


@contextmanager
def _watched(tracer: TracerBase, name: str, around: Callable[..., Any]) -> Iterator[None]:
    """Call ``around`` instead of one of the tracer's methods, with the method as first argument."""
    method = getattr(tracer, name)
    own = vars(tracer).get(name)
    # `update_wrapper` keeps the signature: a tracer reads it before it passes `proxy_factory_fn`.
    setattr(tracer, name, update_wrapper(partial(around, method), method))
    try:
        yield
    finally:
        if own is None:
            delattr(tracer, name)
        else:
            setattr(tracer, name, own)
