"""What ``torch.compile`` does without a compiler; its kernels aren't in a graph of aten.

TorchInductor answers the same questions inside one pass over its own loops, so the steps have no
counterpart. What a backend owes its caller is true of any: the numbers, the gradients, the random
numbers, and another shape. ``aot_eager`` is torch's backend that does no more than that.
"""

from torch._dynamo.backends.debugging import aot_eager as backend

__all__ = ["backend"]
