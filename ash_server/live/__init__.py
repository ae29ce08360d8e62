"""Live subscriptions and background tasks of the server."""
