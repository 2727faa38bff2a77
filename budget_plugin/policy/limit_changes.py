"""Limits as a flat map of places, and what an edit of them means: which are loosened, which differ.

A place is what budget.yaml can name: scope, id (empty for `global` and for a default) and key. A
place that is not in the map inherits the default; `None` in it is written as "no limit".
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from .limits import Amounts, Budget, Key, Scope, ScopeLimits

Place = tuple[Scope, str, Key]
Flat = Mapping[Place, int | None]

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class HeldLimit:
    """A limit whose change waits for a person; amounts in the measure's unit, `None`: no limit.

    Attributes:
        scope_id: empty for `global` and for the default of a scope.
    """

    scope: Scope
    scope_id: str
    key: Key
    in_force: int | None
    in_file: int | None


@dataclass(frozen=True, slots=True)
class CeilingChange:
    """Who changed which ceiling of runs; seconds, counts, or nano-dollars for `usd`.

    Attributes:
        layer: the part of the section `runs`: `default`, `cron`, `commands.swarm`.
        key: as in budget.yaml: `dispatches`.
        state: `done`, or `observed` for one that stops nothing.
    """

    at_ms: int
    who: str
    via: str
    layer: str
    key: str
    before: int | None
    after: int | None
    state: str = "done"


def flat(budget: Budget) -> dict[Place, int | None]:
    """Every number of a budget by its place, as it holds: one that is only observed is no limit."""
    return {
        (scope, scope_id, key): None if observed else amount
        for scope, limits in budget.scopes.items()
        for scope_id, key, amount, observed in limits.amounts()
    }


def with_limits(budget: Budget, amounts: Flat) -> Budget:
    """The budget with these limits in place of its own; what it observes is observed still.

    A place that inherits here goes on to do so: observed, it would lift what it inherits.
    """
    observed = {
        (scope, scope_id, key): amount
        for scope, limits in budget.scopes.items()
        for scope_id, key, amount, is_observed in limits.amounts()
        if is_observed and amounts.get((scope, scope_id, key), _ABSENT) is None
    }
    return replace(budget, scopes=_scopes({**amounts, **observed}, observed))


def _scopes(amounts: Flat, observed: Collection[Place]) -> Mapping[Scope, ScopeLimits]:
    defaults: dict[Scope, dict[Key, int | None]] = {}
    overrides: dict[Scope, dict[str, dict[Key, int | None]]] = {}
    for (scope, scope_id, key), amount in amounts.items():
        defaults.setdefault(scope, {})
        if scope_id:
            overrides.setdefault(scope, {}).setdefault(scope_id, {})[key] = amount
        else:
            defaults[scope][key] = amount
    return MappingProxyType(
        {
            scope: ScopeLimits(
                _fixed(default),
                MappingProxyType(_all_fixed(overrides.get(scope, {}))),
                frozenset((scope_id, key) for of, scope_id, key in observed if of is scope),
            )
            for scope, default in defaults.items()
        }
    )


def _fixed(amounts: dict[Key, int | None]) -> Amounts:
    return MappingProxyType(amounts)


def _all_fixed(overrides: dict[str, dict[Key, int | None]]) -> dict[str, Amounts]:
    return {scope_id: _fixed(amounts) for scope_id, amounts in overrides.items()}


def effective(amounts: Flat, place: Place) -> int | None:
    """The limit that holds at a place, what it inherits included; `None` is no limit."""
    if place in amounts:
        return amounts[place]
    scope, _, key = place
    return amounts.get((scope, "", key))


def is_looser(before: Flat, after: Flat, place: Place) -> bool:
    """Whether an edit raises or lifts the limit that holds at a place."""
    was, now = effective(before, place), effective(after, place)
    return was is not None and (now is None or now > was)


def changed(before: Flat, after: Flat) -> list[Place]:
    """The places that two maps say differently, in the order of their names."""
    differ = (
        place
        for place in {*before, *after}
        if before.get(place, _ABSENT) != after.get(place, _ABSENT)
    )
    return sorted(differ, key=lambda place: (place[0], place[1], str(place[2])))


def loosened(before: Flat, after: Flat) -> Iterator[Place]:
    """The places where an edit raises or lifts what holds."""
    return (place for place in changed(before, after) if is_looser(before, after, place))


def holding(before: Flat, after: Flat, held: Collection[Place]) -> dict[Place, int | None]:
    """`after`, but with what `before` says at the places that are held."""
    merged = {place: amount for place, amount in after.items() if place not in held}
    merged.update((place, before[place]) for place in held if place in before)
    return merged
