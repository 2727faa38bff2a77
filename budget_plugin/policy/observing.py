"""Limits that are only observed, taken as if they held: for a replay, and for `enforce`."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from .limits import Budget
from .runs.run_limits import RunLayer, RunPolicy


def enforcing_all(budget: Budget) -> Budget:
    """The same budget with every observed limit in force."""
    scopes = {
        scope: replace(limits, observed=frozenset()) for scope, limits in budget.scopes.items()
    }
    return replace(budget, scopes=MappingProxyType(scopes), runs=_enforcing(budget.runs))


def _enforcing(runs: RunPolicy) -> RunPolicy:
    return replace(
        runs,
        default=replace(runs.default, observe=False),
        kinds=_all(runs.kinds),
        platforms=_all(runs.platforms),
        commands=_all(runs.commands),
    )


def _all(layers: Mapping[str, RunLayer]) -> Mapping[str, RunLayer]:
    return MappingProxyType({name: replace(x, observe=False) for name, x in layers.items()})
