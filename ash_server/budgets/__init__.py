"""Budgets: limits of the cost of a tenant or a project, and webhooks that report when they are passed."""
