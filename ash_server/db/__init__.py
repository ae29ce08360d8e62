"""The store: everything that knows PostgreSQL."""
