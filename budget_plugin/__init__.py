"""hermes-budget: knows what every run costs and stops a run before it overspends.

Importing this package loads nothing heavy: the host calls `register` for every one of its commands.
"""

from typing import Any

__version__ = "0.1.0"


def register(ctx: Any) -> None:
    """Register hooks, middleware and commands with the host's plugin context."""
    from .hermes.plugin import register as register_with_host

    register_with_host(ctx)
