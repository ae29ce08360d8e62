"""Lists of sessions and of projects, and counts of sessions."""
