"""The steps of a run: what is charged, what is asked for, what a model reports.

Two verbs. What is *charged* happened already, and the run ends when it reaches a ceiling: a hop
budget of 14 ends it at its 14th transfer. What is *asked* for is granted up to the ceiling and
refused whole beyond it: of a ceiling of 8 dispatches eight start, and the ninth ends the run, for
it wants more than it has.

Every function takes a state and gives the next one. Counters only rise, converging and spent are
one-way, and the first cause stays. Nothing here reads a clock or locks: who shares a state between
threads or processes swaps it in one atomic step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from .refusals import Refusal, refusal_of
from .run_limits import METERS, STEPS, Cause, Meter, Number, RunLimits, RunRules
from .run_state import Counts, Reading, RunState, RunUsage, elapsed_s, marks_of, reading

Answer = tuple[RunState, Refusal | None]
"""The next state, and `None` for granted."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What happened and is to be counted.

    Attributes:
        hops: transfers of control; they count as dispatches.
        cost_nanos: `None` when nobody knows the price of the calls.
        context_pct: size of the last prompt as a share of the model's window.

    Raises:
        ValueError: for a negative number or NaN: nothing is ever given back.
    """

    hops: int = 0
    tool_calls: int = 0
    calls: int = 0
    tokens: int = 0
    cost_nanos: int | None = 0
    context_pct: float = 0.0

    def __post_init__(self) -> None:
        counts = (self.hops, self.tool_calls, self.calls, self.tokens, self.context_pct)
        if not all(count >= 0 for count in (*counts, self.cost_nanos or 0)):
            raise ValueError(f"a charge is never negative: {self}")


NO_CHARGE: Final = Charge()


def begun(
    limits: RunLimits,
    now_s: float,
    rules: RunRules | None = None,
    used: RunUsage | None = None,
    elapsed_s: float = 0.0,
) -> RunState:
    """A run's first state. `used` and `elapsed_s` carry over what a ticket's earlier runs took."""
    rules = rules or RunRules()
    marks = marks_of(limits, rules)
    return observed(RunState(limits, rules, marks, now_s - elapsed_s, used or RunUsage()), now_s)


def observed(state: RunState, now_s: float, charge: Charge = NO_CHARGE) -> RunState:
    """The state with what has become true by now: a passed deadline, converging."""
    if state.cause is not None:
        return state
    cause = _first_spent(state, now_s, charge)
    if cause is not None:
        return spent(state, cause, now_s)
    if state.converging or not _runs_low(state, state.used, now_s):
        return state
    return replace(state, converging=True)


def spent(state: RunState, cause: Cause, now_s: float) -> RunState:
    """The state with a budget spent; for gates that know better than the counters."""
    if state.cause is not None:
        return state
    return replace(state, cause=cause, converging=True, spent_at_s=elapsed_s(state, now_s))


def charged(state: RunState, charge: Charge, now_s: float) -> RunState:
    """Count what happened, then look what is spent. Counts after the end of a budget too."""
    used = state.used
    unpriced = max(1, charge.calls) if charge.cost_nanos is None else 0
    more = RunUsage(
        used.dispatches + charge.hops,
        used.tool_calls + charge.tool_calls,
        used.tokens + charge.tokens,
        used.cost_nanos + (charge.cost_nanos or 0),
        max(used.context_pct, charge.context_pct),
        used.calls + charge.calls,
        used.unpriced_calls + unpriced,
    )
    return observed(_with(state, more, now_s), now_s, charge)


def ask_dispatch(state: RunState, count: int, now_s: float) -> Answer:
    """May `count` children start: all of them, or none. Listing them (0) costs nothing."""
    state = observed(state, now_s)
    if count <= 0:
        return state, None
    if state.cause is not None:
        return state, refusal_of(state, count)
    left = _left(state.limits.dispatches, state.used.dispatches)
    batch = state.limits.batch
    if left is not None and count > left:
        fits = left if batch is None else min(left, batch)
        refused = Refusal(Cause.HOPS, count, fits, state.limits.dispatches)
        return _after(state, refused, now_s, left), refused
    if batch is not None and count > batch:
        return state, Refusal(Cause.BATCH, count, batch, batch, _phases(count, batch))
    return _with(state, replace(state.used, dispatches=state.used.dispatches + count), now_s), None


def ask_tool_call(state: RunState, now_s: float, retry_of: str = "") -> Answer:
    """May one tool call start. `retry_of` names the operation that it repeats, if it does."""
    if retry_of:
        state = observed(state, now_s)
    elif state.cause is None and (cause := _first_spent(state, now_s, NO_CHARGE)) is not None:
        state = spent(state, cause, now_s)
    if state.cause is not None:
        return state, refusal_of(state)
    left = _left(state.limits.tool_calls, state.used.tool_calls)
    if left is not None and left <= 0:
        refused = Refusal(Cause.TOOL_CALLS, 1, 0, state.limits.tool_calls)
        return _after(state, refused, now_s, left), refused
    if retry_of:
        state, no_retry = ask_step(state, Cause.RETRIES, now_s, retry_of)
        if no_retry is not None:
            return state, no_retry
    return _with(state, _one_tool_call_more(state.used), now_s), None


def ask_delegation(state: RunState, count: int, now_s: float) -> Answer:
    """May the tool call start that starts `count` children: it is a tool call, too. All or none."""
    counted, refused = ask_tool_call(state, now_s)
    if refused is not None:
        return counted, refused
    granted, refused = ask_dispatch(counted, count, now_s)
    return (granted, None) if refused is None else ask_dispatch(state, count, now_s)


def ask_call(
    state: RunState,
    now_s: float,
    tokens: int = 0,
    cost_nanos: int = 0,
) -> Answer:
    """May a call to the model start that is expected to use so much; it is charged afterwards.

    Calls in flight are not known here: whoever makes several at once adds what they are expected to
    use to both numbers.
    """
    state = observed(state, now_s)
    if state.cause is not None:
        return state, refusal_of(state)
    for cause, used, more, ceiling in (
        (Cause.TOKENS, state.used.tokens, tokens, state.marks.token_stop),
        (Cause.SPEND, state.used.cost_nanos, cost_nanos, state.marks.cost_stop),
    ):
        if used + more > ceiling:
            state = spent(state, cause, now_s)
            return state, refusal_of(state)
    return state, None


def ask_step(state: RunState, step: Cause, now_s: float, name: str = "") -> Answer:
    """May one more step of a kind be taken: a retry, a critique, a re-judge, a re-triage.

    Args:
        step: one of `STEPS`.
        name: what it belongs to, where the ceiling is per name: the operation, the head.
    """
    state = observed(state, now_s)
    if state.cause is not None:
        return state, refusal_of(state)
    limit: int | None = getattr(state.limits, STEPS[step])
    taken = state.counts.get((step, name), 0)
    if limit is not None and taken >= limit:
        refused = Refusal(step, 1, 0, limit)
        return (spent(state, step, now_s) if step.ends_run else state), refused
    return _counted(state, step, name, taken + 1), None


def reported(state: RunState, step: Cause, count: int, now_s: float, name: str = "") -> RunState:
    """Take over a model's own count of a step. It can add, never take away."""
    state = observed(state, now_s)
    if count <= state.counts.get((step, name), 0):
        return state
    state = _counted(state, step, name, count)
    limit: int | None = getattr(state.limits, STEPS[step])
    over = step.ends_run and limit is not None and count > limit
    return spent(state, step, now_s) if over else state


