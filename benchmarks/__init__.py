"""How fast Ash is, as ratios to what everyone has: `make bench` prints the table and writes RESULTS.md.

Nothing here is a test: no time is ever asserted.
"""
