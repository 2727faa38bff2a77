"""The configuration as the gates use it: limits by scope, windows in the configured time zone."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ..policy.charges import ScopeId
from ..policy.limits import Budget, Limit
from ..policy.windows import Period, Window, period

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Rules:
    """The limits in force. Never changed; other limits make another one, of a new generation.

    `_limits` and `_periods` remember what was worked out: they only ever gain answers that are as
    right as those they replace, so that threads need no lock.
    """

    budget: Budget
    zone: ZoneInfo
    generation: int
    has_limits: bool
    observes: bool = False
    _limits: dict[ScopeId, tuple[Limit, ...]] = field(default_factory=dict)
    _periods: dict[Window, Period] = field(default_factory=dict)

    @property
    def limits_nothing(self) -> bool:
        """Whether neither a limit nor a ceiling of runs is in force."""
        return not (self.has_limits or self.budget.runs.has_limits)

    def limits(self, scope: ScopeId) -> tuple[Limit, ...]:
        """The limits of one scope and id."""
        found = self._limits.get(scope)
        if found is None:
            found = self._limits[scope] = self.budget.limits_for(*scope)
        return found

    def observed_now(self, scope: ScopeId, now_ms: int) -> list[tuple[Limit, Period]]:
        """The limits of one scope that are only observed, each with its current period."""
        observed = self.budget.observed_for(*scope)
        return [(limit, self.period(limit.window, now_ms)) for limit in observed]

    def period(self, window: Window, now_ms: int) -> Period:
        """The window of this kind that contains `now_ms`."""
        known = self._periods.get(window)
        if known is not None and known.start_ms <= now_ms < known.end_ms:
            return known
        found = self._periods[window] = period(window, now_ms, self.zone, self.budget.week_start)
        return found

    def limits_now(self, scope: ScopeId, now_ms: int) -> list[tuple[Limit, Period]]:
        """The limits of one scope, each with its current period."""
        return [(limit, self.period(limit.window, now_ms)) for limit in self.limits(scope)]


def zone_of(local_zone: Callable[[], ZoneInfo], budget: Budget) -> ZoneInfo:
    """The zone that a budget names, else the machine's own, else UTC."""
    try:
        return ZoneInfo(budget.timezone) if budget.timezone else local_zone()
    except (ZoneInfoNotFoundError, OSError, ValueError):
        log.warning("the machine's time zone is not known; days are counted in UTC")
        return ZoneInfo("UTC")
