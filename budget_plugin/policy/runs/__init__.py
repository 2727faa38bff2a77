"""Bounded runs: the budget of one run, its low water, its end and its receipt."""
