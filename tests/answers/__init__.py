"""Answers to every lesson: wrong ones that the suite must reject, right ones it must accept."""
