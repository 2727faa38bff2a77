"""Requests for more: asked when a run has run out, answered by a person, taken by a linked run."""

import logging
from dataclasses import replace
from functools import partial

from ...policy.events import Run
from ...policy.runs.extensions import RequestState, Wanted, from_text, to_text, wanted
from ...policy.runs.run_limits import OnExhausted, RunRules
from ...policy.runs.run_state import RunState
from ...store.extensions import ExtensionRequests, Request
from ...store.journal import Decision, Journal
from ...store.sql.database import LedgerError
from ..clock import Clock
from ..decisions import about_run
from ..live_runs import LiveRun
from ..recorder import PATIENCE_S, Recorder, Write

log = logging.getLogger(__name__)

_PERSON_PATIENCE_S = 2.0


class Extensions:
    """The requests of this ledger."""

    def __init__(
        self, requests: ExtensionRequests, journal: Journal, recorder: Recorder, clock: Clock
    ) -> None:
        self.requests = requests
        self._journal = journal
        self._recorder = recorder
        self._clock = clock

    # ------------------------------------------------------------------ the run

    def ask(self, live: LiveRun) -> Request | None:
        """Put the request of a run that ran out; once, however often it is called.

        Returns:
            The request with its number; `None` where none is due, or the ledger does not answer
            (it is put later then).
        """
        request = self._due(live)
        if request is None:
            return None
        try:
            return self.requests.add(request, PATIENCE_S)
        except LedgerError as error:
            log.debug("the request is put later: %s", error)
            return None

    def ask_later(self, live: LiveRun) -> None:
        """The same, off the agent's thread."""
        request = self._due(live)
        if request is not None:
            self._recorder.later(Write(partial(self.requests.add, request)))

    def _due(self, live: LiveRun) -> Request | None:
        run = live.guarded
        if run is None or not run.limited or run.rules.on_exhausted is not OnExhausted.ASK:
            return None
        if live.run.kind == "child" or run.is_nobodys:  # a child's ceiling is its parent's matter
            return None
        now_s = self._clock.monotonic()
        cause = run.budget.exhausted(now_s)
        state = run.budget.states[-1]  # what binds all: the run's own, or its ticket's
        asks = wanted(state, cause) if cause is not None else None
        return None if asks is None else self._request(live.run, asks, state, now_s)

    def _request(self, run: Run, asks: Wanted, state: RunState, now_s: float) -> Request:
        return Request(
            number=0,
            run_id=run.run_id,
            session_id=run.session_id,
            cron_job_id=run.cron_job_id,
            ticket_id=run.ticket_id,
            cause=asks.cause,
            meter=asks.meter,
            asked=asks.amount,
            reason=f"{asks.cause} is spent",
            account=to_text(state, now_s),
            state=RequestState.OPEN,
            asked_ms=self._clock.now_ms(),
        )

    def taken(self, run: Run, rules: RunRules) -> tuple[Request, RunState] | None:
        """What a person has granted to the work that a new run carries on, and its account then."""
        if rules.on_exhausted is not OnExhausted.ASK:
            return None
        try:
            request = self.requests.take(
                run.run_id, run.session_id, run.cron_job_id, run.ticket_id, PATIENCE_S
            )
        except LedgerError as error:
            log.debug("nobody knows whether more was granted: %s", error)
            return None
        if request is None or request.granted is None:
            return None
        more = {request.meter: request.granted}
        try:
            return request, from_text(request.account, rules, more, self._clock.monotonic())
        except ValueError:
            log.exception("the account of request %d cannot be read", request.number)
            return None

    # ------------------------------------------------------------------ the person

    def grant(self, request: Request, amount: int, who: str, via: str) -> bool:
        """A person grants so much; `False` when somebody has decided before.

        Raises:
            LedgerError: the ledger does not answer.
        """
        return self._decide(request, RequestState.GRANTED, amount, who, via)

    def deny(self, request: Request, who: str, via: str) -> bool:
        """A person says no; see `grant`."""
        return self._decide(request, RequestState.DENIED, None, who, via)

    def _decide(
        self, request: Request, state: RequestState, amount: int | None, who: str, via: str
    ) -> bool:
        now_ms = self._clock.now_ms()
        by = (who, via)
        done = self.requests.decide(request, state, amount, by, now_ms, _PERSON_PATIENCE_S)
        if done:
            decided = replace(request, state=state, granted=amount)
            note = _decision(decided, f"request {request.number}, by {who} via {via}", now_ms)
            self._recorder.later(Write(partial(self._journal.note_decision, note)))
        return done


def _decision(request: Request, detail: str, now_ms: int) -> Decision:
    return about_run(
        request.run_id,
        "person",
        request.meter,
        request.state,
        detail,
        at_ms=now_ms,
        amount=request.granted or 0,
    )
