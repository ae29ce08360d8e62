"""The REST API: one controller per resource, and what every request and answer has in common."""
