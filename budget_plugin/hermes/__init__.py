"""Speaks to Hermes: the only place that knows the host's hooks, ids and dictionaries."""
