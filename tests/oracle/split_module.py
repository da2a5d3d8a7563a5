"""torch's ``split_module``; its steps are loops inside one function, without names."""

from torch.fx.passes.split_module import split_module

__all__ = ["split_module"]
