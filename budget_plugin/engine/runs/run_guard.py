"""The run guard: every run has one authoritative budget, and ends exactly once.

A run's budget lives here, in memory: no argument, goal or message of a model is read back into it.
Children draw on their parent's. Without run limits a run is only counted, for its receipt.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from cachetools import LRUCache

from ...policy.digests import args_digest, target_digest
from ...policy.events import Call, Run
from ...policy.runs.endings import Outcome, ending_of
from ...policy.runs.lifecycle import (
    Delegated,
    Event,
    Exhausted,
    Finished,
    Released,
    Returned,
    step,
)
from ...policy.runs.receipts import Receipt, receipt_of
from ...policy.runs.refusals import Refusal
from ...policy.runs.run_budget import RunBudget
from ...policy.runs.run_limits import (
    Cause,
    Meter,
    RunLimits,
)
from ...policy.runs.run_state import RunState, reading
from ...policy.runs.run_steps import begun
from ...store.journal import OBSERVED, Journal
from ...store.run_records import RunRecords
from ..clock import Clock
from ..decisions import WOULD_HAVE, about_run
from ..live_runs import LiveRun
from ..permits import Permit
from ..recorder import Recorder, Write
from .extensions import Extensions
from .guarded_runs import GuardedRun
from .run_admission import calls_of, decided, state_of, stop_of
from .run_beginnings import RunBeginnings
from .tickets import Tickets
from .undoing import note_effect, undoes

log = logging.getLogger(__name__)

T = TypeVar("T")

KEPT: Final = 4_096
_METER_OF: Final = {
    Cause.HOPS: Meter.DISPATCHES,
    Cause.TOKENS: Meter.TOKENS,
    Cause.SPEND: Meter.USD,
    Cause.DEADLINE: Meter.WALL_CLOCK_S,
    Cause.TOOL_CALLS: Meter.TOOL_CALLS,
    Cause.CONTEXT: Meter.CONTEXT_PCT,
}


class RunGuard:
    """Budgets, endings and receipts of the runs of this process."""

    def __init__(
        self,
        records: RunRecords,
        journal: Journal,
        recorder: Recorder,
        clock: Clock,
        tickets: Tickets,
        extensions: Extensions,
        beginnings: RunBeginnings,
    ) -> None:
        self._records = records
        self._beginnings = beginnings
        self._extensions = extensions
        self._tickets = tickets
        self._journal = journal
        self._recorder = recorder
        self._clock = clock
        self._held: dict[str, GuardedRun] = {}
        self._charged: LRUCache[str, tuple[int, int]] = LRUCache(KEPT)
        self._noted: LRUCache[tuple[str, ...], bool] = LRUCache(KEPT)

    # ------------------------------------------------------------------ the tool gate

    def try_tool(
        self, live: LiveRun, tool: str, args: object, dispatches: int | None = None
    ) -> Refusal | None:
        """May this tool call start; `None` for yes, and it is counted then.

        Args:
            dispatches: how many children the call starts, `None` for a tool that starts none.
        """
        run = live.guarded
        if run is None:
            return None
        if run.observed is not None:
            self._watch_tool(live, run.observed, dispatches)
        if not run.limited:
            next(run.tools)
            return None
        if run.goes_on_unasked:
            return None
        if run.is_nobodys:
            run = self._beginnings.of_today(live, run)
        now_s = self._clock.monotonic()
        if dispatches is None:
            repeats = _operation(tool, args) if run.failed else ""
            retry_of = repeats if repeats in run.failed else ""
            refused = run.budget.try_tool_call(now_s, retry_of)
        else:
            refused = self._with_ticket(
                run, lambda: run.budget.try_delegation(dispatches, now_s), asks=dispatches > 0
            )
        if refused is not None and dispatches is None and undoes(run, refused, now_s):
            return None
        if refused is not None:
            self._refused(live, run, refused, "tool")
        return refused

    def _watch_tool(self, live: LiveRun, observed: RunBudget, dispatches: int | None) -> None:
        now_s = self._clock.monotonic()
        if dispatches is None:
            refused = observed.try_tool_call(now_s)
        else:
            refused = observed.try_delegation(dispatches, now_s)
        self._would_have(live, observed, refused, "tool")

    def _watch_call(self, live: LiveRun, observed: RunBudget) -> None:
        cause = observed.exhausted(self._clock.monotonic())
        refused = None if cause is None else stop_of(observed, cause)
        self._would_have(live, observed, refused, "model")

    def _would_have(
        self, live: LiveRun, observed: RunBudget, refused: Refusal | None, gate: str
    ) -> None:
        if refused is not None and refused.cause is not Cause.ENDED:
            spent = (state for state in observed.states if state.cause is refused.cause)
            state = next(spent, observed.state)
            self._note(live.run, state, refused, gate, WOULD_HAVE)

    def tool_ended(self, live: LiveRun, tool: str, args: object, *, failed: bool) -> None:
        """A tool has ended: the same on the same target after a failure is a retry."""
        run = live.guarded
        if run is None or not run.limited:
            return
        if run.ticket is not None:
            self._tickets.refresh(run.ticket)
        note_effect(run, tool, args, failed=failed)
        if failed:
            run.failed.add(_operation(tool, args))
        elif run.failed:
            run.failed.discard(_operation(tool, args))

    def _refused(self, live: LiveRun, run: GuardedRun, refused: Refusal, gate: str) -> None:
        if refused.cause.ends_run and run.budget.state.cause is not None:
            run.stop = run.stop or refused
        self._note(live.run, state_of(run.budget, refused.cause), refused, gate, "refused")

    # ------------------------------------------------------------------ the model gate

    def admit(self, live: LiveRun, permit: Permit, wrap_up_calls: int) -> Permit:
        """The permit as the run's own budget changes it: as it is, a last answer, or refused."""
        run = live.guarded
        if run is not None and run.observed is not None:
            self._watch_call(live, run.observed)
        if run is None or not run.limited or run.goes_on_unasked:
            return permit
        run = self._beginnings.of_today(live, run)
        with run.lock:
            answer = self._with_ticket(run, lambda: self._held_for(run, permit, wrap_up_calls))
        if answer.stop is not None:
            action = "refused" if answer.refused else "last answer"
            self._note(
                live.run, state_of(run.budget, answer.stop.cause), answer.stop, "model", action
            )
        return answer

    def _with_ticket(self, run: GuardedRun, decide: Callable[[], T], *, asks: bool = True) -> T:
        """Decide; where a ticket has a word in it, while no other process does."""
        if run.ticket is None or not asks:
            return decide()
        return self._tickets.together(run.ticket, decide)

    def _held_for(self, run: GuardedRun, permit: Permit, wrap_up_calls: int) -> Permit:
        answer = decided(run, permit, wrap_up_calls, self._clock.monotonic())
        self._hold(run, answer)
        return answer

    def refused_outright(self, live: LiveRun) -> None:
        """A call was refused by another rule: a run that made none has not answered."""
        run = live.guarded
        if run is not None:
            run.refused_first = run.refused_first or not (calls_of(run) or run.last_answers_used)

    def _hold(self, run: GuardedRun, permit: Permit) -> None:
        if permit.run_held is None:
            return
        self._held[permit.attempt_id] = run
        for each in run.chain:
            each.in_flight[permit.attempt_id] = permit.run_held.held
            each.ends[run.budget.run_id] = permit.run_held.keeps

    def give_back(self, attempt_id: str) -> None:
        """A call was not made, or is charged: it is no longer on its way."""
        run = self._held.pop(attempt_id, None)
        if run is not None:
            with run.lock:
                for each in run.chain:
                    each.in_flight.pop(attempt_id, None)

    def charge(self, live: LiveRun, call: Call) -> None:
        """Count what a call turned out to use; a fuller report of the same call adds the rest."""
        run = live.guarded
        if run is None:
            return
        tokens, nanos = call.usage.total_tokens, call.cost.nanos
        before = self._charged.get(call.attempt_id)
        self._charged[call.attempt_id] = (tokens, nanos or 0)
        window = run.window_tokens
        share = call.usage.prompt_tokens / window if window else 0.0
        with run.lock:
            self.give_back(call.attempt_id)
            for budget in filter(None, (run.budget, run.observed)):
                budget.charge(
                    self._clock.monotonic(),
                    calls=0 if before else 1,
                    tokens=max(0, tokens - before[0]) if before else tokens,
                    cost_nanos=max(0, (nanos or 0) - before[1]) if before else nanos,
                    context_pct=share,
                )
        if run.ticket is not None:
            self._tickets.refresh(run.ticket)

    # ------------------------------------------------------------------ going in circles

    def stop(self, live: LiveRun, cause: Cause) -> None:
        """A run goes in circles and knows it: it may only give its last answer now."""
        run = live.guarded
        if run is None or run.is_nobodys:
            return
        with run.lock:
            now_s = self._clock.monotonic()
            if not run.limited:
                run.limited = True
                run.budget.charge(now_s, tool_calls=next(run.tools))
            run.budget.exhaust(now_s, cause)

    # ------------------------------------------------------------------ children

    def delegated(self, parent: LiveRun) -> None:
        """A child starts. Under ceilings it was counted when it was asked for."""
        run = parent.guarded
        if run is None:
            return
        self._lives(run, Delegated(1))
        if not run.limited:
            run.budget.charge(self._clock.monotonic(), hops=1)

    def returned(self, parent: LiveRun) -> None:
        """A child is done or lost; a run that waited for it alone ends now."""
        run = parent.guarded
        if run is None:
            return
        self._lives(run, Returned(1))
        if run.life.held is not None and not run.life.open_delegations:
            self.release(parent)

    # ------------------------------------------------------------------ the end

    def finish(self, live: LiveRun, outcome: Outcome) -> None:
        """A turn of a run is over: the run ends, once, or waits for its children."""
        run = live.guarded
        if run is None or run.is_nobodys or run.budget.receipt is not None:
            return
        with run.lock:
            cause = run.budget.exhausted(self._clock.monotonic())
            if cause is None and live.stopped:
                cause = Cause.WINDOW
                run.budget.exhaust(self._clock.monotonic(), cause)
            if cause is not None and cause is not Cause.ENDED:
                self._lives(run, Exhausted(cause))
            if outcome is Outcome.ANSWERED and run.refused_first and not calls_of(run):
                outcome = Outcome.REFUSED
            self._lives(run, Finished(outcome))
            if run.life.held is None:
                self._close(live, run, outcome)

    def account(self, live: LiveRun) -> Receipt | None:
        """What the receipt would say if the run ended now with an answer; `None` without ceilings.

        The last words are written before the host says that the run has ended.
        """
        run = live.guarded
        if run is None or not run.limited or run.is_nobodys:
            return None
        if run.budget.receipt is not None:
            return run.budget.receipt
        now_s = self._clock.monotonic()
        cause = run.budget.exhausted(now_s) or (Cause.WINDOW if live.stopped else None)
        said = run.declared
        ending = ending_of(Outcome.ANSWERED, cause, said.state, gaps=bool(said.gaps))
        return receipt_of(
            run.budget.run_id,
            run.budget.state,
            ending,
            now_s,
            delivered=said.delivered,
            gaps=said.gaps,
            next_owner=said.next_owner,
        )

    def release(self, live: LiveRun) -> None:
        """Nobody goes on with a waiting run: it ends with what its last turn came to."""
        run = live.guarded
        if run is None or run.life.held is None:
            return
        with run.lock:
            outcome = run.life.held.outcome
            self._lives(run, Released())
            self._close(live, run, outcome)

    def stopped_without_a_word(self, live: LiveRun) -> None:
        """Another turn of its session begins, and nobody said how this one ended."""
        run = live.guarded
        if run is not None and run.life.held is None:
            self.finish(live, Outcome.STOPPED)

    def _close(self, live: LiveRun, run: GuardedRun, outcome: Outcome) -> None:
        now_s, run_id = self._clock.monotonic(), run.budget.run_id
        if not run.limited:
            run.budget.charge(now_s, tool_calls=next(run.tools))
        self._extensions.ask_later(live)
        loops = tuple(live.loops.seen.values()) if live.loops is not None else ()
        said = run.declared
        receipt = run.budget.resolve(
            now_s,
            outcome=outcome,
            state=said.state,
            delivered=said.delivered,
            gaps=said.gaps,
            next_owner=said.next_owner,
            loops=loops,
        )
        run.goes_on_unasked = not receipt.ending.is_breach
        for each in run.chain:
            each.ends.pop(run_id, None)
        if run.ticket is not None and run.outer is run.ticket.shared:
            self._tickets.leave(run.ticket, run_id)
        self._write(receipt)

    def _write(self, receipt: Receipt) -> None:
        add = partial(self._records.add, receipt, self._clock.now_ms())
        self._recorder.later(Write(add))

    def _lives(self, run: GuardedRun, event: Event) -> None:
        with run.lock:
            run.life = step(run.life, event).life

    def close_crashed(self, patience_s: float) -> int:
        """Close the runs whose process is gone and that nobody closed; each once, whoever looks.

        Returns:
            How many there were.

        Raises:
            LedgerError: the ledger does not answer; doing it again is right.
        """
        now_ms, closed = self._clock.now_ms(), 0
        for run_id in self._records.left_open(now_ms):
            state = begun(RunLimits(), 0.0, used=self._records.usage(run_id))
            receipt = receipt_of(run_id, state, ending_of(Outcome.CRASHED), 0.0)
            closed += self._records.add(receipt, now_ms, patience_s)
        return closed

    # ------------------------------------------------------------------ the record

    def _note(self, run: Run, state: RunState, refused: Refusal, gate: str, action: str) -> None:
        key = (run.run_id, refused.cause, gate, action)
        if key in self._noted:
            return
        self._noted[key] = True
        meter = _METER_OF.get(refused.cause)
        at = reading(state, meter, self._clock.monotonic()) if meter else None
        decision = about_run(
            run.run_id,
            gate,
            meter or refused.cause,
            action,
            str(refused),
            at_ms=self._clock.now_ms(),
            level=OBSERVED if action == WOULD_HAVE else "hard",
            used=int(at.used) if at else refused.asked,
            amount=int(at.limit or 0) if at else int(refused.limit or 0),
        )
        self._recorder.later(Write(partial(self._journal.note_decision, decision)))


def _operation(tool: str, args: object) -> str:
    return f"{tool} {target_digest(args) or args_digest(args)}"
