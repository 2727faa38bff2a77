"""Decides. Pure functions and frozen values: standard library only, no I/O, `now` is given."""
