"""`ash hooks`: let CLIs push their transcripts after each turn."""
