"""The reference: ``<lesson>.py`` is the core, ``stretch/`` what PyTorch does besides."""
