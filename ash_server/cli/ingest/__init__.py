"""`ash ingest`."""
