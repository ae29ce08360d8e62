"""Reads that combine several queries: pages of standard messages, inputs of projections."""
