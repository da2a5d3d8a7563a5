"""The shared suite: it judges your lessons, the reference and torch itself."""
