"""Values of usage, cost and budgets."""
