"""The `ash` command line: one module per command, imported when the command runs."""
