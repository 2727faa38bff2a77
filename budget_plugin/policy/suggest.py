"""Suggests limits: what runs that worked have used, with head-room on top.

A ceiling is half as much again as 99 of 100 runs that resolved have used. A run is told to finish
at 70 % of a ceiling, which is then just above what those runs needed: they never hear of it, and
what circles does. The sizes come from what worked, not from round numbers and not from the runs
that did not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .money import NANOS_PER_USD, written_usd
from .runs.run_limits import Meter, Number

HEAD_ROOM_PCT: Final = 150
"""Of what 99 of 100 used."""

ENOUGH_RUNS: Final = 20
"""With fewer runs the largest of them says little about the next."""

ENOUGH_DAYS: Final = 7
"""A week, so that weekdays and weekends are in it."""

DAYS_OF_A_MONTH: Final = 31

METERS: Final = (
    Meter.DISPATCHES,
    Meter.TOOL_CALLS,
    Meter.TOKENS,
    Meter.WALL_CLOCK_S,
    Meter.USD,
)


class Basis(StrEnum):
    """What a suggestion rests on."""

    RUNS = "runs"
    DAYS = "days"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One number and where it comes from; money in nano-dollars.

    Attributes:
        part: the keys of budget.yaml that lead to it: `("runs", "chat")`.
        key: its own key: `dispatches`, `daily_usd`.
        p50, p99: half used no more, 99 of 100 no more.
        count: of how many runs or days.
    """

    part: tuple[str, ...]
    key: str
    number: int
    basis: Basis
    p50: Number
    p99: Number
    count: int


@dataclass(frozen=True, slots=True)
class TooLittle:
    """A part for which nothing is suggested, since too little is known."""

    part: tuple[str, ...]
    basis: Basis
    count: int

    @property
    def needed(self) -> int:
        """How many there must be."""
        return ENOUGH_RUNS if self.basis is Basis.RUNS else ENOUGH_DAYS


Advice = Suggestion | TooLittle


def suggest_ceilings(kind: str, used: Mapping[Meter, Sequence[Number]]) -> list[Advice]:
    """Ceilings for one kind of run, from what its resolved runs have used of each meter."""
    part = ("runs", kind)
    count = len(used[Meter.TOKENS])
    if count < ENOUGH_RUNS:
        return [TooLittle(part, Basis.RUNS, count)]
    return [
        _suggestion(part, str(meter), used[meter], Basis.RUNS, meter)
        for meter in METERS
        if any(used[meter])
    ]


def suggest_spending(
    part: tuple[str, ...], nanos_a_day: Sequence[int], *, monthly: bool
) -> list[Advice]:
    """A daily limit, and a monthly one where asked for, from what each day with runs has cost."""
    if len(nanos_a_day) < ENOUGH_DAYS:
        return [TooLittle(part, Basis.DAYS, len(nanos_a_day))]
    if not any(nanos_a_day):
        return []
    daily = _suggestion(part, "daily_usd", nanos_a_day, Basis.DAYS, Meter.USD)
    if not monthly:
        return [daily]
    mean = sum(nanos_a_day) // len(nanos_a_day)
    month = _rounded_up(mean * DAYS_OF_A_MONTH * HEAD_ROOM_PCT // 100, Meter.USD)
    whole = Suggestion(
        part, "monthly_usd", max(month, daily.number), Basis.DAYS, mean, mean, daily.count
    )
    return [daily, whole]


def _suggestion(
    part: tuple[str, ...], key: str, used: Sequence[Number], basis: Basis, meter: Meter
) -> Suggestion:
    ranked = sorted(used)
    p50, p99 = (ranked[max(0, -(-pct * len(ranked) // 100) - 1)] for pct in (50, 99))
    # At least one more than was ever usual: half of 1 on top of 1 is no head-room.
    amount = max(-(-round(p99 * HEAD_ROOM_PCT) // 100), round(p99) + 1)
    return Suggestion(part, key, _rounded_up(amount, meter), basis, p50, p99, len(ranked))


def _rounded_up(amount: int, meter: Meter) -> int:
    """To what a person would write: two digits that say something, seconds to half a minute."""
    if meter in (Meter.DISPATCHES, Meter.TOOL_CALLS):
        return amount
    if meter is Meter.WALL_CLOCK_S:
        return -(-amount // 30) * 30
    cent = NANOS_PER_USD // 100 if meter is Meter.USD else 1
    step = max(cent, int("1".ljust(len(str(amount)) - 1, "0")))
    return -(-amount // step) * step


def as_written(suggestion: Suggestion) -> str:
    """The number as budget.yaml has it: dollars for money."""
    if not suggestion.key.endswith("usd"):
        return str(suggestion.number)
    return written_usd(suggestion.number)


def lines_of(suggestions: Iterable[Suggestion]) -> list[str]:
    """The suggestions as lines of a budget.yaml, each part in the mode `observe`."""
    tree: dict[str, object] = {}
    for suggestion in suggestions:
        node = tree
        for key in suggestion.part:
            node = node.setdefault(key, {})  # type: ignore[assignment]
        node.setdefault("mode", "observe")
        node[suggestion.key] = as_written(suggestion)
    return list(_lines(tree, 0))


def _lines(tree: Mapping[str, object], depth: int) -> Iterable[str]:
    for key, value in tree.items():
        indent = "  " * depth
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _lines(value, depth + 1)
        else:
            yield f"{indent}{key}: {value}"
