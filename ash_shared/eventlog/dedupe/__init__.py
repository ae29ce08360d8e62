"""Deduplication of content that a session holds more than once."""
