"""What the lesson ``backend`` gives you: facts about nodes, the C compiler, calls into C."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import math
import multiprocessing
import operator
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions

aten = torch.ops.aten

# --- facts about values and nodes


def is_plain(value: Any) -> bool:
    """Return whether a loop can read a value: dense float32 on the CPU, without a size of 0."""
    return is_dense(value) and (value.dtype, value.device.type) == (torch.float32, "cpu")


def is_dense(value: Any) -> bool:
    """Return whether a value is a contiguous tensor of a known shape, without a size of 0."""
    return (
        isinstance(value, Tensor)
        and all(type(size) is int and size > 0 for size in value.shape)
        and value.layout is torch.strided
        and value.is_contiguous()
    )


def value_of(node: Any) -> Any:
    """Return the result of a node as a tensor without data; ``None`` if the node has no ``val``."""
    return node.meta.get("val")


def shape_of(node: Any) -> tuple[int, ...]:
    """Return the shape of a node's result."""
    return tuple(value_of(node).shape)


def row_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of one number per row.

    >>> row_shape((4, 3))
    (4, 1)
    """
    return (*shape[:-1], 1)


def arguments(node: Any) -> dict[str, Any]:
    """Return the arguments of an operator's node by their names, with the defaults.

    >>> x = torch.fx.Graph().placeholder("x")
    >>> arguments(x.graph.call_function(torch.ops.aten.add.Tensor, (x, 2)))
    {'self': x, 'other': 2, 'alpha': 1}
    """
    schema = node.target._schema.arguments
    passed = dict(zip([each.name for each in schema], node.args, strict=False)) | node.kwargs
    return {each.name: passed.get(each.name, each.default_value) for each in schema}


def reduces_rows(node: Any) -> bool:
    """Return whether a reduction makes one number of each row, as ``x.sum(-1, keepdim=True)``."""
    given = arguments(node)
    *rest, columns = shape_of(given["self"]) or (1,)
    is_last = given["dim"] in ([-1], [len(rest)])
    return bool(given["keepdim"] and is_last and is_plain(value_of(given["self"])) and columns > 1)


def is_constant(argument: Any) -> bool:
    """Return whether C code can contain an argument that isn't a node."""
    is_number = isinstance(argument, int | float) and not math.isnan(argument)
    return is_number or argument is None or isinstance(argument, str)


def constant(argument: Any) -> str:
    """Return an argument that isn't a node as C code, with all its digits.

    >>> [constant(argument) for argument in (2, 1e-8, -math.inf, None)]
    ['2.0f', '1e-08f', '(-INFINITY)', 'NAN']
    """
    if isinstance(argument, str):
        return argument
    special = {None: "NAN", math.inf: "INFINITY", -math.inf: "(-INFINITY)"}
    return special.get(argument) or f"{float(argument)!r}f"


def is_barrier(node: Any) -> bool:
    """Return whether no other node may move past a node, because it writes or is random."""
    if not node.op.startswith("call_") or node.target is operator.getitem:
        return False
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return True  # it may do anything
    return target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags


# --- operators that a loop can't run, in terms of those that it can


