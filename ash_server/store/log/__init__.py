"""The event log of a session: rows, writer, ranges, notifications and subscriptions."""
