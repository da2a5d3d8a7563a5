"""Provisional."""

import torch


class PathOfModule:
    """Name a module by its path below ``self.root``."""

    root: torch.nn.Module

    def path_of_module(self, mod: torch.nn.Module) -> str:
        """Return the dotted path of ``mod`` below the root."""
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError(f"no {type(mod).__name__} in {type(self.root).__name__}")
