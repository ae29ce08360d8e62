"""Benchmarks of Ash as ratios to common tools: `make bench` prints the table and writes RESULTS.md.

Nothing here is a test: no duration is ever asserted.
"""
