"""Forecast: spend by day + a window + its limit → the pace, and when the limit is reached.

Two paces are looked at. That of the window so far counts from the window's start, or from the first
day with data when that is later: whoever installed this today has not been thrifty for a month.
That of the last days is the mean of those among the last 14 that have data, today excluded, since
it is not over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .schedules import Ahead
from .windows import Period, Window

DAYS_BACK: Final = 14
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

_SOONEST_MS: Final = {Window.HOURLY: HOUR_MS // 12}
"""How much of a window must have passed before its pace says anything: 5 minutes, else an hour."""

_FARTHEST_MS: Final = 100 * 366 * DAY_MS
"""A limit that lasts for a century is not reached."""


@dataclass(frozen=True, slots=True)
class Day:
    """What was used on one local day, in the limit's unit."""

    start_ms: int
    used: int


class Outlook(StrEnum):
    """What is to be said about a limit."""

    BLOCKED = "blocked"  # a limit of 0 allows nothing
    OVER = "over"
    REACHED = "reached"  # before the window ends
    UNDER = "under"
    UNLIMITED = "unlimited"
    UNKNOWN = "unknown"  # not enough data


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast it goes, and where that leads.

    Attributes:
        per_day: in the limit's unit (nano-dollars, tokens, calls), rounded.
        per_hour: the same for an hour.
        days: days with data that the pace rests on; 0 for the pace of the window so far.
        by_end: what the window will have used at its end; `None` for `total`, which has none.
        reached_ms: when the limit is reached, if that is before the window ends.
    """

    per_day: int
    per_hour: int
    days: int
    by_end: int | None
    reached_ms: int | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """The outlook for one window.

    Attributes:
        so_far, lately: `None` without enough data, and where all that is spent is scheduled.
        ahead: what cron jobs add; `None` where their schedules are not known, or add nothing.
    """

    outlook: Outlook
    used: int
    limit: int | None
    so_far: Pace | None = None
    lately: Pace | None = None
    ahead: Ahead | None = None


def forecast(
    period: Period,
    now_ms: int,
    used: int,
    limit: int | None,
    days: Sequence[Day],
    ahead: Ahead | None = None,
    *,
    all_scheduled: bool = False,
) -> Forecast:
    """Look ahead in one window.

    Args:
        used: in this window, up to now.
        limit: in the same unit; `None` where there is none.
        days: local days, ascending, the last of them today; days without use may be left out.
        ahead: what scheduled jobs will add.
        all_scheduled: nothing else spends here. Where a cost is not known, the paces have the word.
    """
    if limit == 0:
        return Forecast(Outlook.BLOCKED, used, limit)
    so_far = lately = None
    if ahead is None or not all_scheduled or any(job.run_nanos is None for job in ahead.jobs):
        so_far = _so_far(period, now_ms, used, limit, days)
        lately = _lately(period, now_ms, used, limit, days)
    outlook = _outlook(used, limit, so_far or lately, ahead)
    return Forecast(outlook, used, limit, so_far, lately, ahead)


def _outlook(used: int, limit: int | None, pace: Pace | None, ahead: Ahead | None) -> Outlook:
    if limit is not None and used >= limit:
        return Outlook.OVER
    known = None if ahead is not None and ahead.is_blind else ahead
    reached = [each.reached_ms for each in (pace, known) if each is not None]
    if not reached:
        return Outlook.UNKNOWN
    if limit is None:
        return Outlook.UNLIMITED
    return Outlook.REACHED if any(reached) else Outlook.UNDER


def _so_far(
    period: Period, now_ms: int, used: int, limit: int | None, days: Sequence[Day]
) -> Pace | None:
    if period.window is Window.TOTAL:  # its beginning says nothing about the pace
        return None
    first = next((day.start_ms for day in days if day.used and day.start_ms < period.end_ms), None)
    since_ms = max(period.start_ms, period.start_ms if first is None else first)
    passed_ms = now_ms - since_ms
    if used <= 0 or passed_ms < _SOONEST_MS.get(period.window, HOUR_MS):
        return None
    return _pace(period, now_ms, used, limit, used, passed_ms, 0)


def _lately(
    period: Period, now_ms: int, used: int, limit: int | None, days: Sequence[Day]
) -> Pace | None:
    if period.window is Window.HOURLY or not days:  # a day's mean says little about one hour
        return None
    today_ms = days[-1].start_ms
    past = [
        day.used
        for day in days[:-1]
        if day.used > 0 and day.start_ms >= today_ms - DAYS_BACK * DAY_MS - HOUR_MS
    ]
    if not past:
        return None
    return _pace(period, now_ms, used, limit, sum(past), len(past) * DAY_MS, len(past))


def _pace(
    period: Period,
    now_ms: int,
    used: int,
    limit: int | None,
    amount: int,
    in_ms: int,
    days: int,
) -> Pace:
    """Whole numbers throughout: floats are off by dollars at large amounts."""
    by_end = None
    if period.window is not Window.TOTAL:
        by_end = used + amount * (period.end_ms - now_ms) // in_ms
    return Pace(
        per_day=(amount * DAY_MS + in_ms // 2) // in_ms,
        per_hour=(amount * HOUR_MS + in_ms // 2) // in_ms,
        days=days,
        by_end=by_end,
        reached_ms=_reached(period, now_ms, used, limit, amount, in_ms),
    )


def _reached(
    period: Period, now_ms: int, used: int, limit: int | None, amount: int, in_ms: int
) -> int | None:
    if limit is None or used >= limit:
        return None
    at_ms = now_ms + -(-(limit - used) * in_ms // amount)
    return at_ms if at_ms < min(period.end_ms, now_ms + _FARTHEST_MS) else None
