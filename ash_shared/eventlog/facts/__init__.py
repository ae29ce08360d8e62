"""Facts of a session beside its events: tool calls, files, prompts, turns and active time."""
