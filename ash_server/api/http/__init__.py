"""What every HTTP request and response has in common."""
