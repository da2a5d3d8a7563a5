"""What the lesson ``capture`` gives you: what torch must be told before a run, and refusals."""

from __future__ import annotations

import copy
import gc
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from traceback import extract_tb
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor as is_wrapped
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_is_leaf, tree_leaves, tree_map_only

aten = torch.ops.aten
lower: Any = torch  # some of its functions aren't in its type stubs
is_functional = lower._is_functional_tensor

INSTEAD = "use torch.where with a mask, or pass the number as an argument"
NO_DATA = f"needs the data of a tensor: {INSTEAD}"


class CaptureError(RuntimeError):
    """The model did something that a graph can't hold; the message names the model's line."""


# --- what a captured model consists of besides its graph ------------------------------------------


class Attribute(NamedTuple):
    """A tensor or an object that a model owns.

    Attributes:
        kind: ``"parameter"``, ``"buffer"`` or ``"constant"``.
        value: The tensor or the object.
        is_saved: Whether a buffer belongs to the ``state_dict``.
    """

    kind: str
    value: Any
    is_saved: bool = True


def state_of(model: nn.Module) -> dict[str, Attribute]:
    """Return all parameters and buffers of a model by all of their names, in the model's order."""
    saved = model.state_dict(keep_vars=True)
    buffers = dict(model.named_buffers(remove_duplicate=False))
    return {
        name: Attribute("parameter", each)
        if isinstance(each, nn.Parameter)
        else Attribute("buffer", each, name in saved)
        for name, each in {**saved, **buffers}.items()
        if isinstance(each, Tensor)
    }


def lift_constants(graph: Any, tensors: dict[str, Tensor]) -> dict[str, str]:
    """Turn the ``get_attr`` nodes of a graph into its first placeholders; return their targets."""
    constants = graph.find_nodes(op="get_attr")
    for node in reversed(constants):
        if tensors[node.target].grad_fn is not None:
            raise CaptureError(
                f"the model reads a tensor of shape {[*tensors[node.target].shape]} that was made "
                "of a parameter before: make it in forward"
            )
        next(iter(graph.nodes)).prepend(node)
        node.op = "placeholder"
    return {node.name: node.target for node in constants}


def same_memory(tensor: Any) -> Any:
    """Return another tensor of the same memory, which requires a gradient if the tensor does."""
    other = tensor.detach().requires_grad_(tensor.requires_grad)
    other._is_param = isinstance(tensor, nn.Parameter)  # then the other is one, too
    return other


def detached(tensor: Tensor) -> Tensor:
    """Return a tensor that requires no gradient: the given one, or a detached one."""
    return tensor.detach() if tensor.requires_grad else tensor


def stack_item(path: str, call: int, module: Any) -> tuple[str, tuple[str, str]]:
    """Return the item of ``nn_module_stack`` for one call of a module, as export writes it.

    >>> stack_item("net.0", 1, nn.ReLU())
    ('L__self__net.0@1', ('net.0', 'torch.nn.modules.activation.ReLU'))
    """
    number = f"@{call}" if call else ""
    kind = type(module)
    return f"L__self__{path}{number}", (path, f"{kind.__module__}.{kind.__qualname__}")


class FakeMode(FakeTensorMode):
    """Makes fake tensors, also during a call that no mode for functions of torch has seen.

    ``torch.from_numpy`` is such a call: its result comes to the dispatcher first.
    """

    def from_tensor(self, tensor: Tensor, **options: Any) -> FakeTensor:
        """Return a fake copy of a tensor."""
        with lower._C.DisableTorchFunction():
            return super().from_tensor(tensor, **options)


def is_followed(node: Any, constants: dict[str, Tensor]) -> bool:
    """Return whether autograd may follow a node's value: an input leads to it, not only numbers."""
    seen, waiting = {node}, [node]
    while waiting:
        each = waiting.pop()
        if each.op == "placeholder" or (
            each.op == "get_attr" and constants[each.target].requires_grad
        ):
            return True
        inputs = [] if each.target is aten.detach.default else each.all_input_nodes
        waiting += [one for one in inputs if one not in seen]
        seen.update(inputs)
    return False


