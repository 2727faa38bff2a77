"""Calendar windows: a local hour, day, week or month, or all time, as half-open UTC intervals.

A window is `[start, end)` in UTC milliseconds. Its edges are the first instants of local dates, so
the day of a clock change is 23 or 25 hours long and a day without a midnight starts where its first
instant is. Windows of one kind never overlap and always contain the `now` they were asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

END_OF_TIME_MS: Final = 253_370_764_800_000
"""1 January 9999 UTC: the end of the window `total`."""


class Window(StrEnum):
    """The kinds of window, as they are written in budget.yaml and in `/budget set`."""

    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    TOTAL = "total"


@dataclass(frozen=True, slots=True)
class Period:
    """One window in time: `[start_ms, end_ms)` UTC milliseconds, `key` names its local start."""

    window: Window
    start_ms: int
    end_ms: int
    key: str

    def contains(self, at_ms: int) -> bool:
        """Whether the instant lies in the window."""
        return self.start_ms <= at_ms < self.end_ms


def period(window: Window, now_ms: int, zone: ZoneInfo, week_start: int = 0) -> Period:
    """The window of this kind that contains `now_ms`. `week_start`: 0 is Monday, 6 is Sunday."""
    if window is Window.TOTAL:
        return Period(window, 0, END_OF_TIME_MS, "total")
    if window is Window.HOURLY:
        return _hour(now_ms, zone)
    return _days(window, now_ms, zone, week_start)


def _days(window: Window, now_ms: int, zone: ZoneInfo, week_start: int) -> Period:
    first, following = _CALENDAR[window]
    begin = first(_local(now_ms, zone).date(), week_start)
    # A clock that falls back over midnight shows a date again after the next one began: the
    # interval, not the date on the clock, decides.
    while day_start_ms(following(begin), zone) <= now_ms:
        begin = following(begin)
    start_ms = day_start_ms(begin, zone)
    return Period(
        window, start_ms, day_start_ms(following(begin), zone), _key(window, begin, week_start)
    )


def day_start_ms(day: date, zone: ZoneInfo) -> int:
    """The first instant whose local date is `day` or later."""
    midnight = datetime.combine(day, time.min)
    early = _ms(midnight.replace(tzinfo=zone, fold=0))
    late = _ms(midnight.replace(tzinfo=zone, fold=1))
    if early <= late:  # a usual midnight, or one that comes twice: the first counts
        return early
    # Midnight does not exist on this date: find the jump, which lies between the two readings.
    return _first_ms(late - 1000, early, lambda at_ms: _local(at_ms, zone).date() >= day)


def _hour(now_ms: int, zone: ZoneInfo) -> Period:
    local = _local(now_ms, zone)
    into_ms = (local.minute * 60 + local.second) * 1000 + now_ms % 1000
    start_ms, end_ms = now_ms - into_ms, now_ms - into_ms + 3_600_000

    def same(at_ms: int) -> bool:
        return _local(at_ms, zone).utcoffset() == local.utcoffset()

    if not same(start_ms):
        start_ms = _first_ms(start_ms, now_ms, same)
    if not same(end_ms - 1):
        end_ms = _first_ms(now_ms, end_ms - 1, lambda at_ms: not same(at_ms))
    repeated = _local(start_ms, zone).fold == 1
    return Period(Window.HOURLY, start_ms, end_ms, f"{local:%Y-%m-%dT%H}{'~2' if repeated else ''}")


def _first_ms(low_ms: int, high_ms: int, holds: Callable[[int], bool]) -> int:
    """The first instant in `(low_ms, high_ms]` at which the monotone condition holds."""
    while high_ms - low_ms > 1:
        middle = (low_ms + high_ms) // 2
        low_ms, high_ms = (low_ms, middle) if holds(middle) else (middle, high_ms)
    return high_ms


def _local(at_ms: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC).astimezone(zone)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp()) * 1000


def _week_first(day: date, week_start: int) -> date:
    return day - timedelta(days=(day.weekday() - week_start) % 7)


def _next_month(first: date) -> date:
    return (first.replace(day=28) + timedelta(days=4)).replace(day=1)


_First = Callable[[date, int], date]
_CALENDAR: Final[dict[Window, tuple[_First, Callable[[date], date]]]] = {
    Window.DAILY: (lambda day, _: day, lambda first: first + timedelta(days=1)),
    Window.WEEKLY: (_week_first, lambda first: first + timedelta(days=7)),
    Window.MONTHLY: (lambda day, _: day.replace(day=1), _next_month),
}


def _key(window: Window, first: date, week_start: int) -> str:
    if window is Window.MONTHLY:
        return f"{first:%Y-%m}"
    if window is Window.WEEKLY:
        # An ISO week number names a week that starts on a Monday, and no other.
        return f"{first:%G-W%V}" if week_start == 0 else f"W{first.isoformat()}"
    return first.isoformat()
