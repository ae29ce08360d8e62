"""The building blocks that providers share."""
