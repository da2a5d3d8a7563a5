"""How fast the reference is beside torch: same inputs, same process, equal results.

``benchmarks/test_<lesson>.py`` says what is timed. pytest-benchmark runs these files for whatever
implementation is asked for, your lessons as well; ``python -m benchmarks`` races the reference
against torch, prints tables, and writes ``benchmarks/figures.md``, which docs/performance.md shows.
"""
