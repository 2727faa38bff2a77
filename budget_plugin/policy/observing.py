"""Limits that are only observed, taken as if they held: for a replay, and for `enforce`."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from .limits import Budget, ScopeLimits
from .runs.run_limits import RunLayer, RunPolicy


def enforcing_all(budget: Budget) -> Budget:
    """The same budget with every observed limit in force; parts without a number are left out."""
    scopes = {
        scope: ScopeLimits(
            limits.default, MappingProxyType({i: x for i, x in limits.overrides.items() if x})
        )
        for scope, limits in budget.scopes.items()
        if any(limits.amounts())
    }
    return replace(budget, scopes=MappingProxyType(scopes), runs=_enforcing(budget.runs))


def _enforcing(runs: RunPolicy) -> RunPolicy:
    return replace(
        runs,
        default=replace(runs.default, observe=None),
        kinds=_all(runs.kinds),
        platforms=_all(runs.platforms),
        commands=_all(runs.commands),
    )


def _all(layers: Mapping[str, RunLayer]) -> Mapping[str, RunLayer]:
    enforced = {name: replace(layer, observe=None) for name, layer in layers.items()}
    return MappingProxyType({name: x for name, x in enforced.items() if x != RunLayer()})
