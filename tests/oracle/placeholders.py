"""torch's ``create_args_for_root``."""

import torch


class Placeholders(torch.fx.Tracer):
    """torch's ``Tracer`` as it is: its ``create_args_for_root`` judges the tests."""
