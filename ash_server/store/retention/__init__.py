"""Retention: policies, sessions scheduled for deletion, and sessions without a recent change."""
