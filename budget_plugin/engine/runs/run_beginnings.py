"""How a run begins: which ceilings it gets, on whose budget it draws, from which run it goes on."""

from dataclasses import replace
from functools import partial

from ...policy.events import Run
from ...policy.runs.effects import Effects
from ...policy.runs.lifecycle import begin
from ...policy.runs.run_budget import RunBudget
from ...policy.runs.run_limits import (
    RUN_LIMIT_FIELDS,
    OnExhausted,
    RunLimits,
    RunPolicy,
    RunRules,
    RunTerms,
    nobodys_key,
)
from ...store.run_records import OUTSIDE_A_TURN, RunRecords
from ..clock import Clock
from ..live_runs import LiveRun
from ..recorder import Recorder, Write
from .extensions import Extensions
from .guarded_runs import GuardedRun
from .tickets import Tickets


class RunBeginnings:
    """Gives the runs of this process their budgets."""

    def __init__(
        self,
        records: RunRecords,
        recorder: Recorder,
        clock: Clock,
        tickets: Tickets,
        extensions: Extensions,
    ) -> None:
        self._records = records
        self._recorder = recorder
        self._clock = clock
        self._tickets = tickets
        self._extensions = extensions

    def begin(
        self,
        live: LiveRun,
        policy: RunPolicy,
        outer: GuardedRun | None,
        command: str = "",
        *,
        goes_on: bool = False,
    ) -> None:
        """Give a run its budget; one that has its budget keeps it, whatever the file says later.

        Args:
            outer: its parent, or with `goes_on` the run for which the host has opened it.
        """
        if live.guarded is not None:
            return
        run = live.run
        terms = policy.terms(run.kind, run.platform, command)
        is_limited = policy.has_limits and _limits_something(terms.limits)
        limits = terms.limits if is_limited else RunLimits(retries_per_operation=None)
        if run.run_id.endswith(OUTSIDE_A_TURN):
            if is_limited:
                self._begin_nobodys(live, limits, terms.rules)
            return
        granted = None
        if outer is None and is_limited:
            granted = self._extensions.taken(run, terms.rules)
            limits = granted[1].limits if granted else limits
            if run.ticket_id:
                outer = self._tickets.join(run.ticket_id, run.run_id, limits, terms.rules).shared
        elif outer is not None and goes_on:
            outer = outer.owner
        limited = is_limited or (outer is not None and outer.limited)
        guarded = self._guarded(run, limits, terms.rules, outer, limited=limited)
        guarded.observed = self._observed(run.run_id, terms, outer)
        guarded.goes_on = goes_on
        if granted:
            request, account = granted
            guarded.linked_run_id = request.run_id
            guarded.budget.swap(lambda _: account)
        live.guarded = guarded

    def _guarded(
        self,
        run: Run,
        limits: RunLimits,
        rules: RunRules,
        outer: GuardedRun | None,
        *,
        limited: bool,
    ) -> GuardedRun:
        now_s, outer_budget = self._clock.monotonic(), outer.budget if outer else None
        budget = RunBudget.create(limits, now_s, rules=rules, run_id=run.run_id, outer=outer_budget)
        life = begin(rules.on_exhausted)
        guarded = GuardedRun(budget, rules, life, limited, outer)
        if rules.on_exhausted is OnExhausted.ABORT and limited and run.kind != "child":
            guarded.effects = Effects(life.undos_left)
        if outer is not None:
            guarded.lock, guarded.ticket = outer.lock, outer.ticket
        return guarded

    def _begin_nobodys(self, live: LiveRun, limits: RunLimits, rules: RunRules) -> None:
        """What happens outside of any turn shares one budget for each UTC day; it has no deadline,
        since nobody began."""
        limits = replace(limits, wall_clock_s=None, context_pct=None)
        key = nobodys_key(self._clock.now_ms())
        shared = self._tickets.join(key, live.run.run_id, limits, rules).shared
        live.guarded = self._guarded(live.run, limits, rules, shared, limited=True)
        live.guarded.is_nobodys = True

    def of_today(self, live: LiveRun, run: GuardedRun) -> GuardedRun:
        """What happens outside of any turn is of this day, however old its session is."""
        if not run.is_nobodys or run.ticket is None:
            return run
        if run.ticket.ticket_id != nobodys_key(self._clock.now_ms()):
            self._tickets.leave(run.ticket, live.run.run_id)
            self._begin_nobodys(live, run.budget.state.limits, run.rules)
        return live.guarded or run

    def link(self, live: LiveRun, caused_by: LiveRun | None) -> None:
        """Write down which ended run a new one goes on from, off the agent's thread.

        A turn of the host's own goes on from the run that caused it; a person's new work from the
        last run of the conversation, if that was stopped.
        """
        run = live.guarded
        if run is None or not run.limited or run.is_nobodys or live.run.kind == "child":
            return
        known = caused_by.run.run_id if caused_by is not None else run.linked_run_id
        self._recorder.later(Write(partial(self._link, live.run, known)))

    def _link(self, run: Run, known: str, patience_s: float) -> None:
        before = None if known else self._records.last_of_session(run.session_id)
        if before is not None and before.receipt.ending.is_breach:
            known = before.run_id
        if known and known != run.run_id:
            self._records.link(run.run_id, known, patience_s)

    def _observed(self, run_id: str, terms: RunTerms, outer: GuardedRun | None) -> RunBudget | None:
        """A second account under the ceilings that are only observed, where there are any."""
        around = outer.observed if outer else None
        if terms.observed is None and around is None:
            return None
        limits = terms.observed or RunLimits(retries_per_operation=None)
        now_s = self._clock.monotonic()
        return RunBudget.create(limits, now_s, rules=terms.rules, run_id=run_id, outer=around)


def _limits_something(limits: RunLimits) -> bool:
    """The cap on retries alone switches nothing on."""
    amounts = {name: getattr(limits, name) for name in RUN_LIMIT_FIELDS}
    return any(
        amount is not None for name, amount in amounts.items() if name != "retries_per_operation"
    )
