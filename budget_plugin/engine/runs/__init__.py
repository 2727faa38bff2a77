"""Budgets of single runs at work: how they begin, what they may, how they end."""
