"""From files to sessions and back."""
