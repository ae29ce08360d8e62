"""`ash reindex`: read stored messages again with this version."""
