"""The maintainer's own tests: the house rules, the answers, the runner, the site.

They run beside the reference only (``--impl solutions``).
"""
