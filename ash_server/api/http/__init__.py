"""HTTP concerns shared by all controllers."""
