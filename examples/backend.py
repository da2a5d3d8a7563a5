"""Your backend turns a chain of eight operations into one loop of C++ for torch.compile."""

import time

import torch

from lessons import backend as yours
from lessons.capture import capture


def chain(x, y):
    return ((x * y + 1) * (x - y) + x * 0.5).relu() * y - x


def milliseconds(function, *args):
    function(*args)
    times = []
    for _ in range(10):
        start = time.perf_counter()
        function(*args)
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


x, y = torch.randn(1024, 1024), torch.randn(1024, 1024)
(kernel,) = yours.kernels(capture(chain, (x, y)).graph)
print(yours.CppWriter(kernel).source())
compiled = torch.compile(chain, backend=yours.backend)
print("largest difference from eager:", (compiled(x, y) - chain(x, y)).abs().max().item())
print(f"eager {milliseconds(chain, x, y):.2f} ms, compiled {milliseconds(compiled, x, y):.2f} ms")
