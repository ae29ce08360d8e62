"""The stored records of a session, compared with the lines of its file."""
