"""Prices: how a model finds its row, and what a call costs."""
