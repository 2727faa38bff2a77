"""Verdicts: limits + spend + the period → ok, soft or hard. The one function that judges.

The live gates, `/budget status`, replay and the property tests all call `evaluate`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from .limits import Limit, Measure, OnEstimated, Thresholds
from .windows import Period


class Level(IntEnum):
    """How far a limit is used; ordered, so that the strictest of several is their maximum."""

    OK = 0
    SOFT = 1
    HARD = 2


class Spend(NamedTuple):
    """What was used in one window of one scope.

    (A tuple: eight are made for every recorded call, and a frozen dataclass costs three times as
    much to make.)

    Attributes:
        certain_nanos: charges that rest on reported usage and a known price.
        estimated_nanos: charges that rest on a guess.
        tokens: all tokens, each once.
        calls: billed attempts.
        unpriced_calls: calls whose cost nobody knows; with any, the dollars are "at least".
        estimated_calls: calls whose charge is in `estimated_nanos`.
    """

    certain_nanos: int = 0
    estimated_nanos: int = 0
    tokens: int = 0
    calls: int = 0
    unpriced_calls: int = 0
    estimated_calls: int = 0

    @property
    def nanos(self) -> int:
        """Dollars spent so far, guesses included."""
        return self.certain_nanos + self.estimated_nanos

    def __add__(self, other: "Spend") -> "Spend":  # type: ignore[override]
        return Spend(
            self.certain_nanos + other.certain_nanos,
            self.estimated_nanos + other.estimated_nanos,
            self.tokens + other.tokens,
            self.calls + other.calls,
            self.unpriced_calls + other.unpriced_calls,
            self.estimated_calls + other.estimated_calls,
        )


NOTHING_SPENT: Final = Spend()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement over one limit in one period.

    Attributes:
        soft_share: the highest soft threshold that is reached (0.8), or `None`.
        on_estimates: only estimated spend carries it over; under `warn_only` it is soft for that.
        nothing_fits: hard because the next call would not fit, though the number is not reached.
        next_needs: what one more call would use, in the limit's own unit, where that is known.
        hard_share: the share of the limit at which it is hard.
        unknown: hard because the ledger does not answer and `ledger.on_error` is `block`.
    """

    limit: Limit
    period: Period
    spend: Spend
    level: Level
    soft_share: float | None = None
    on_estimates: bool = False
    nothing_fits: bool = False
    unknown: bool = False
    next_needs: int = 0
    hard_share: float = 1.0

    @property
    def used(self) -> int:
        """Used so far in the limit's own unit: nano-dollars, tokens or calls."""
        return used(self.spend, self.limit.measure)

    @property
    def left(self) -> int:
        """What is left of the limit in its own unit; never negative."""
        return max(0, self.limit.amount - self.used)

    @property
    def blocks(self) -> bool:
        """Whether the gates close on it."""
        return self.level is Level.HARD


def used(spend: Spend, measure: Measure) -> int:
    """The part of a spend that a measure counts, in that measure's unit."""
    if measure is Measure.USD:
        return spend.nanos
    return spend.tokens if measure is Measure.TOKENS else spend.calls


def evaluate(
    limit: Limit,
    spend: Spend,
    period: Period,
    thresholds: Thresholds,
    on_estimated: OnEstimated,
) -> Verdict:
    """Judge one limit.

    Hard when the certain spend alone reaches `hard_pct` of the limit, or a limit of 0 is set. When
    only estimated dollars carry it over, `on_estimated` decides between soft and hard. Soft from
    the first soft threshold on. The verdict never falls as spend rises.
    """
    judged = partial(Verdict, limit, period, spend, hard_share=thresholds.hard)
    total = used(spend, limit.measure)
    certain = spend.certain_nanos if limit.measure is Measure.USD else total
    if _reaches(certain, limit.amount, thresholds.hard):
        return judged(Level.HARD, _soft_share(total, limit, thresholds))
    carried_over = _reaches(total, limit.amount, thresholds.hard)
    share = _soft_share(total, limit, thresholds)
    if carried_over:
        level = Level.HARD if on_estimated is OnEstimated.ENFORCE else Level.SOFT
        return judged(level, share, on_estimates=True)
    return judged(Level.OK if share is None else Level.SOFT, share)


def closed(verdict: Verdict) -> Verdict:
    """The same verdict turned hard because nothing more fits under the limit."""
    if verdict.blocks:
        return verdict
    return replace(verdict, level=Level.HARD, nothing_fits=True)


def strictest(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The verdict that decides: highest level, then the one that lifts last, then the fullest."""
    return max(
        verdicts,
        key=lambda v: (v.level, v.period.end_ms if v.blocks else 0, _fullness(v)),
        default=None,
    )


def _fullness(verdict: Verdict) -> float:
    return verdict.used / verdict.limit.amount if verdict.limit.amount else 1.0


def hard_mark(limit: Limit, thresholds: Thresholds) -> int:
    """The smallest amount at which a limit can be hard, in its own unit; 0 for a limit of 0."""
    return -(-limit.amount * round(thresholds.hard * 1_000_000) // 1_000_000)


def _reaches(amount: int, limit: int, share: float) -> bool:
    # In whole millionths of the share: a float product is off by dollars at very large limits.
    return limit == 0 or amount * 1_000_000 >= limit * round(share * 1_000_000)


def _soft_share(total: int, limit: Limit, thresholds: Thresholds) -> float | None:
    reached = [share for share in thresholds.soft if _reaches(total, limit.amount, share)]
    return max(reached, default=None)
