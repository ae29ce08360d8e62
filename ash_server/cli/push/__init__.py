"""`ash push`: send transcripts to a server, and follow them while they grow."""
