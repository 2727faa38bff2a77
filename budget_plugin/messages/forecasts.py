"""`forecast` in words: how fast it goes, what cron jobs add, and when a limit is reached."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from ..policy.forecast import Forecast, Outlook, Pace
from ..policy.limits import Measure, Scope
from ..policy.windows import Period, Window
from .jobs_ahead import firings_of_jobs, jobs_ahead_data, own_firings
from .layout import USED_IN, near_moment, page, percent, plain, resets, upper_first, whose
from .parts import WINDOW_WORDS, amount


@dataclass(frozen=True, slots=True)
class Outlooks:
    """One forecast with what it is about; `at_least`: unpriced calls are in it."""

    scope: Scope
    scope_id: str
    measure: Measure
    period: Period
    forecast: Forecast
    at_least: bool = False


def forecast_text(
    outlooks: Sequence[Outlooks],
    names: Mapping[str, str],
    now_ms: int,
    zone: ZoneInfo,
    *,
    shares_only: bool,
) -> str:
    """A paragraph for each limit.

    Args:
        names: of cron jobs, by id.
        shares_only: the total is shown as shares, to somebody who may not see what others spend.
    """
    lines: list[str] = []
    for outlook in outlooks:
        hidden = shares_only and outlook.scope is Scope.GLOBAL
        lines += ["", *_paragraph(outlook, now_ms, zone, hidden=hidden)]
        lines += (f"  {line}" for line in _jobs(outlook, names, now_ms, zone))
    return page(lines[1:])


def nothing_to_forecast(scope: Scope, scope_id: str, window: Window | None) -> str:
    """Nobody of that scope was active, or has a limit."""
    which = f" {WINDOW_WORDS[window]}" if window else ""
    return f"There is no{which} limit and no spending of {whose(scope, scope_id)} to go by."


def _paragraph(outlook: Outlooks, now_ms: int, zone: ZoneInfo, *, hidden: bool) -> Iterator[str]:
    whom = upper_first(whose(outlook.scope, outlook.scope_id))
    yield f"{whom}, {WINDOW_WORDS[outlook.period.window]}"
    yield f"  {_used(outlook, hidden=hidden)}"
    yield from (f"  {line}" for line in _sentences(outlook, now_ms, zone, hidden=hidden))


def _used(outlook: Outlooks, *, hidden: bool) -> str:
    forecast, measure = outlook.forecast, outlook.measure
    least = "at least " if outlook.at_least else ""
    if forecast.limit is None:
        if hidden:
            return "no limit"
        when = USED_IN[outlook.period.window]
        return f"{least}{amount(forecast.used, measure)} used {when}, no limit"
    limit = amount(forecast.limit, measure)
    if hidden and forecast.limit:
        return f"{percent(forecast.used / forecast.limit)} of {limit} used"
    return f"{least}{amount(forecast.used, measure)} of {limit} used"


def _sentences(outlook: Outlooks, now_ms: int, zone: ZoneInfo, *, hidden: bool) -> Iterator[str]:
    kind = outlook.forecast.outlook
    if kind is Outlook.BLOCKED:
        yield "The limit allows nothing."
    elif kind is Outlook.OVER:
        over = outlook.forecast.used > (outlook.forecast.limit or 0)
        said = "Already over the limit" if over else "The limit is reached"
        yield f"{said}; it {resets(outlook.period, zone)}."
    elif kind is Outlook.UNKNOWN:
        yield "Not enough data yet."
    elif hidden:
        pace = outlook.forecast.so_far or outlook.forecast.lately
        yield from _where(outlook, pace, now_ms, zone, hidden=True)
    else:
        yield from _paces(outlook, now_ms, zone)


def _paces(outlook: Outlooks, now_ms: int, zone: ZoneInfo) -> Iterator[str]:
    for pace, where in (
        (outlook.forecast.so_far, _so_far_of(outlook.period)),
        (outlook.forecast.lately, _lately_of(outlook.forecast.lately)),
    ):
        if pace is not None:
            yield f"{where}: {_speed(outlook, pace)}."
            yield from (f"  {line}" for line in _where(outlook, pace, now_ms, zone))


def _jobs(
    outlook: Outlooks, names: Mapping[str, str], now_ms: int, zone: ZoneInfo
) -> Iterator[str]:
    """What scheduled jobs add; nothing where the limit is reached, since they are paused then."""
    forecast = outlook.forecast
    if forecast.ahead is None or forecast.outlook in (Outlook.OVER, Outlook.BLOCKED):
        return
    when = USED_IN[outlook.period.window]
    if outlook.scope is Scope.CRON_JOB:
        yield from own_firings(forecast.ahead, forecast.limit, when, now_ms, zone)
    else:
        yield from firings_of_jobs(forecast.ahead, forecast.limit, names, when, now_ms, zone)


def _so_far_of(period: Period) -> str:
    return upper_first(f"{USED_IN[period.window]} so far")


def _lately_of(pace: Pace | None) -> str:
    days = pace.days if pace else 0
    return "The last day with data" if days == 1 else f"The last {days} days with data"


def _speed(outlook: Outlooks, pace: Pace) -> str:
    if outlook.period.window in (Window.HOURLY, Window.DAILY) and not pace.days:
        return f"{amount(pace.per_hour, outlook.measure)} an hour"
    return f"{amount(pace.per_day, outlook.measure)} a day"


def _where(
    outlook: Outlooks, pace: Pace | None, now_ms: int, zone: ZoneInfo, *, hidden: bool = False
) -> Iterator[str]:
    """Where a pace leads."""
    limit = outlook.forecast.limit
    if pace is None:
        return
    if pace.reached_ms is not None and limit is not None:
        when = near_moment(pace.reached_ms, now_ms, zone)
        yield f"{amount(limit, outlook.measure)} is reached {when}."
    elif limit is None and pace.by_end is not None:
        yield f"About {amount(pace.by_end, outlook.measure)} by the end."
    elif pace.by_end is not None:
        under = f"under {amount(limit or 0, outlook.measure)}"
        if hidden:
            yield f"Stays {under}."
        else:
            yield f"About {amount(pace.by_end, outlook.measure)} by the end, {under}."
    elif limit is not None:
        yield f"{amount(limit, outlook.measure)} lasts for many years."


# ---------------------------------------------------------------------- for programs


def forecast_data(
    outlooks: Sequence[Outlooks], names: Mapping[str, str]
) -> list[dict[str, object]]:
    """The forecasts as JSON takes them; docs/json.md describes it."""
    return [_data(outlook, names) for outlook in outlooks]


def _data(outlook: Outlooks, names: Mapping[str, str]) -> dict[str, object]:
    forecast, measure = outlook.forecast, outlook.measure
    return {
        "scope": str(outlook.scope),
        "id": outlook.scope_id,
        "window": str(outlook.period.window),
        "measure": str(measure),
        "outlook": str(forecast.outlook),
        "used": plain(forecast.used, measure),
        "limit": None if forecast.limit is None else plain(forecast.limit, measure),
        "at_least": outlook.at_least,
        "end_ms": outlook.period.end_ms,
        "so_far": _pace_data(forecast.so_far, measure),
        "lately": _pace_data(forecast.lately, measure),
        "scheduled": jobs_ahead_data(forecast.ahead, names),
    }


def _pace_data(pace: Pace | None, measure: Measure) -> dict[str, object] | None:
    if pace is None:
        return None
    return {
        "per_day": plain(pace.per_day, measure),
        "days": pace.days,
        "by_end": None if pace.by_end is None else plain(pace.by_end, measure),
        "reached_ms": pace.reached_ms,
    }
