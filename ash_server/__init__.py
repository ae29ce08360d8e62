"""Ash's library."""