def map_tensors(function: Callable[[Tensor], Any], value: Any) -> Any:
    """Return a value with ``function(tensor)`` in place of each tensor in it, also in containers.

    Operators rarely take other containers than tuples, lists and dicts. For these, this is several
    times as fast as torch's function, which it calls for the others.

    In torch: ``tree_map_only(Tensor, function, value)``.
    """
    if isinstance(value, Tensor):
        return function(value)
    if type(value) is tuple or type(value) is list:
        return type(value)([map_tensors(function, each) for each in value])
    if type(value) is dict:
        return {key: map_tensors(function, each) for key, each in value.items()}
    return value if tree_is_leaf(value) else tree_map_only(Tensor, function, value)


# --- the run --------------------------------------------------------------------------------------


@contextmanager
def prepared(model: Any, constants: dict[str, Tensor]) -> Iterator[None]:
    """While the block runs, torch and the model are as a capture needs them.

    Attention runs as small operators, and an error names the model's line. Afterwards, the model is
    as it was before.

    Args:
        model: A module, or a function.
        constants: The tensors from outside that the block reads; it may fill the dict.
    """
    with unchanged(model) as lost, small_operators(), no_custom_derivatives(), naming_the_line():
        yield
    refuse_lost(lost, constants)


@contextmanager
def naming_the_line() -> Iterator[None]:
    """Let each ``RuntimeError`` of the block be a ``CaptureError`` that names the model's line.

    That is the innermost line that led to an operator, outside torch and outside the package of
    the code that runs the block.
    """
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, NotImplementedError) and "HigherOrderOperator" not in str(error):
            raise  # of a module without a forward, or of a function that isn't written yet
        frames = extract_tb(error.__traceback__)
        caller = next(each for each in frames if each.filename != __file__)
        files = (__file__, caller.filename, torch.__file__)
        inside = tuple(f"{Path(file).parent}{os.sep}" for file in files)
        model = takewhile(lambda each: each.name != "__torch_dispatch__", frames)
        outside = [each for each in model if not each.filename.startswith(inside)]
        line = outside[-1] if outside else caller
        place = f"{line.filename}:{line.lineno} in {line.name}"
        raise CaptureError(f"{place} {in_words(error)}") from error


def in_words(error: RuntimeError) -> str:
    """Return what an error of the run means for the model."""
    if isinstance(error, DataDependentOutputException | DynamicOutputShapeException):
        return f"needs the data of a tensor, for {error.func}: {INSTEAD}"
    if "support functionalizing operators" in str(error):
        return "calls an operator that writes to its arguments: let it return the result instead"
    if "HigherOrderOperator" in str(error):
        return (
            "calls an operator that takes functions, such as torch.cond, which a graph of aten "
            "can't hold: compute both results and choose by torch.where"
        )
    return str(error)


