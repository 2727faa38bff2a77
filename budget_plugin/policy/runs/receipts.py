"""Receipts: how a run ended and what it used, for every run, whether a budget was hit or not.

A run that finished at 38 of 40 tool calls was nearly a runaway, and one only learns that when the
number is written down. So `partial` is a field that can be listed, and a near miss is marked.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Final

from .endings import Ending, Status, TerminalState
from .run_limits import METERS, STEPS, Meter, Number
from .run_state import Reading, RunState, readings, total_steps

VERSION: Final = 1

A_HUMAN: Final = "human"
"""Who takes over what nobody was named for."""


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """One meter at the end. Money in nano-dollars, time in seconds, context as a share.

    Attributes:
        limit: `None` without one.
        peak_pct: most that was used of the limit, in percent; `None` without a limit.
        near_miss: 95 % or more of what stops a run was used.
    """

    used: Number
    limit: Number | None = None
    peak_pct: float | None = None
    near_miss: bool = False


@dataclass(frozen=True, slots=True)
class LoopSeen:
    """A way in which the run went in a circle.

    Attributes:
        detector: which kind of circle, as in budget.yaml.
        action: what followed in the end: `watched`, `warned`, `refused` or `ended`.
        count: how often by then.
        subject: the tool, the agents in order, or the head.
    """

    detector: str
    action: str
    count: int
    subject: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """How a run ended and what it used.

    Attributes:
        delivered: what is there, in the run's own words.
        gaps: what is missing; never empty for a partial run.
        next_owner: who takes over; empty for a complete run.
        budgets: every meter.
        calls: billed attempts at the model.
        unpriced_calls: those whose cost nobody knows; with any, the cost is "at least".
        steps: retries, critiques, re-judges and re-triages, by their ceiling's name.
        loops: circles that were seen, whether or not anything followed.
    """

    run_id: str
    ending: Ending
    delivered: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    next_owner: str = ""
    budgets: Mapping[Meter, BudgetUse] = field(default_factory=dict)
    calls: int = 0
    unpriced_calls: int = 0
    steps: Mapping[str, int] = field(default_factory=dict)
    converged: bool = False
    loops: tuple[LoopSeen, ...] = ()

    @property
    def is_partial(self) -> bool:
        """Whether it belongs into the queue of its next owner."""
        return self.ending.status is Status.PARTIAL

    @property
    def near_misses(self) -> tuple[Meter, ...]:
        """Meters that were nearly spent, apart from the one that ended the run."""
        return tuple(
            meter
            for meter, use in self.budgets.items()
            if use.near_miss and METERS[meter].cause != self.ending.cause
        )

    def used(self, meter: Meter) -> Number:
        """What was used of one meter."""
        return self.budgets[meter].used if meter in self.budgets else 0


def receipt_of(
    run_id: str,
    state: RunState,
    ending: Ending,
    now_s: float,
    *,
    delivered: Sequence[str] = (),
    gaps: Sequence[str] = (),
    next_owner: str = "",
    loops: Sequence[LoopSeen] = (),
) -> Receipt:
    """The receipt of a run that ends now. A partial run names a gap and who takes over."""
    if ending.status is Status.PARTIAL:
        gaps = gaps or (f"not said; the run ended by: {ending.cause}",)
        next_owner = next_owner or A_HUMAN
    return Receipt(
        run_id,
        ending,
        tuple(delivered),
        tuple(gaps),
        next_owner,
        MappingProxyType({r.meter: _use(r) for r in readings(state, now_s)}),
        state.used.calls,
        state.used.unpriced_calls,
        MappingProxyType({name: total_steps(state.counts, step) for step, name in STEPS.items()}),
        state.converging,
        tuple(loops),
    )


def _use(at: Reading) -> BudgetUse:
    if at.limit is None:
        return BudgetUse(at.used)
    pct = 100 * at.used / at.limit if at.limit else 100.0 * bool(at.used)
    return BudgetUse(at.used, at.limit, round(pct, 1), at.near_miss)


# --- JSON ---------------------------------------------------------------------------------------


def to_json(receipt: Receipt) -> str:
    """The receipt as one line of JSON."""
    ending = receipt.ending
    return json.dumps(
        {
            "version": VERSION,
            "run_id": receipt.run_id,
            "status": ending.status,
            "state": ending.state,
            "cause": ending.cause,
            "trigger": ending.trigger,
            "delivered": receipt.delivered,
            "gaps": receipt.gaps,
            "next_owner": receipt.next_owner,
            "budgets": {meter: _use_out(use) for meter, use in receipt.budgets.items()},
            "near_misses": receipt.near_misses,
            "calls": receipt.calls,
            "unpriced_calls": receipt.unpriced_calls,
            "tools": receipt.used(Meter.TOOL_CALLS),
            "dispatches": receipt.used(Meter.DISPATCHES),
            "cost_nanos": receipt.used(Meter.USD),
            "steps": dict(receipt.steps),
            "converged": receipt.converged,
            "loops": [asdict(loop) for loop in receipt.loops],
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def from_json(text: str) -> Receipt:
    """Read a receipt back; keys that it does not know are passed over.

    Raises:
        ValueError: the text is no receipt; the message says what is wrong.
    """
    try:
        return _read(json.loads(text))
    except (KeyError, TypeError, AttributeError) as wrong:
        raise ValueError(f"not a receipt: {wrong!r}") from wrong


def _read(raw: dict[str, Any]) -> Receipt:
    ending = Ending(
        TerminalState(raw["state"]), raw["cause"], Status(raw["status"]), raw.get("trigger", "")
    )
    known = set(Meter)
    return Receipt(
        raw["run_id"],
        ending,
        tuple(raw.get("delivered", ())),
        tuple(raw.get("gaps", ())),
        raw.get("next_owner", ""),
        MappingProxyType(
            {Meter(m): _use_in(use) for m, use in raw.get("budgets", {}).items() if m in known}
        ),
        raw.get("calls", 0),
        raw.get("unpriced_calls", 0),
        MappingProxyType(dict(raw.get("steps", {}))),
        raw.get("converged", False),
        tuple(_loop_in(loop) for loop in raw.get("loops", ())),
    )


def _use_out(use: BudgetUse) -> dict[str, Any]:
    return {
        "used": use.used,
        "limit": use.limit,
        "peak_pct": use.peak_pct,
        "near_miss": use.near_miss,
    }


def _loop_in(raw: dict[str, Any]) -> LoopSeen:
    return LoopSeen(raw["detector"], raw["action"], raw["count"], tuple(raw.get("subject", ())))


def _use_in(raw: dict[str, Any]) -> BudgetUse:
    return BudgetUse(
        raw["used"], raw.get("limit"), raw.get("peak_pct"), raw.get("near_miss", False)
    )


# --- many ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle and the far end of many runs: half lie at or below p50, 99 of 100 below p99."""

    p50: Number
    p99: Number


