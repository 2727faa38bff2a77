"""Continuing: a run that stops with budget left is sent on, where `runs.continuation` says so.

The nudges and the end of each loop are written down; `why` shows them.
"""

from functools import partial

from ...policy.continuation import Condition, Decision, decide
from ...policy.runs.run_state import RunState
from ...store.journal import Journal
from ..clock import Clock
from ..decisions import about_run
from ..live_runs import LiveRun, LiveRuns
from ..recorder import Recorder, Write
from .guarded_runs import GuardedRun


class Continuing:
    """The loops of continuation of the runs of this process."""

    def __init__(self, runs: LiveRuns, book: Journal, recorder: Recorder, clock: Clock) -> None:
        self._runs = runs
        self._journal = book
        self._recorder = recorder
        self._clock = clock

    def wrote(self, live: LiveRun, tokens: int) -> None:
        """A run's model has written something; it is new to the runs above it, too."""
        for each in (live, *self._runs.above(live)):
            each.written_tokens += tokens

    def look(self, live: LiveRun) -> str:
        """A run would stop now: the nudge to go on with, "" to let it end."""
        run = live.guarded
        if run is None or not run.rules.continuation or live.stopped or self._is_spent(run):
            return ""
        written, live.written_tokens = live.written_tokens, 0
        state = _with_tokens(run)
        decision = decide(
            live.continuation,
            subagent=live.role if live.run.kind == "child" else None,
            budget_tokens=state.limits.tokens,
            turn_tokens=state.used.tokens,
            now_s=self._clock.monotonic(),
            new_tokens=written,
        )
        live.continuation = decision.state
        if decision.goes_on or decision.state.continuation_count:
            self._note(live, state, _account(decision), "sent on" if decision.goes_on else "ended")
        live.sent_on = decision.goes_on
        return decision.nudge

    def ended(self, live: LiveRun) -> None:
        """A run is over that was sent on last: its host, or another limit, has ended the loop."""
        if live.sent_on and live.guarded is not None:
            live.sent_on = False
            count = live.continuation.continuation_count
            self._note(
                live, _with_tokens(live.guarded), f"nobody asked after {_times(count)}", "ended"
            )

    def _is_spent(self, run: GuardedRun) -> bool:
        return run.stop is not None or run.budget.exhausted(self._clock.monotonic()) is not None

    def _note(self, live: LiveRun, state: RunState, detail: str, action: str) -> None:
        decision = about_run(
            live.run.run_id,
            "turn",
            "continuation",
            action,
            detail,
            at_ms=self._clock.now_ms(),
            level="ok",
            used=state.used.tokens,
            amount=state.limits.tokens or 0,
        )
        self._recorder.later(Write(partial(self._journal.note_decision, decision)))


def _with_tokens(run: GuardedRun) -> RunState:
    """The budget that counts: the nearest with a ceiling on tokens, else the run's own."""
    limited = (state for state in run.budget.states if state.limits.tokens is not None)
    return next(limited, run.budget.state)


def _account(decision: Decision) -> str:
    """`diminishing returns after 3 continuations, 120 new tokens`."""
    count, new = decision.state.continuation_count, decision.state.last_delta_tokens
    if decision.condition is Condition.GOES_ON:
        return f"continuation {count}, {new:,} new tokens"
    return f"{decision.condition.replace('_', ' ')} after {_times(count)}, {new:,} new tokens"


def _times(count: int) -> str:
    return f"{count} continuation{'' if count == 1 else 's'}"
