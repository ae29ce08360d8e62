"""What the subcommands of `ash` do; `cli` says how they are called, and imports each only when it runs."""
