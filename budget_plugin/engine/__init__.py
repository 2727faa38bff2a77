"""Joins policy and store: verdict cache, admission, recording."""

from .engine import Engine

__all__ = ["Engine"]
