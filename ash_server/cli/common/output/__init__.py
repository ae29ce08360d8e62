"""Output of commands: terminal, messages, events, and pages in a browser."""
