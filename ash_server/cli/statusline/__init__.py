"""`ash statusline`: one line for the status line of Claude Code."""
