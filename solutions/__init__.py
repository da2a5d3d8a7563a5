"""The reference: the same files as in ``lessons/``, solved."""
