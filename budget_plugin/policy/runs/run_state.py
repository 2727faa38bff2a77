"""The account of a run: what it used of its ceilings, as a value, and what can be read off it.

Looking changes nothing; the steps that do are in `run_steps.py`. `now_s` is monotonic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from .run_limits import METERS, Cause, Meter, Number, RunLimits, RunRules

LAST_START_S: Final = 2.0
"""How long after its deadline a run may still begin its last answer: the time that lies between two
gates, and no more. What is later never starts."""

NEAR_MISS_PCT: Final = 0.95
"""From this share of a ceiling on a run stands out: 38 of 40 tool calls was nearly a runaway."""


@dataclass(slots=True)  # a value all the same: frozen, making one would cost three times as much
class RunUsage:
    """What a run used. Fields named as in `RunLimits`, money in nano-dollars.

    Attributes:
        context_pct: the fullest prompt so far, as a share of the model's window.
        calls: billed attempts at the model.
        unpriced_calls: those among them whose cost nobody knows; with any, the cost is "at least".
    """

    dispatches: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_nanos: int = 0
    context_pct: float = 0.0
    calls: int = 0
    unpriced_calls: int = 0


Counts = Mapping[tuple[Cause, str], int]
"""Steps taken, by kind and name."""


def _no_counts() -> Counts:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Marks:
    """Where a run converges and stops, worked out once: the gates ask at every tool call.

    Endless where there is no limit. The soft mark of a limit of 0 is endless too: what was never
    allowed does not run low.
    """

    soft: tuple[Number, Number, Number, Number, Number, Number]
    token_stop: Number
    cost_stop: Number
    deadline_s: Number
    context_stop: Number


ENDLESS: Final = float("inf")


def marks_of(limits: RunLimits, rules: RunRules) -> Marks:
    """The marks of these ceilings; `soft` in the order of the meters."""
    late = rules.token_stop_pct if rules.continuation else rules.soft_pct
    return Marks(
        (
            _soft(limits.dispatches, rules.soft_pct),
            _soft(limits.tokens, late),
            _soft(limits.cost_nanos, rules.soft_pct),
            _soft(limits.wall_clock_s, rules.soft_pct),
            _soft(limits.tool_calls, rules.soft_pct),
            _soft(limits.context_pct, rules.soft_pct),
        ),
        ENDLESS if limits.tokens is None else _part(limits.tokens, rules.token_stop_pct),
        _or_endless(limits.cost_nanos),
        _or_endless(limits.wall_clock_s),
        _or_endless(limits.context_pct),
    )


def _soft(limit: Number | None, share: float) -> Number:
    return _part(limit, share) if limit else ENDLESS


def _part(limit: Number, share: float) -> Number:
    """The first number at or past a share of a limit, in whole millionths: floats drift."""
    millionths = limit * round(share * 1_000_000)
    return -(-millionths // 1_000_000) if isinstance(millionths, int) else millionths / 1_000_000


def _or_endless(limit: Number | None) -> Number:
    return ENDLESS if limit is None else limit


@dataclass(slots=True)  # as `RunUsage`
class RunState:
    """The account of one run, or of all runs of a ticket.

    Attributes:
        marks: of these limits and rules, see `marks_of`.
        started_s: on the monotonic clock.
        counts: steps by kind and name, e.g. `(Cause.RETRIES, "read_file a.txt") → 2`.
        converging: past the soft share of some meter; never falls back.
        cause: what was spent first; the run may only finish then.
        spent_at_s: seconds into the run at which that was.
    """

    limits: RunLimits
    rules: RunRules
    marks: Marks
    started_s: float
    used: RunUsage = field(default_factory=RunUsage)
    counts: Counts = field(default_factory=_no_counts)
    converging: bool = False
    cause: Cause | None = None
    spent_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One meter at one moment, in its own unit (money in nano-dollars).

    Attributes:
        ends_at: where the run stops; below `limit` for tokens, else equal to it.
    """

    meter: Meter
    used: Number
    limit: Number | None
    ends_at: Number | None

    @property
    def left(self) -> Number | None:
        """What may still be used; `None` without a limit."""
        return None if self.ends_at is None else max(0, self.ends_at - self.used)

    @property
    def share(self) -> float:
        """Used ÷ limit. 0 without a limit, and of a limit of 0, which can not run low."""
        return self.used / self.limit if self.limit else 0.0

    @property
    def near_miss(self) -> bool:
        """Whether 95 % of what stops the run is used, or more."""
        return bool(self.ends_at) and self.used >= _part(self.ends_at or 0, NEAR_MISS_PCT)


def elapsed_s(state: RunState, now_s: float) -> float:
    """Seconds into the run; never negative."""
    return max(0.0, now_s - state.started_s)


def is_too_late(state: RunState, now_s: float) -> bool:
    """Whether the deadline is so long past that not even a last answer may begin."""
    return elapsed_s(state, now_s) > state.marks.deadline_s + LAST_START_S


def reading(state: RunState, meter: Meter, now_s: float) -> Reading:
    """One meter now."""
    limit = state.limits.of(meter)
    if meter is Meter.WALL_CLOCK_S:
        return Reading(meter, elapsed_s(state, now_s), limit, limit)
    used: Number = getattr(state.used, METERS[meter].field)
    stops_early = meter is Meter.TOKENS and limit is not None
    return Reading(meter, used, limit, state.marks.token_stop if stops_early else limit)


def readings(state: RunState, now_s: float) -> tuple[Reading, ...]:
    """All six meters now, in the order of their checks."""
    return tuple(reading(state, meter, now_s) for meter in Meter)


def most_used(state: RunState, now_s: float) -> Reading:
    """The meter whose ceiling is nearest, by share."""
    return max(readings(state, now_s), key=lambda r: r.share)


def near_misses(state: RunState, now_s: float) -> tuple[Meter, ...]:
    """The meters at 95 % or more of what stops the run."""
    return tuple(r.meter for r in readings(state, now_s) if r.near_miss)


def remaining(state: RunState, now_s: float) -> RunLimits:
    """What is left, as limits: the outer bound that a child is given (`RunLimits.stricter`)."""
    left = {METERS[r.meter].field: r.left for r in readings(state, now_s)}
    if state.limits.context_pct is not None:  # a share of each prompt is not handed out in parts
        left["context_pct"] = state.limits.context_pct
    return replace(state.limits, **left)  # type: ignore[arg-type]


def total_steps(counts: Counts, step: Cause) -> int:
    """All steps of a kind, over all names."""
    return sum(count for (kind, _), count in counts.items() if kind is step)


def tightest(states: Iterable[RunState], now_s: float) -> tuple[Reading, ...]:
    """Per meter the reading with least left among a run, its root and its ticket."""
    rows = zip(*(readings(state, now_s) for state in states), strict=True)
    return tuple(min(row, key=_left_or_endless) for row in rows)


def _left_or_endless(at: Reading) -> float:
    return float("inf") if at.left is None else at.left
