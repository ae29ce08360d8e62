"""The REST API: one controller per resource, in a file named like its path."""
