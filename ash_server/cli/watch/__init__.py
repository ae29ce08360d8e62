"""`ash watch`: store transcripts while agents write them."""
