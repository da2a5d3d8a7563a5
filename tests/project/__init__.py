"""The maintainer's own tests: the repository, the answers, the runner, the site.

They run beside the reference only (``--impl full``).
"""
