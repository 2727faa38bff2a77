"""hermes-budget: knows what every run costs and stops a run before it overspends.

Importing this package loads nothing heavy: the host calls `register` for every one of its commands.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .policy import claims, continuation, loops, tiers
    from .policy.money import parse_usd
    from .policy.runs.endings import Outcome, TerminalState
    from .policy.runs.receipts import Receipt
    from .policy.runs.run_budget import RunBudget
    from .policy.runs.run_limits import Cause, Meter, RunLimits, RunRules

__all__ = [
    "Cause",
    "Meter",
    "Outcome",
    "Receipt",
    "RunBudget",
    "RunLimits",
    "RunRules",
    "TerminalState",
    "claims",
    "continuation",
    "loops",
    "parse_usd",
    "register",
    "tiers",
]

_HOME_OF = {
    "__version__": ".version",
    "Cause": ".policy.runs.run_limits",
    "Meter": ".policy.runs.run_limits",
    "Outcome": ".policy.runs.endings",
    "Receipt": ".policy.runs.receipts",
    "RunBudget": ".policy.runs.run_budget",
    "RunLimits": ".policy.runs.run_limits",
    "RunRules": ".policy.runs.run_limits",
    "TerminalState": ".policy.runs.endings",
    "parse_usd": ".policy.money",
}


_MODULES = {
    "claims": ".policy.claims",
    "continuation": ".policy.continuation",
    "loops": ".policy.loops",
    "tiers": ".policy.tiers",
}
"""Pure parts that are public as a whole."""


def register(ctx: Any) -> None:
    """Register hooks, middleware and commands with the host's plugin context."""
    from .hermes.plugin import register as register_with_host

    register_with_host(ctx)


def __getattr__(name: str) -> Any:
    """The public names for drivers of agents, loaded when they are first used."""
    if name in _MODULES:
        return import_module(_MODULES[name], __name__)
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name], __name__), name)
