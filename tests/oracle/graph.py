"""torch's own graph, nodes and names."""

from torch.fx import Graph, Node
from torch.fx.graph import _Namespace
from torch.fx.node import map_arg

__all__ = ["Graph", "Namespace", "Node", "map_arg"]


class Namespace(_Namespace):
    """torch's, which can tie a name to an object besides."""

    def create_name(self, candidate: str, obj: object = None) -> str:
        return super().create_name(candidate, obj)
