"""Reports about sessions."""
