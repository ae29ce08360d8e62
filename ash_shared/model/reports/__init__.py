"""Reports about sessions, as the API returns them."""