def layer_norm(x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Normalise each row. Over more than the last dimension, the operator stays as it is."""
    if len(shape) != 1:
        return NotImplemented
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    scale = torch.rsqrt((centred * centred).mean(-1, keepdim=True) + eps)
    result = centred * scale
    result = result if weight is None else result * weight
    return (result if bias is None else result + bias), mean, scale


def power(x: Tensor, exponent: Any) -> Any:
    """Return a square or a cube. Any other power stays as it is."""
    if exponent not in (2, 3):
        return NotImplemented
    return x * x if exponent == 2 else x * x * x


def guarded(is_right: Any, rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule for the tensors that ``is_right`` accepts; others keep their operator."""

    def decided(x: Any, *args: Any, **kwargs: Any) -> Any:
        return rule(x, *args, **kwargs) if is_right(x) else NotImplemented

    return decided


TORCHS = "_softmax _softmax_backward_data gelu_backward silu_backward hardswish_backward"
RULES: dict[Any, Callable[..., Any]] = {
    **get_decompositions([getattr(aten, name) for name in TORCHS.split()]),
    aten.native_layer_norm.default: layer_norm,
    aten.pow.Tensor_Scalar: power,
}
TABLE = {op: guarded(is_plain, rule) for op, rule in RULES.items()}


# --- torch.compile


def ahead_of_time(lowering: Any, table: dict[Any, Any]) -> Callable[..., Any]:
    """Return a backend that captures the forward and the backward graph, and lowers both.

    So a compiled model can be trained.

    Args:
        lowering: Takes a flat graph as a module, and returns the module that runs instead.
        table: Functions that compute an operator from smaller ones.

    In torch: ``torch._dynamo.backends.common.aot_autograd``.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func  # type: ignore[attr-defined]

    return aot_autograd(
        fw_compiler=lambda flat, inputs: make_boxed_func(lowering(flat)), decompositions=table
    )


def copy_meta(calls: dict[Any, Any]) -> None:
    """Give the nodes that have the outputs of partitions copies of the ``meta`` of the old ones.

    Args:
        calls: From the call of each partition, in the new graph, to the partition.
    """
    for call, partition in calls.items():
        values = [call] if partition.returns_single else call.users
        for new, old in zip(values, partition.outputs, strict=True):
            new.meta.update(old.meta)


# --- the compiler

# As in TorchInductor, a product is rounded before it is added: so x * x - y * y is 0 for x == y.
FLAGS = ["-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
# The first that the compiler has: Apple's has no OpenMP, and old ones on ARM no -march=native.
OPTIONS = [["-march=native", "-fopenmp"], ["-march=native", "-fopenmp-simd"], ["-fopenmp-simd"], []]


def compiled(text: str) -> ctypes.CDLL | None:
    """Return the library of a C text; ``None``, after one warning, if it can't be compiled.

    The same text is compiled only once on this machine.
    """
    try:
        return library_of(text)
    except OSError as error:
        warnings.warn(f"the graph isn't compiled: {error}", RuntimeWarning, stacklevel=3)
        return None


def library_of(text: str) -> ctypes.CDLL:
    """Return the library of a C text, from the cache or from the compiler.

    Its name is a hash of all that affects its content: the compiler, its options, and the text.

    Raises:
        OSError: There is no compiler, or it failed.
    """
    compiler = find_compiler()
    content = "\0".join([compiler, *FLAGS, str(OPTIONS), os.environ.get("CFLAGS", ""), text])
    name = hashlib.sha256(content.encode()).hexdigest()[:20]
    library = library_folder() / f"{name}.so"
    with contextlib.suppress(OSError):  # it isn't there, or isn't whole
        return ctypes.CDLL(str(library))
    build(compiler, text, library)
    return ctypes.CDLL(str(library))


def find_compiler() -> str:
    """Return the C compiler: the one that ``CC`` names, or the first one that is installed.

    Raises:
        OSError: There is none.
    """
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    for path in map(shutil.which, filter(None, names)):
        if path:
            return path
    raise OSError("there is no C compiler: install one, or name it in the variable CC")


def library_folder() -> Path:
    """Return the folder with compiled kernels, into which no other user can write.

    There is one per user of a machine; the variable ``KATA_KERNELS`` names another.

    Raises:
        PermissionError: Somebody else made it, or may write into it.
    """
    user = os.getuid() if hasattr(os, "getuid") else None  # Windows has none
    usual = Path(tempfile.gettempdir(), f"fx-kata-kernels-{user or 0}")
    folder = Path(os.environ.get("KATA_KERNELS", usual))
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()  # of a link, its own
    if user is not None and (found.st_uid != user or found.st_mode & 0o022):
        raise PermissionError(f"{folder} isn't yours alone: set TMPDIR to a folder of yours")
    return folder


def build(compiler: str, text: str, library: Path) -> None:
    """Compile C to a library, with the first of ``OPTIONS`` that works.

    The options in the variable CFLAGS come after them.
    """
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        source, result = Path(folder, "kernels.c"), Path(folder, "kernels.so")
        source.write_text(text, encoding="utf-8")
        for options in OPTIONS:
            command = [
                compiler,
                *FLAGS,
                *options,
                *shlex.split(os.environ.get("CFLAGS", "")),
                "-shared",
                "-fPIC",
                str(source),
                "-o",
                str(result),
                "-lm",
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                result.replace(library)  # at once: another process may look for it
                return
    raise OSError(f"{compiler} failed: {first_error(done.stderr)}")


def first_error(printed: str) -> str:
    """Return what a compiler prints about the first error: the message, and the line below it."""
    printed = re.sub(r"\S*kernels\.c:", "line ", printed.strip())
    _, error, text = printed.partition("error: ")
    return "\n".join((error + text if error else printed).splitlines()[:3])[:500]


# --- the functions that kernels call

# Each is a few multiplications that compilers turn into vector instructions on any machine; those
# of the C library are called for one element at a time. The polynomials of exp_ and tanh_ are those
# of the Cephes library (S. Moshier), those of erf_ our own fits.
HEADER = """\
#include <math.h>
#include <stdlib.h>
static inline float max_(float a, float b) { return a != a || a > b ? a : b; }  // nan stays nan
#pragma omp declare reduction(max_ : float : omp_out = max_(omp_out, omp_in)) \\
    initializer(omp_priv = -INFINITY)
static inline float abs_(float x) { return __builtin_fabsf(x); }
static inline float sqrt_(float x) { return __builtin_sqrtf(x); }
static inline float relu_(float x) { return x < 0 ? 0 : x; }
static inline float pass_(float x, float threshold, float y) { return x <= threshold ? 0 : y; }
static inline float clamp_(float x, float low, float high) {  // no number is below or above NAN
    x = x < low ? low : x;
    return x > high ? high : x;
}
static inline float fma_(float a, float b, float c) {  // a * b + c, in one step where that is fast
#ifdef __FP_FAST_FMAF
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}
static inline float exp_(float x) {  // (2^n * p(r))^2, where |r| <= log(2) / 2
    float c = 0.5f * clamp_(x, -106, 90);  // of the half: then no 2^n is too small or too large
    float n = __builtin_floorf(fma_(c, 1.44269504f, 0.5f));
    float r = fma_(n, 2.12194440e-4f, fma_(n, -0.693359375f, c));
    float p = fma_(fma_(1.9875691e-4f, r, 1.3981999e-3f), r, 8.3334519e-3f);
    p = fma_(fma_(fma_(fma_(fma_(p, r, 4.1665795e-2f), r, 1.6666665e-1f), r, 0.5f), r, 1), r, 1);
    union { int bits; float number; } power = { ((int)n + 127) << 23 };
    return (p * power.number) * (p * power.number);
}
static inline float erf_(float x) {  // errors are below 2 units of the last digit of 1
    float a = abs_(x) > 4 ? 4 : abs_(x), z = a * a;
    float p = fma_(fma_(5.5688626e-5f, z, -7.1268424e-4f), z, 5.0571393e-3f);
    p = fma_(fma_(fma_(p, z, -2.6762025e-2f), z, 0.11280626f), z, -0.37612271f);
    p = fma_(p, z, 1.1283791f);
    float q = fma_(fma_(-2.5888864e-4f, a, 2.7557202e-3f), a, -3.5296921e-3f);
    q = fma_(fma_(fma_(q, a, -0.03827206f), a, -0.069496922f), a, 0.99962974f);
    q = q * q * q * q;  // its fourth power is 1 - erf, which is tiny for large numbers
    return a < 1.35f ? x * p : __builtin_copysignf(1 - q * q * q * q, x);
}
static inline float tanh_(float x) {
    float a = abs_(x), z = a * a;
    float p = fma_(fma_(-5.70498872745e-3f, z, 2.06390887954e-2f), z, -5.37397155531e-2f);
    p = fma_(fma_(p, z, 1.33314422036e-1f), z, -3.33332819422e-1f);
    float large = 1 - 2 / (exp_(2 * a) + 1);
    return __builtin_copysignf(a < 0.625f ? fma_(a * z, p, a) : large, x);
}
static inline float gelu_none(float x) { return 0.5f * x * (1 + erf_(x * 0.70710678f)); }
static inline float gelu_tanh(float x) {
    return 0.5f * x * (1 + tanh_(0.79788456f * (x + 0.044715f * x * x * x)));
}
"""


# --- calls from torch into C


def taking_tensors(run: Any, shape: tuple[int, ...], columns: int) -> Callable[..., None]:
    """Return a C function as one that takes tensors, for a loop over a shape.

    Call it with all inputs, then all outputs, as ``launch(*inputs, *outputs)``.

    Args:
        run: The C function.
        shape: The shape that its loop runs over.
        columns: How many elements a row has.
    """
    count = math.prod(shape)
    sizes = [ctypes.c_longlong(each) for each in (-(-count // columns), columns, count)]
    # Threads of OpenMP don't survive a fork: a child that waits for them waits forever.
    is_alone = count <= 16384 or multiprocessing.parent_process() is not None

    def call(*tensors: Tensor) -> None:
        pointers = [ctypes.c_void_p(each.data_ptr()) for each in tensors]
        threads = 1 if is_alone else torch.get_num_threads()
        run(ctypes.c_int(threads), *sizes, *pointers)

    return call


def checked(node: Any, tensor: Tensor) -> Tensor:
    """Return a contiguous tensor, if it has the properties that the graph records for the node.

    Raises:
        ValueError: It has another shape, dtype or device, or it needs a gradient.
    """
    expected = value_of(node)
    is_alike = tensor.dtype == expected.dtype and tensor.device == expected.device
    if not is_alike or tensor.shape != expected.shape:
        before, now = (
            f"{tuple(each.shape)} of {each.dtype} on {each.device}" for each in (expected, tensor)
        )
        raise ValueError(
            f"{node.name} was {before} when the graph was lowered, and is {now}: lower it for "
            "these inputs, or use torch.compile(model, backend=backend), which does"
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"{node.name} needs a gradient, and a kernel has none: use torch.no_grad(), or "
            "torch.compile(model, backend=backend), which lowers a backward graph too"
        )
    return tensor.resolve_neg().contiguous()
