"""torch's ``path_of_module``."""

import torch


class PathOfModule(torch.fx.Tracer):
    """torch's ``Tracer`` as it is: its ``path_of_module`` judges the tests."""
