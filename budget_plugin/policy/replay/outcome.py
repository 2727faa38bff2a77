"""What a replay comes to: runs cut, money saved, and where in a sweep the number matters little."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ..limits import Limit
from ..runs.run_limits import Cause

FLAT_WITHIN: Final = 0.15
"""Neighbours whose net is within this share of the best are called flat: the traffic of another
month would move it by as much."""

KEPT_CUTS: Final = 10


class Cut(NamedTuple):
    """A run that the candidate would have cut short, by what, and what that saves."""

    run_id: str
    kind: str
    at_ms: int
    cause: Cause
    limit: Limit | None
    saved_nanos: int
    resolved: bool | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One candidate over the whole record. Runs are trees: a root with all that it started.

    Attributes:
        cut_resolved: runs cut that had ended resolved: somebody has to handle those.
        cut_unknown: runs cut of which no ending is recorded.
        causes: runs cut, by what cut them.
        worst: the cuts that save most, the largest first.
        tools_refused: tool calls that would have gone on with a circle, and were refused.
        runs_unwatched: runs of which no tool call is recorded, so that no detector can judge them.
    """

    days: int
    runs: int
    calls: int
    spent_nanos: int
    cut: int
    cut_resolved: int
    cut_unknown: int
    saved_nanos: int
    saved_calls: int
    causes: Mapping[str, int] = field(default_factory=dict)
    worst: tuple[Cut, ...] = ()
    tools_refused: int = 0
    runs_unwatched: int = 0

    @property
    def saved_per_day(self) -> int:
        """Nano-dollars a day."""
        return self.saved_nanos // self.days

    def handoffs_per_day(self, cost_nanos: int) -> int:
        """What it costs a day to have people handle the resolved runs that were cut."""
        return self.cut_resolved * cost_nanos // self.days

    def net_per_day(self, cost_nanos: int | None) -> int:
        """Saved less handled, a day; without a cost of handling what is saved alone."""
        return self.saved_per_day - self.handoffs_per_day(cost_nanos or 0)


class Tally:
    """The running sums of one candidate."""

    def __init__(self) -> None:
        self.runs = self.calls = self.spent_nanos = self.saved_nanos = self.saved_calls = 0
        self.tools_refused = self.runs_watched = 0
        self._cuts = _Cuts()

    def closed(self, cut: Cut) -> None:
        """A run that was cut is over."""
        self._cuts.add(cut)

    def outcome(self, days: int, open_cuts: Iterable[Cut]) -> Outcome:
        """The sums, with the cut runs that are not over yet."""
        cuts = self._cuts.with_more(open_cuts)
        return Outcome(
            max(1, days),
            self.runs,
            self.calls,
            self.spent_nanos,
            cuts.number,
            cuts.resolved,
            cuts.unknown,
            self.saved_nanos,
            self.saved_calls,
            dict(cuts.causes.most_common()),
            tuple(sorted(cuts.worst, key=lambda cut: -cut.saved_nanos)),
            self.tools_refused,
            self.runs - self.runs_watched,
        )


class _Cuts:
    def __init__(self) -> None:
        self.number = self.resolved = self.unknown = 0
        self.causes: Counter[str] = Counter()
        self.worst: list[Cut] = []

    def add(self, cut: Cut) -> None:
        self.number += 1
        self.resolved += cut.resolved is True
        self.unknown += cut.resolved is None
        self.causes[cut.cause] += 1
        self.worst.append(cut)
        if len(self.worst) > 4 * KEPT_CUTS:
            self._trim()

    def _trim(self) -> None:
        self.worst = heapq.nlargest(KEPT_CUTS, self.worst, key=lambda cut: cut.saved_nanos)

    def with_more(self, cuts: Iterable[Cut]) -> "_Cuts":
        both = _Cuts()
        both.number, both.resolved, both.unknown = self.number, self.resolved, self.unknown
        both.causes, both.worst = self.causes.copy(), list(self.worst)
        for cut in cuts:
            both.add(cut)
        both._trim()
        return both


def flat_region(nets: Sequence[int]) -> tuple[int, int] | None:
    """The stretch around the best of a sweep in which the exact number hardly matters.

    Args:
        nets: by candidate, in the order of their values.

    Returns:
        The first and the last index: all between them are within `FLAT_WITHIN` of the best.
        `None` where nothing is saved, or the best stands alone.
    """
    if not nets or max(nets) <= 0:
        return None
    best = max(range(len(nets)), key=nets.__getitem__)
    enough = nets[best] * (1 - FLAT_WITHIN)
    first = last = best
    while first > 0 and nets[first - 1] >= enough:
        first -= 1
    while last + 1 < len(nets) and nets[last + 1] >= enough:
        last += 1
    return (first, last) if last > first else None
