"""Builds the documentation as a site: `make docs`."""
