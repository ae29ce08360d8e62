"""Reads that combine several queries of the store."""
