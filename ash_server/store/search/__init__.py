"""Full-text search over event logs."""
