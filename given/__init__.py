"""Plumbing that lessons are given: called by your code and by the reference alike."""
