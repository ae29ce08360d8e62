"""Commands that rename, star, tag, annotate and archive sessions."""
