"""Sessions in SQLite files of other programs."""
