"""Archives of sessions without a recent change."""
