"""The words that all sentences share: amounts, whose money, when a window ends."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from ..policy.limits import SCOPES, Limit, Measure, Problem, Scope
from ..policy.money import format_usd
from ..policy.verdicts import Verdict
from ..policy.windows import END_OF_TIME_MS, Period, Window


def amount(value: int, measure: Measure, *, up: bool = False) -> str:
    """An amount in its unit: `$3.10`, `12,000 tokens`, `1 call`; dollars round down, or `up`."""
    if measure is Measure.USD:
        return format_usd(value, up=up)
    unit = str(measure).removesuffix("s") if value == 1 else str(measure)
    return f"{value:,} {unit}"


def whom(scope: Scope, scope_id: str) -> str:
    """Whose money: `everything together`, `cron job "nightly"`."""
    if scope is Scope.GLOBAL:
        return "everything together"
    return f'{SCOPES[scope].noun} "{scope_id}"'


def limit_name(limit: Limit) -> str:
    """`the daily limit of $5.00 for everything together`."""
    return (
        f"the {WINDOW_WORDS[limit.window]} limit of {amount(limit.amount, limit.measure)} "
        f"for {whom(limit.scope, limit.scope_id)}"
    )


WINDOW_WORDS: Final = {
    Window.HOURLY: "hourly",
    Window.DAILY: "daily",
    Window.WEEKLY: "weekly",
    Window.MONTHLY: "monthly",
    Window.TOTAL: "overall",
}


def reset_time(period: Period, zone: ZoneInfo) -> str:
    """When the window ends, in words: `2026-12-01 00:00 Europe/Berlin`, or that it never does."""
    if period.end_ms >= END_OF_TIME_MS:
        return "never by itself"
    local = datetime.fromtimestamp(period.end_ms / 1000, UTC).astimezone(zone)
    return f"{local:%Y-%m-%d %H:%M} {zone.key}"


def used_of(verdict: Verdict) -> str:
    """`$4.10 of $5.00`; "at least" while calls without a known price are in it."""
    limit, spend = verdict.limit, verdict.spend
    at_least = "at least " if limit.measure is Measure.USD and spend.unpriced_calls else ""
    return (
        f"{at_least}{amount(verdict.used, limit.measure)} of {amount(limit.amount, limit.measure)}"
    )


def in_force(problems: Iterable[Problem], *, limited: bool) -> str:
    """What holds while the settings have a mistake, as a sentence; empty where they hold.

    Args:
        limited: limits are in force from before.
    """
    if not any(problem.fatal for problem in problems):
        return ""
    if limited:
        return "The last good settings stay in force."
    return "Nothing is limited until that is mended."


def target(limit: Limit) -> list[str]:
    """Scope and id as the commands take them; an id with spaces or quotes is quoted."""
    if limit.scope is Scope.GLOBAL:
        return [str(limit.scope)]
    if limit.scope_id.startswith("-"):  # it would be read as an option
        return [str(limit.scope), quoted(f"--id={limit.scope_id}")]
    return [str(limit.scope), quoted(limit.scope_id)]


def quoted(word: str) -> str:
    """A word as the commands read it back."""
    if word and not any(c.isspace() or c in "\"'\\“„«" for c in word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
