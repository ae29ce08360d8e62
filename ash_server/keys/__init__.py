"""Keys: their digests, and the ones that a server remembers."""