@dataclass(frozen=True, slots=True)
class Rates:
    """Many receipts at a glance. Shares are 0 to 1, and `None` without any run.

    Attributes:
        partial: share of runs that ended partial.
        exhausted: share that a budget ended.
        near_miss: share that nearly spent one.
        converged: share that was told to finish.
        causes: number of runs by cause.
        spreads: p50 and p99 by meter.
    """

    runs: int
    partial: float | None
    exhausted: float | None
    near_miss: float | None
    converged: float | None
    states: Mapping[TerminalState, int]
    causes: Mapping[str, int]
    spreads: Mapping[Meter, Spread]


def rates(receipts: Sequence[Receipt]) -> Rates:
    """Shares, counts and spreads over many receipts."""
    return Rates(
        len(receipts),
        _share([r.is_partial for r in receipts]),
        _share([r.ending.is_exhausted for r in receipts]),
        _share([bool(r.near_misses) for r in receipts]),
        _share([r.converged for r in receipts]),
        Counter(r.ending.state for r in receipts),
        Counter(r.ending.cause for r in receipts),
        {m: _spread([r.used(m) for r in receipts]) for m in Meter} if receipts else {},
    )


def _share(marks: Sequence[bool]) -> float | None:
    return sum(marks) / len(marks) if marks else None


def _spread(values: Sequence[Number]) -> Spread:
    ranked = sorted(values)
    return Spread(_nearest_rank(ranked, 50), _nearest_rank(ranked, 99))


def _nearest_rank(ranked: Sequence[Number], percent: int) -> Number:
    """A value that occurred: the smallest that so many percent do not pass."""
    return ranked[max(0, -(-percent * len(ranked) // 100) - 1)]
