"""The model gate's arithmetic: what will this call cost, does it fit, set it aside.

Joins the expectation (`policy.expectation`), the decision (`policy.admission`) and the atomic step
in the ledger (`store.reservations`).
"""

import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from cachetools import LRUCache

from ..policy import admission
from ..policy.admission import Admission, Expected, Kind, Standing
from ..policy.charges import ScopeId, call_scopes
from ..policy.events import Call, CostSource
from ..policy.expectation import BYTES_PER_TOKEN, SettledCall, TokenPrices, expect, following
from ..policy.limits import Limit, Measure, OnError, OnUnpriced
from ..policy.prices.pricing import PriceTable, rates
from ..policy.verdicts import NOTHING_SPENT, Level, Spend, Verdict
from ..policy.windows import Period
from ..store.files.prices import PriceBook
from ..store.processes import this_process
from ..store.reservations import Asked, Reservations
from ..store.sql.database import LedgerError
from ..store.totals import WindowKey, window_key
from .clock import Clock
from .judge import Judge
from .live_runs import LiveRun
from .permits import Permit, Request
from .rules import Rules
from .runs.run_guard import RunGuard

log = logging.getLogger(__name__)

PATIENCE_S: Final = 2.0
"""How long a model call may wait for the ledger before `ledger.on_error` decides."""

_KEPT_OUTPUTS: Final = 64

Limits = Mapping[ScopeId, Sequence[tuple[Limit, Period]]]
Decide = Callable[[Sequence[Standing]], Admission]


@dataclass(frozen=True, slots=True)
class _Price:
    """What the gate knows of a price before the call."""

    tokens: TokenPrices
    known: bool
    costs_nothing: bool


