"""Export sessions to files."""
