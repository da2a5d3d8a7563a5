"""Grading a room: find what people handed in, judge it apart, and write one report.

Everything that comes from a submission may be hostile: names, sources, results, output.
"""
