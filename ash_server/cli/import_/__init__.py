"""`ash import`: import transcript files, or discover the ones that local CLIs have written."""
