"""Typed access to what is stored: one repository per resource, over the SQL of `ash_server.db`."""
