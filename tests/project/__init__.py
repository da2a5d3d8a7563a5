"""The maintainer's own tests: the repository, the answers, the runner, the site.

They run only with the reference (``--impl full``).
"""
