"""From files to sessions."""
