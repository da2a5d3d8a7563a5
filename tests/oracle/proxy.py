"""torch's own proxies, and what they report to."""

from torch.fx import proxy

globals().update(vars(proxy))
