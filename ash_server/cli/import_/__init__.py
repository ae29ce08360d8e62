"""`ash import`: import transcript files, and discover those of the CLIs of this machine."""
