"""The account of a ticket: what all of its runs used, whichever session or process they were in.

Every process adds what is its own and learns what the others added; an account is therefore a
table of whole numbers that can be added and subtracted. Two things stay a run's own and are not in
it: how full its context is, and the retries of an operation.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from .run_limits import STEPS, Cause, RunLimits
from .run_state import RunState, RunUsage, elapsed_s, marks_of
from .run_steps import observed

Account = Mapping[tuple[str, str], int]
"""What was used, by what it is and its name; the name is empty but for steps of one head."""

_COUNTERS: Final = ("dispatches", "tool_calls", "tokens", "cost_nanos")
_ELAPSED: Final = ("elapsed_ms", "")
_SHARED_STEPS: Final = {key: step for step, key in STEPS.items() if step is not Cause.RETRIES}


def account_of(state: RunState, now_s: float) -> Account:
    """What a state says was used so far; time in milliseconds."""
    used = {(name, ""): getattr(state.used, name) for name in _COUNTERS}
    steps = {
        (STEPS[step], name): count
        for (step, name), count in state.counts.items()
        if step is not Cause.RETRIES
    }
    return {**used, **steps, _ELAPSED: round(1000 * elapsed_s(state, now_s))}


def plus(one: Account, other: Account, sign: int = 1) -> Account:
    """`one + sign * other`, without zeros."""
    total = {key: one.get(key, 0) + sign * other.get(key, 0) for key in {*one, *other}}
    return {key: amount for key, amount in total.items() if amount}


def adopted(state: RunState, difference: Account, now_s: float) -> RunState:
    """The state once others are known to have used so much more, or less than they had set aside.

    What they used is no request and no transfer of this run: it ends nothing by itself, unless a
    budget turns out to be spent.
    """
    if not difference:
        return state
    used: RunUsage = replace(
        state.used,
        **{
            name: max(0, getattr(state.used, name) + difference.get((name, ""), 0))
            for name in _COUNTERS
        },
    )
    counts = dict(state.counts)
    for (what, name), more in difference.items():
        if what in _SHARED_STEPS:
            key = (_SHARED_STEPS[what], name)
            counts[key] = max(0, counts.get(key, 0) + more)
    started_s = state.started_s - difference.get(_ELAPSED, 0) / 1000
    changed = replace(
        state, used=used, counts=MappingProxyType(counts), started_s=min(started_s, now_s)
    )
    return observed(changed, now_s)


def bounded(
    state: RunState, limits: RunLimits, elapsed_s: float, now_s: float, *, anew: bool
) -> RunState:
    """The state under the ceilings of the runs that are open now, its clock at so many seconds.

    What was spent under lower ceilings, or by runs that have all ended, is looked at `anew`;
    converging stays.
    """
    started_s = now_s - elapsed_s
    changed = replace(
        state, limits=limits, marks=marks_of(limits, state.rules), started_s=started_s
    )
    if anew or limits.stricter(state.limits) != limits:
        changed = replace(changed, cause=None, spent_at_s=None)
    return observed(changed, now_s)
