"""Provisional."""

import torch


class PathOfModule:
    """Name a module by its path below ``self.root``."""

    root: torch.nn.Module

    def path_of_module(self, mod: torch.nn.Module) -> str:
        """Return the dotted path of ``mod`` below the root."""
        raise NotImplementedError(
            "path_of_module: return the dotted path of ``mod`` below the root"
        )