def functionalized(call: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """Return ``call(*args)`` and the new ``args``, computed without a single write.

    A write becomes an operator that returns the new value, and views of what was written are read
    again.
    """
    mode = Functional()
    args = map_tensors(mode.as_input, args)
    lower._enable_functionalization(reapply_views=True)
    try:
        with mode:
            result = call(*args)
    finally:
        lower._disable_functionalization()
    return map_tensors(pure, (result, args))


def functional(tensor: Tensor) -> Tensor:
    """Return a wrapper of a tensor; writes to the wrapper leave the tensor as it is."""
    wrapper = lower._to_functional_tensor(tensor)
    if isinstance(tensor, nn.Parameter):  # then the wrapper is one, too: a leaf
        wrapper.requires_grad_(tensor.requires_grad)
        wrapper._is_param = True
    else:
        lower._mirror_autograd_meta_to(tensor, wrapper)
    return wrapper


def pure(tensor: Tensor) -> Tensor:
    """Return the value that a wrapper has now."""
    if not is_functional(tensor):
        return tensor
    lower._sync(tensor)
    return lower._from_functional_tensor(tensor)


def refuse_lost(replaced: dict[str, Tensor], constants: dict[str, Tensor]) -> None:
    """Refuse a model that reads a tensor and then keeps another one in its place."""
    read = set(map(id, constants.values()))
    for name, tensor in replaced.items():
        if id(tensor) in read:
            raise CaptureError(
                f"the model reads the tensor {name} and assigns another one, but a graph keeps no "
                "state between calls: register it as a buffer"
            )


class Functional(TorchFunctionMode):
    """Sees each call of a function of torch by the model, and refuses what a graph would get wrong.

    A graph has values, and autograd follows each of them. So a write that autograd doesn't see
    has no counterpart: one to ``y.data``, or under ``torch.no_grad()`` to a tensor that requires a
    gradient. Neither has a write that the caller sees elsewhere: in a global, or in two arguments
    that share memory.

    Attributes:
        constants: Each tensor from outside the run, and its wrapper, by the tensor's ``id``.
        sharing: The wrappers of the tensors of one memory, by the address of its fake storage.
        written: The addresses of the storages that the model wrote to.
        followed: The storages of tensors that autograd follows, by their address.
        trains: Whether gradients were enabled when the run began.
    """

    def __init__(self) -> None:
        super().__init__()
        self.constants: dict[int, tuple[Tensor, Tensor]] = {}
        self.sharing: dict[int, list[Tensor]] = {}
        self.written: set[int] = set()
        self.followed: dict[int, Any] = {}
        self.trains = torch.is_grad_enabled()

    def as_input(self, tensor: Tensor) -> Tensor:
        """Return the wrapper of an input."""
        wrapper = functional(tensor)
        self.follow(wrapper)
        self.share(tensor, wrapper)
        return wrapper

    def as_known(self, tensor: Tensor) -> Tensor:
        """Return the wrapper of a tensor from outside the run, or a tensor of the run itself."""
        if is_functional(tensor) or isinstance(tensor, FakeTensor) or is_wrapped(tensor):
            return tensor
        if id(tensor) not in self.constants:
            wrapper = functional(tensor)
            self.constants[id(tensor)] = tensor, wrapper
            self.follow(wrapper)
            mode: Any = detect_fake_mode()
            with _disable_current_modes():
                self.share(mode.from_tensor(tensor), wrapper)
        return self.constants[id(tensor)][1]

    def share(self, fake: Tensor, wrapper: Tensor) -> None:
        """Note the memory of a tensor from outside: several may have the same one."""
        several = self.sharing.setdefault(address(fake), [])
        several.append(wrapper)
        self.refuse_shared(several)

    def follow(self, tensor: Any) -> None:
        """Note the storage of a tensor that autograd follows."""
        if isinstance(tensor, Tensor) and tensor.requires_grad and is_functional(tensor):
            self.followed[address(tensor)] = tensor.untyped_storage()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch; this is what runs instead of the function."""
        args, kwargs = map_tensors(self.as_known, (args, kwargs or {}))
        if func == DATA.__get__:
            return args[0].detach()
        if getattr(func, "__name__", "") == "__get__":
            return func(*args, **kwargs)
        if func in UNSEEN:
            raise CaptureError(UNSEEN[func])
        if self.trains and not torch.is_grad_enabled():
            return self.without_gradients(func, args, kwargs)
        return self.called(func, args, kwargs)

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call a function, refuse a write that a graph would get wrong, and return the result."""
        leaves = tree_leaves((args, kwargs))
        if any(isinstance(each, torch.Generator) for each in leaves):
            raise CaptureError("draws from a generator, which a graph can't hold: leave it out")
        tensors = [each for each in leaves if isinstance(each, Tensor)]
        before = [(each, version(each), each.grad_fn) for each in tensors]
        result = func(*args, **kwargs)
        for tensor, number, function in before:
            if version(tensor) != number and is_functional(tensor):
                self.refuse_write(tensor, function)
        if func is torch.autograd.grad and not kwargs.get("create_graph"):
            result = tree_map_only(Tensor, Tensor.detach, result)
        for tensor in (*tensors, *tree_leaves(result)):
            self.follow(tensor)
        return result

    def without_gradients(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call a function under ``torch.no_grad()``: its arguments are detached in the graph."""
        detached: dict[int, tuple[Tensor, Tensor]] = {}

        def detach(tensor: Tensor) -> Tensor:
            if not tensor.requires_grad:
                return tensor
            return detached.setdefault(id(tensor), (tensor.detach(), tensor))[0]

        args, kwargs = tree_map_only(Tensor, detach, (args, kwargs))
        result = self.called(func, args, kwargs)
        back = {id(ours): theirs for ours, theirs in detached.values()}
        return tree_map_only(Tensor, lambda each: back.get(id(each), each), result)

    def refuse_write(self, tensor: Tensor, function: Any) -> None:
        """Refuse a write to a tensor unless the graph has the same effect."""
        storage = address(tensor)
        if storage in [address(wrapper) for _, wrapper in self.constants.values()]:
            raise CaptureError(
                "writes to a tensor from outside the model: register it as a buffer, or pass it as "
                "an argument"
            )
        self.written.add(storage)
        for several in self.sharing.values():
            self.refuse_shared(several)
        if self.trains and storage in self.followed and tensor.grad_fn is function:
            raise CaptureError(
                "writes to a tensor where autograd doesn't see it, so the graph would have another "
                "gradient: compute a new tensor instead, or capture under torch.no_grad()"
            )

    def refuse_shared(self, several: list[Tensor]) -> None:
        """Refuse a write to one of several tensors of one memory: the graph has each by itself."""
        if len(several) > 1 and self.written.intersection(map(address, several)):
            raise CaptureError(
                "writes to one of several tensors from outside that share memory: pass a clone of "
                "it, or make the view in forward"
            )


DATA: Any = Tensor.data  # a property
UNSEEN = {
    DATA.__set__: "assigns to the data of a tensor: use copy_, or compute a new tensor",
    Tensor.grad.__set__: "assigns a gradient, which a graph doesn't have",  # type: ignore
    Tensor.detach_: "detaches a tensor in place: use detach",
    Tensor.register_hook: "registers a hook for a gradient, which a graph doesn't have",
    Tensor.backward: "runs a backward, which adds to the gradients: use torch.autograd.grad",
    **dict.fromkeys((Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.data_ptr), NO_DATA),
}


def address(tensor: Tensor) -> int:
    """Return a number for a tensor's storage; views of one memory have the same."""
    return tensor.untyped_storage()._cdata


def version(tensor: Tensor) -> int:
    """Return how often a tensor's memory was written."""
    return 0 if tensor.is_inference() else tensor._version


@contextmanager
def no_custom_derivatives() -> Iterator[None]:
    """While the block runs, refuse each ``torch.autograd.Function`` that a gradient passes."""
    function: Any = torch.autograd.Function
    apply = vars(function)["apply"]
    trains = torch.is_grad_enabled()

    def refuse(kind: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        followed = trains and any(each.requires_grad for each in tensors)
        if followed and torch.is_grad_enabled() and not is_in_graph(kind):
            raise CaptureError(
                f"calls {kind.__name__}, whose derivative isn't in the graph: write it as an "
                "operator (torch.library.custom_op), or capture under torch.no_grad()"
            )
        return apply.__get__(None, kind)(*args, **kwargs)

    function.apply = classmethod(refuse)
    try:
        yield
    finally:
        function.apply = apply


def is_in_graph(kind: type) -> bool:
    """Return whether one of torch's own functions may be called: nothing is lost with it.

    That of ``torch.library`` belongs to an operator, which is a node. That of
    ``torch.utils.checkpoint`` only keeps tensors for later. ``torch.cond`` is refused later.
    """
    is_known = kind.__module__.startswith(("torch._library.", "torch._higher_order_ops."))
    return is_known or kind.__name__ == "_NoopSaveInputs"


def batch_norm(
    x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, *options: Any
) -> Any:
    """Compute ``aten._native_batch_norm_legit``, and write its two buffers by ``copy_``.

    Functionalization doesn't see these writes: ``aten.native_batch_norm`` hides them.
    """
    norm = aten._native_batch_norm_legit_functional.default
    *results, new_mean, new_variance = norm(x, weight, bias, mean, variance, *options)
    mean.copy_(new_mean)
    variance.copy_(new_variance)
    return tuple(results)


def rrelu(
    x: Tensor,
    noise: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> tuple[Tensor, Tensor]:
    """Compute ``aten.rrelu_with_noise_functional``: in training, its gradient is wrong."""
    if training:
        raise CaptureError(
            "rrelu draws slopes in training, and its gradient forgets them: use eval mode"
        )
    return torch.where(x <= 0, x * ((lower + upper) / 2), x), noise


def copy_of(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """Compute ``aten.copy``, which has no derivative: put the source into all of the target."""
    source = source.to(target.dtype).expand(target.shape)
    return aten.slice_scatter(target, source) if target.dim() else source.clone()


def as_strided_scatter(
    base: Tensor, source: Tensor, size: list[int], stride: list[int], offset: int | None = None
) -> Tensor:
    """Compute ``aten.as_strided_scatter``, whose derivative is wrong: write at these elements."""
    if not base.is_contiguous():
        raise CaptureError(
            "writes through as_strided into a tensor that isn't contiguous: clone it"
        )
    places = torch.arange(base.numel(), device=base.device).as_strided(size, stride, offset or 0)
    flat = base.reshape(-1).scatter(0, places.reshape(-1), source.reshape(-1))
    return flat.reshape(base.shape)


RULES: dict[Any, Callable[..., Any]] = {
    aten.lift_fresh.default: aten.lift_fresh_copy.default,
    aten._native_batch_norm_legit.default: batch_norm,
    aten.copy.default: copy_of,
    aten.rrelu_with_noise_functional.default: rrelu,
    aten.as_strided_scatter.default: as_strided_scatter,
}


@contextmanager
def unchanged(model: Any) -> Iterator[dict[str, Tensor]]:
    """After the block, give a model back the attributes, parameters and buffers that it had.

    Its lists, dicts and sets contain again what they contained.

    Yields:
        The tensors that the block replaced, by the name of the attribute; filled after the block.
    """
    lost: dict[str, Tensor] = {}
    before = [(each, copy.copy(each)) for each in containers_of(model)]
    try:
        yield lost
    finally:
        for container, contents in before:
            if [*map(id, items_of(container))] != [*map(id, items_of(contents))]:
                lost |= replaced(contents, container)
                container.clear()
                add = container.extend if isinstance(container, list | deque) else container.update
                add(contents)


@contextmanager
def small_operators() -> Iterator[None]:
    """While the block runs, switch off attention's fast path: one operator that hides many."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def replaced(before: Any, after: Any) -> dict[str, Tensor]:
    """Return the tensors in whose places a container has something else now, by their keys."""
    now = by_key(after)
    return {
        str(key): each
        for key, each in by_key(before).items()
        if isinstance(each, Tensor) and now.get(key) is not each
    }


def by_key(container: Any) -> dict[Any, Any]:
    """Return what a container holds by the key or the number of each; a set has no order."""
    if isinstance(container, set):
        return {each: each for each in container}
    return container if isinstance(container, dict) else dict(enumerate(container))


def items_of(container: Any) -> list[Any]:
    """Return what a container holds; of a dict, the keys too."""
    return [*container, *container.values()] if isinstance(container, dict) else [*container]


def containers_of(root: Any) -> Iterator[Any]:
    """Yield each list, dict, set and deque that an object reaches, its attributes included."""
    for each in reached_from(root):
        if isinstance(each, list | dict | set | deque):
            yield each
        elif isinstance(getattr(each, "__dict__", None), dict):
            yield vars(each)


def reached_from(root: Any) -> Iterator[Any]:
    """Yield an object and all that its items and attributes reach, but nothing inside a tensor."""
    seen, waiting = set(), [root]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type | ModuleType | str):
            continue
        seen.add(id(value))
        yield value
        if not isinstance(value, Tensor):
            waiting.extend(parts_of(value))


def parts_of(value: Any) -> Iterable[Any]:
    """Return what an object holds; of a function, the values that it was made with."""
    if isinstance(value, FunctionType):
        return [value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__]
    return gc.get_referents(value)


def refuse_hidden(name: str, tree: Any) -> None:
    """Refuse an argument or a result that holds tensors where a graph doesn't see them."""
    for leaf in tree_leaves(tree):
        if isinstance(leaf, Tensor):
            continue
        if any(isinstance(each, Tensor) for each in reached_from(leaf)):
            raise CaptureError(
                f"{name} has a {type(leaf).__name__}, which holds tensors but isn't a pytree: pass "
                "the tensors themselves, or call torch.utils._pytree.register_pytree_node"
            )
