"""Lists of sessions and of projects."""
