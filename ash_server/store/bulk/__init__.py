"""Statements for many sessions at once."""
