"""Facts of sessions, stored in the transaction of their events: tool calls, files, and the counts of both."""
