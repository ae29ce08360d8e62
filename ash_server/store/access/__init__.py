"""Keys of clients, and links that need no key."""