def extended(state: RunState, more: Mapping[Meter, Number], now_s: float) -> RunState:
    """The linked run after a person granted more: exactly so much may still be used of each meter.

    Counters and converging are carried over, and so are the seconds; the wait for the person is not
    counted. Whatever else is spent and not in `more` stops the linked run again.
    """
    at_s = elapsed_s(state, now_s) if state.spent_at_s is None else state.spent_at_s
    stopped = replace(state, started_s=now_s - at_s)
    limits: dict[str, Any] = {
        METERS[m].field: _enough(reading(stopped, m, now_s), n, state.rules)
        for m, n in more.items()
    }
    limits_now = replace(state.limits, **limits)
    raised = replace(
        stopped,
        limits=limits_now,
        marks=marks_of(limits_now, state.rules),
        cause=None,
        spent_at_s=None,
        converging=True,
    )
    return observed(raised, now_s)


def _enough(at: Reading, more: Number, rules: RunRules) -> Number:
    """The limit under which `more` may still be used; tokens stop before their limit."""
    ends_at = at.used + more
    if at.meter is not Meter.TOKENS:
        return ends_at
    return int(ends_at * 1_000_000) // round(rules.token_stop_pct * 1_000_000)


def _after(state: RunState, refused: Refusal, now_s: float, left: int) -> RunState:
    # Too large a batch with some left is no end, and neither is asking for what was never allowed.
    is_spent = left <= 0 and bool(refused.limit)
    return spent(state, refused.cause, now_s) if is_spent else state


