"""How reports are laid out: one thing a line, no tables; a chat breaks lines at 40 columns."""

import textwrap
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo

from ..policy.limits import SCOPES, Measure, Scope
from ..policy.money import usd_from_nanos
from ..policy.windows import END_OF_TIME_MS, Period, Window
from .parts import amount

COLUMNS: Final = 40
"""Of a telephone."""
_BAR: Final = 8

USED_IN: Final = {
    Window.HOURLY: "this hour",
    Window.DAILY: "today",
    Window.WEEKLY: "this week",
    Window.MONTHLY: "this month",
    Window.TOTAL: "in all",
}


def wrapped(line: str, columns: int = COLUMNS) -> list[str]:
    """A line broken at spaces; what follows is indented two more. Nothing is cut off."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line,
        columns,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
        replace_whitespace=False,
    ) or [""]


class Page(str):
    """A report of many lines. How wide it may be, whoever shows it knows."""

    __slots__ = ()

    def within(self, columns: int = COLUMNS) -> str:
        """The text with no line wider than this."""
        return "\n".join(part for line in self.split("\n") for part in wrapped(line, columns))


def page(lines: Iterable[str]) -> Page:
    """Lines as one report."""
    return Page("\n".join(lines))


def bar(share: float) -> str:
    """A share as a bar; a used limit is never shown empty, and only a full one full."""
    filled = min(_BAR, int(share * _BAR))
    if share > 0:
        filled = max(1, filled)
    return "█" * filled + "░" * (_BAR - filled)


def percent(share: float) -> str:
    """`62 %`; rounded down, so that only a reached limit reads 100 %."""
    return f"{int(share * 100 + 1e-9)} %"


def moment(at_ms: int, zone: ZoneInfo) -> str:
    """`2026-12-01 00:00` on the clock of the zone."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone):%Y-%m-%d %H:%M}"


def until(period: Period, zone: ZoneInfo) -> str:
    """`until 2026-12-01 00:00`, or that it is for all time."""
    return (
        "for all time"
        if period.end_ms >= END_OF_TIME_MS
        else f"until {moment(period.end_ms, zone)}"
    )


def resets(period: Period, zone: ZoneInfo) -> str:
    """`resets 2026-12-01 00:00`, or that it never does."""
    if period.end_ms >= END_OF_TIME_MS:
        return "never resets"
    return f"resets {moment(period.end_ms, zone)}"


def short(scope_id: str, columns: int = 36) -> str:
    """An id that fits into a line; the middle of a long one is left out. Control characters and
    line breaks in it are shown as such, so that an id cannot forge a line."""
    clean = "".join(c if c.isprintable() else repr(c)[1:-1] for c in scope_id[: 10 * columns])
    clean = clean if len(scope_id) <= 10 * columns else clean + scope_id[-columns:]
    if len(clean) <= columns:
        return clean
    half = (columns - 1) // 2
    return f"{clean[:half]}…{clean[-half:]}"


def many(count: int, noun: str) -> str:
    """`1 call`, `1,200 calls`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def job_label(job_id: str, names: Mapping[str, str]) -> str:
    """`nightly report (3f2a91c0)`; the id alone where no name is known."""
    name = names.get(job_id)
    return f"{short(name, 24)} ({short(job_id, 12)})" if name else short(job_id)


def whose(scope: Scope, scope_id: str) -> str:
    """`everything together`, `every sender`, `sender "telegram:1"`."""
    if scope is Scope.GLOBAL:
        return "everything together"
    noun = SCOPES[scope].noun
    return f'{noun} "{short(scope_id)}"' if scope_id else f"every {noun}"


def upper_first(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def plain(value: int, measure: Measure) -> str | int:
    """For programs: a count as a number, dollars as exact decimal text."""
    return f"{usd_from_nanos(value):f}" if measure is Measure.USD else value


def limit_or_none(value: int | None, measure: Measure) -> str:
    """`$5.00`, `no limit`, `$0.00 (blocks all)`."""
    if value is None:
        return "no limit"
    blocks = " (blocks all)" if value == 0 else ""
    return f"{amount(value, measure)}{blocks}"


_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


def near_moment(at_ms: int, now_ms: int, zone: ZoneInfo) -> str:
    """`today at 18:40`, `on the 22nd`, `on 2027-01-14`."""
    day, today = _local_day(at_ms, zone), _local_day(now_ms, zone)
    if day == today:
        return f"today at {moment(at_ms, zone)[-5:]}"
    if (day.year, day.month) == (today.year, today.month):
        return f"on the {day.day}{_ENDINGS.get(day.day, 'th')}"
    return f"on {day.isoformat()}"


def _local_day(at_ms: int, zone: ZoneInfo) -> date:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).date()
