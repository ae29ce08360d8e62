"""Usage and cost of answers: facts stored with events, sums by quarter of an hour, and their reading."""
