"""torch's ``path_of_module`` as a mixin."""

import torch


class PathOfModule(torch.fx.Tracer):
    pass
