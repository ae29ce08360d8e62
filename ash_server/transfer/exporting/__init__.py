"""From sessions to files."""
