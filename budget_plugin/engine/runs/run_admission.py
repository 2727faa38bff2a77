"""Whether one more call to the model fits into a run's own budget, and those that it draws on."""

from dataclasses import replace
from typing import Final

from ...policy import admission
from ...policy.admission import NOTHING_HELD, Kind, Standing
from ...policy.limits import Limit, Measure, OnEstimated, Scope, Thresholds
from ...policy.runs.refusals import Refusal, refusal_of
from ...policy.runs.run_budget import RunBudget
from ...policy.runs.run_limits import Cause
from ...policy.runs.run_state import RunState
from ...policy.verdicts import Spend
from ...policy.windows import END_OF_TIME_MS, Period, Window
from ..permits import Permit
from .guarded_runs import GuardedRun
from .tickets import Ticket
from .undoing import undo_of

_OF_ONE_RUN: Final = Period(Window.TOTAL, 0, END_OF_TIME_MS, "run")


def decided(run: GuardedRun, permit: Permit, wrap_up_calls: int, now_s: float) -> Permit:
    """The permit as the run's own budget changes it: as it is, a last answer, or refused.

    The caller holds the run's lock, and what its ticket shares.
    """
    if run.budget.over:
        return replace(permit, kind=Kind.REFUSED, stop=Refusal(Cause.ENDED))
    owner = run.owner
    cause, needs = run.budget.exhausted(now_s), 0
    left = max(0, wrap_up_calls - owner.last_answers_used)
    undo = owner.effects.calls_left if owner.effects is not None else 0
    if cause is None:
        answer = _admission(run, permit, left + undo, closing=False)
        if answer.kind is Kind.NORMAL:
            return replace(permit, output_cap=answer.output_cap, run_held=answer)
        cause = Cause.SPEND if _is_about_dollars(answer.verdict) else Cause.TOKENS
        needs = answer.verdict.next_needs if answer.verdict is not None else 0
        run.budget.exhaust(now_s, cause)
    run.stop = run.stop or replace(stop_of(run.budget, cause), needs=needs)
    # Splitting a ticket into many runs must not give it a last answer for each.
    no_ticket = _is_spent(run.ticket) and not calls_of(run)
    to_undo = undo_of(owner.effects)
    answer = _admission(run, permit, left + undo, closing=True)
    if no_ticket or not left or answer.kind is Kind.REFUSED or _is_over(run, now_s):
        run.refused_first = run.refused_first or not (calls_of(run) or owner.last_answers_used)
        return replace(permit, kind=Kind.REFUSED, stop=run.stop)
    if to_undo is None:
        owner.last_answers_used += 1
    return replace(
        permit,
        kind=Kind.LAST,
        output_cap=answer.output_cap,
        stop=run.stop,
        run_held=answer,
        undo=to_undo,
    )


def _admission(
    run: GuardedRun, permit: Permit, last_answers: int, *, closing: bool
) -> admission.Admission:
    """What the budgets along the chain say to one more call, beside all that is on its way.

    Ordinary calls stop at 90 % of the tokens; the last tenth is there for the last answer.
    """
    standings = [
        standing
        for each, state in zip(run.chain, run.budget.states, strict=True)
        for standing in _standings(each, state, run.budget.run_id, closing=closing)
    ]
    return admission.admit(
        standings,
        permit.expected,
        last_answers=last_answers,
        closing=closing,
        thresholds=Thresholds(),
        on_estimated=OnEstimated.ENFORCE,
    )


def _standings(run: GuardedRun, state: RunState, asking: str, *, closing: bool) -> list[Standing]:
    limits, used = state.limits, state.used
    tokens = limits.tokens if closing or limits.tokens is None else int(state.marks.token_stop)
    in_flight = sum(run.in_flight.values(), NOTHING_HELD)
    others = sum((held for who, held in run.ends.items() if who != asking), NOTHING_HELD)
    kept = run.ends.get(asking, NOTHING_HELD)
    spend = Spend(certain_nanos=used.cost_nanos, tokens=used.tokens, calls=used.calls)
    return [
        Standing(
            Limit(Scope.GLOBAL, "", Window.TOTAL, measure, amount),
            _OF_ONE_RUN,
            spend,
            in_flight,
            others,
            kept,
        )
        for measure, amount in ((Measure.TOKENS, tokens), (Measure.USD, limits.cost_nanos))
        if amount is not None
    ]


def state_of(budget: RunBudget, cause: Cause) -> RunState:
    """The account that is spent, here or further out: the run's own, its parent's, its ticket's."""
    states = (state for state in budget.states if state.cause is cause)
    return next(states, budget.state)


def stop_of(budget: RunBudget, cause: Cause) -> Refusal:
    """The words for what is spent, here or further out."""
    state = state_of(budget, cause)
    return refusal_of(state) if state.cause is cause else Refusal(cause)


def _is_about_dollars(verdict: object) -> bool:
    limit = getattr(verdict, "limit", None)
    return isinstance(limit, Limit) and limit.measure is Measure.USD


def _is_spent(ticket: Ticket | None) -> bool:
    return ticket is not None and ticket.shared.budget.state.cause is not None


def calls_of(run: GuardedRun) -> int:
    """Calls to the model that it has made."""
    return run.budget.state.used.calls


def _is_over(run: GuardedRun, now_s: float) -> bool:
    """Whether not even a last answer may begin, since the time for it is over too."""
    return run.budget.state.limits.wall_clock_s == 0 or run.budget.too_late(now_s)
