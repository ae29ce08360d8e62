"""Typed access to the stored data: one repository per resource, on top of the SQL in `ash_server.store`."""