def _left(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(0, limit - used)


def _counted(state: RunState, step: Cause, name: str, count: int) -> RunState:
    return replace(state, counts=_and(state.counts, step, name, count))


def _and(counts: Counts, step: Cause, name: str, count: int) -> Counts:
    return MappingProxyType({**counts, (step, name): count})


def _phases(count: int, batch: int) -> tuple[int, ...]:
    if batch <= 0:
        return ()
    full, rest = divmod(count, batch)
    return (batch,) * full + ((rest,) if rest else ())


def _first_spent(state: RunState, now_s: float, charge: Charge) -> Cause | None:
    """The first spent meter, in their order.

    Dispatches and tool calls are spent by a charge that reaches them. Those that were granted up to
    the ceiling spend nothing until one more is asked for.
    """
    marks, used, limits = state.marks, state.used, state.limits
    if (
        charge is NO_CHARGE
        and used.tokens < marks.token_stop
        and used.cost_nanos < marks.cost_stop
        and now_s - state.started_s < marks.deadline_s
        and used.context_pct < marks.context_stop
    ):
        return None  # nearly always, and at every gate
    checks = (
        (Cause.HOPS, charge.hops and _reached(used.dispatches, limits.dispatches)),
        (Cause.TOKENS, used.tokens >= marks.token_stop),
        (Cause.SPEND, used.cost_nanos >= marks.cost_stop),
        (Cause.DEADLINE, elapsed_s(state, now_s) >= marks.deadline_s),
        (Cause.TOOL_CALLS, charge.tool_calls and _reached(used.tool_calls, limits.tool_calls)),
        (Cause.CONTEXT, used.context_pct >= marks.context_stop),
    )
    return next((cause for cause, is_spent in checks if is_spent), None)


def _reached(used: int, limit: int | None) -> bool:
    return limit is not None and used >= limit


def _runs_low(state: RunState, used: RunUsage, now_s: float) -> bool:
    dispatches, tokens, cost_nanos, seconds, tool_calls, context_pct = state.marks.soft
    return (
        used.dispatches >= dispatches
        or used.tokens >= tokens
        or used.cost_nanos >= cost_nanos
        or now_s - state.started_s >= seconds
        or used.tool_calls >= tool_calls
        or used.context_pct >= context_pct
    )


# `replace` costs several times what a constructor does, and these two are in every tool call.


def _with(state: RunState, used: RunUsage, now_s: float) -> RunState:
    return RunState(
        state.limits,
        state.rules,
        state.marks,
        state.started_s,
        used,
        state.counts,
        state.converging or _runs_low(state, used, now_s),
        state.cause,
        state.spent_at_s,
    )


def _one_tool_call_more(used: RunUsage) -> RunUsage:
    return RunUsage(
        used.dispatches,
        used.tool_calls + 1,
        used.tokens,
        used.cost_nanos,
        used.context_pct,
        used.calls,
        used.unpriced_calls,
    )
