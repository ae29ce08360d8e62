"""`ash usage`: tokens and costs, as a table, JSON or CSV."""
