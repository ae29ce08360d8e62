"""From the lines of a session to its standard messages."""
