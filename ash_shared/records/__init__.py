"""Building blocks shared by the providers."""