class Admissions:
    """Admits calls one after another, whichever process asks."""

    def __init__(
        self,
        judge: Judge,
        reservations: Reservations,
        prices: PriceBook,
        clock: Clock,
        guard: RunGuard,
    ) -> None:
        self._judge = judge
        self._guard = guard
        self._reservations = reservations
        self._prices = prices
        self._clock = clock
        self._lock = threading.Lock()
        self._outputs: LRUCache[str, deque[int]] = LRUCache(256)

    def admit(self, live: LiveRun, request: Request) -> Permit:
        """May this call go? Reserves its expected cost where a limit covers it."""
        rules, now_ms = self._judge.rules(), self._clock.now_ms()
        price = self._price(request, now_ms)
        live.costs_nothing = price.costs_nothing
        permit = Permit(uuid.uuid4().hex, Kind.NORMAL, Expected(), now_ms, request.size)
        if not rules.budget.model_gate.enabled:
            return replace(permit, expected=self._expected(live, request, price, learn=False))
        limits = _covering(live, request, rules, price, now_ms) if rules.has_limits else {}
        learn = bool(limits) or (live.guarded is not None and live.guarded.limited)
        expected = self._expected(live, request, price, learn=learn)
        # First the run's own budget: it is in memory, and what it refuses sets nothing aside.
        warm = replace(permit, expected=self._warm(live, request, price, expected))
        permit = self._guard.admit(live, warm, rules.budget.model_gate.wrap_up_calls)
        permit = replace(permit, expected=expected)
        if permit.refused or not limits:
            return permit
        permit = self._under_limits(live, request, rules, limits, price, permit)
        if permit.refused:
            self._guard.give_back(permit.attempt_id)
        return permit

    def _under_limits(
        self,
        live: LiveRun,
        request: Request,
        rules: Rules,
        limits: Limits,
        price: _Price,
        permit: Permit,
    ) -> Permit:
        if not price.known and rules.budget.on_unpriced is OnUnpriced.BLOCK:
            dollars = _first_dollar_limit(limits)
            if dollars is not None:
                return replace(permit, kind=Kind.REFUSED, unpriced=True, verdict=dollars)
        self._judge.reopen_if_over(live, rules, permit.at_ms)
        return self._decided(live, request, rules, limits, permit)

    def _decided(
        self, live: LiveRun, request: Request, rules: Rules, limits: Limits, permit: Permit
    ) -> Permit:
        gate = rules.budget.model_gate
        if live.exhausted or (live.closing and live.last_answers_used >= gate.wrap_up_calls):
            return replace(permit, kind=Kind.REFUSED, verdict=live.closing)
        if not gate.reserve:
            return self._by_verdict(live, permit)
        decide = _decision(live, permit.expected, rules)
        asked = Asked(
            permit.attempt_id,
            live.run,
            request.provider,
            request.model,
            permit.at_ms,
            limits,
            permit.expected,
        )
        try:
            answer, standings = self._reservations.admit(asked, decide, this_process(), PATIENCE_S)
        except LedgerError as error:
            log.debug("no admission from the ledger: %s", error)
            return self._without_ledger(live, rules, limits, permit, decide)
        return self._noted(live, permit, answer, standings)

    def _noted(
        self, live: LiveRun, permit: Permit, answer: Admission, standings: tuple[Standing, ...]
    ) -> Permit:
        if answer.kind is Kind.REFUSED:
            live.closing = answer.verdict
            live.exhausted = True  # not asked for again under the same limit and window
        elif answer.kind is Kind.LAST:
            live.closing = live.closing or answer.verdict
            live.last_answers_used += 1
        caps = [cap for cap in (permit.output_cap, answer.output_cap) if cap is not None]
        return replace(
            permit,
            kind=permit.kind if answer.kind is Kind.NORMAL else answer.kind,
            output_cap=min(caps, default=None),
            verdict=live.closing if answer.kind is not Kind.NORMAL else None,
            standings=standings,
        )

    def _by_verdict(self, live: LiveRun, permit: Permit) -> Permit:
        """The gate without reservations: it closes when a limit is reached, not before."""
        verdict = self._judge.tool_verdict(live)
        if verdict is None or not verdict.blocks:
            return permit
        first_call = live.settled is None
        answer = Admission(Kind.REFUSED if first_call else Kind.LAST, verdict=verdict)
        return self._noted(live, permit, answer, ())

    def _without_ledger(
        self,
        live: LiveRun,
        rules: Rules,
        limits: Limits,
        permit: Permit,
        decide: Decide,
    ) -> Permit:
        """Admit from the last totals plus this process's own waiting rows, or refuse by choice."""
        if rules.budget.ledger.on_error is OnError.BLOCK:
            limit, period = next(iter(limits.values()))[0]
            unknown = Verdict(limit, period, NOTHING_SPENT, Level.HARD, unknown=True)
            return replace(permit, kind=Kind.REFUSED, verdict=unknown)
        known = {(v.limit, v.period): v.spend for v in self._judge.verdicts(limits)}
        standings = tuple(
            Standing(limit, period, known.get((limit, period), NOTHING_SPENT))
            for covering in limits.values()
            for limit, period in covering
        )
        return self._noted(live, permit, decide(standings), ())

    # ------------------------------------------------------------------ after the call

    def settled(
        self,
        live: LiveRun,
        permit: Permit,
        call: Call,
        totals: Mapping[ScopeId, Mapping[WindowKey, Spend]],
    ) -> None:
        """Learn from a recorded call, and close the run's tools if another one would not fit."""
        if not call.cost.estimated and call.usage.output_tokens:
            self._samples(call.model).append(call.usage.output_tokens)
        prompt_tokens = call.usage.prompt_tokens
        output_nanos = call.usage.output_tokens * permit.expected.output_picos // 1000
        live.settled = SettledCall(
            permit.size,
            prompt_tokens,
            max(0, (call.cost.nanos or 0) - output_nanos),
            self._clock.monotonic(),
            call.provider,
            call.model,
        )
        rules = self._judge.rules(look_again=False)
        if permit.standings and live.closing is None and rules.budget.model_gate.reserve:
            self._close_if_full(live, permit, call, totals, rules)

    def _close_if_full(
        self,
        live: LiveRun,
        permit: Permit,
        call: Call,
        totals: Mapping[ScopeId, Mapping[WindowKey, Spend]],
        rules: Rules,
    ) -> None:
        """Ask now what the next call will be told, so that no tool runs in vain before it."""
        settled = live.settled
        assert settled is not None
        request = Request(
            call.provider,
            call.model,
            "",
            following(settled, call.usage.output_tokens),
            permit.expected.max_tokens,
        )
        price = _Price(self._price(request, call.at_ms).tokens, True, live.costs_nothing)
        expected = self._expected(live, request, price, learn=True)
        decide = _decision(live, expected, rules)
        answer = decide([_with_new_spend(standing, totals) for standing in permit.standings])
        if answer.kind is not Kind.NORMAL:
            # What others held at admission may be settled by now, and would count twice.
            answer = self._looked_again(live, permit, call, expected, decide) or answer
        if answer.kind is not Kind.NORMAL:
            live.closing = answer.verdict
            live.memo = None

    def _looked_again(
        self, live: LiveRun, permit: Permit, call: Call, expected: Expected, decide: Decide
    ) -> Admission | None:
        limits: dict[ScopeId, list[tuple[Limit, Period]]] = {}
        for standing in permit.standings:
            limit = standing.limit
            limits.setdefault((limit.scope, limit.scope_id), []).append((limit, standing.period))
        asked = Asked("", live.run, call.provider, call.model, call.at_ms, limits, expected)
        try:
            return decide(self._reservations.standings(asked, PATIENCE_S))
        except LedgerError:
            return None

    # ------------------------------------------------------------------ expectation

    def _price(self, request: Request, now_ms: int) -> _Price:
        table: PriceTable = self._prices.table()
        route = table.route(request.provider, request.model, "", request.base_url)
        hit = route.at(now_ms)
        if hit is None:
            free = route.fallback is not CostSource.UNPRICED
            return _Price(TokenPrices(), known=free, costs_nothing=free)
        if route.included or hit.row.subscription or hit.row.is_free:
            return _Price(TokenPrices(), known=True, costs_nothing=True)
        each = rates(hit.row, request.size // BYTES_PER_TOKEN)
        return _Price(TokenPrices(each.input, each.output), known=True, costs_nothing=False)

    def _expected(self, live: LiveRun, request: Request, price: _Price, *, learn: bool) -> Expected:
        samples = tuple(self._samples(request.model)) if learn else ()
        last = live.settled_for(request.provider, request.model)
        now_s = self._clock.monotonic()
        return expect(request.size, request.max_tokens, price.tokens, samples, last, now_s)

    def _warm(self, live: LiveRun, request: Request, price: _Price, expected: Expected) -> Expected:
        """The same, if the provider still has the prompt of the turn before in its cache.

        The ceiling of a run believes that; a limit does not, since it may have been forgotten.
        """
        carried = live.carried_for(request.provider, request.model)
        if carried is None:
            return expected
        now_s = self._clock.monotonic()
        warm = expect(request.size, request.max_tokens, price.tokens, (), carried, now_s)
        return replace(expected, input_nanos=min(expected.input_nanos, warm.input_nanos))

    def _samples(self, model: str) -> deque[int]:
        with self._lock:
            found = self._outputs.get(model)
        if found is not None:
            return found
        try:
            recent = self._reservations.recent_outputs(model)
        except LedgerError:
            recent = []
        with self._lock:
            return self._outputs.setdefault(model, deque(recent, maxlen=_KEPT_OUTPUTS))


def _decision(live: LiveRun, expected: Expected, rules: Rules) -> Decide:
    """`admission.admit` for a run as it is now; only the standings are open."""
    budget = rules.budget
    return partial(
        admission.admit,
        expected=expected,
        last_answers=budget.model_gate.wrap_up_calls - live.last_answers_used,
        closing=live.closing is not None,
        thresholds=budget.thresholds,
        on_estimated=budget.on_estimated,
    )


def _covering(
    live: LiveRun, request: Request, rules: Rules, price: _Price, now_ms: int
) -> dict[ScopeId, list[tuple[Limit, Period]]]:
    """The limits that cover a call; a call that costs nothing passes the dollars."""
    covering = {}
    for scope in call_scopes(live.run, request.model):
        limits = [
            (limit, period)
            for limit, period in rules.limits_now(scope, now_ms)
            if not (price.costs_nothing and limit.measure is Measure.USD)
        ]
        if limits:
            covering[scope] = limits
    return covering


def _first_dollar_limit(limits: Limits) -> Verdict | None:
    for covering in limits.values():
        for limit, period in covering:
            if limit.measure is Measure.USD:
                return Verdict(limit, period, NOTHING_SPENT, Level.HARD)
    return None


def _with_new_spend(
    standing: Standing, totals: Mapping[ScopeId, Mapping[WindowKey, Spend]]
) -> Standing:
    limit = standing.limit
    by_window = totals.get((limit.scope, limit.scope_id), {})
    return standing._replace(spend=by_window.get(window_key(standing.period), standing.spend))
