"""The judge: which limits cover a run now and how they stand, from memory wherever possible."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from zoneinfo import ZoneInfo

from ..policy.charges import ScopeId, call_scopes
from ..policy.limits import Budget, Limit, Measure, OnError, Scope
from ..policy.verdicts import NOTHING_SPENT, Level, Spend, Verdict, evaluate, strictest
from ..policy.windows import Period
from ..store.files.config import BudgetFile
from ..store.files.watched_file import Look
from ..store.ledger import Ledger, Recorded
from ..store.sql.database import LedgerError
from ..store.totals import WindowKey, window_key
from .clock import Clock
from .limit_guard import LimitGuard
from .live_runs import GateMemo, LiveRun
from .recorder import Recorder
from .rules import Rules
from .verdict_cache import PATIENCE_S, TTL_S, Refresher, ScopeVerdicts, VerdictCache

log = logging.getLogger(__name__)

READ_PATIENCE_S: Final = 1.0
"""How long the refresher may wait for the lock when a total must be built."""


_READS: Final = 3

RETRY_S: Final = 1.0
"""How long the tool gate goes by the last verdicts, once the refresher did not answer in time."""


class Judge:
    """Verdicts over runs and scopes.

    Args:
        local_zone: the machine's own time zone, asked when budget.yaml names none.
    """

    def __init__(
        self,
        file: BudgetFile,
        ledger: Ledger,
        recorder: Recorder,
        clock: Clock,
        guard: LimitGuard,
        zone_of: Callable[[Budget], ZoneInfo],
    ) -> None:
        self._file = file
        self._guard = guard
        self._ledger = ledger
        self._recorder = recorder
        self._clock = clock
        self._zone_of = zone_of
        self._lock = threading.Lock()
        self._cache = VerdictCache(clock)
        self._refresher = Refresher(self._load)
        self._rules = Rules(Budget(), ZoneInfo("UTC"), -1, has_limits=False)
        self._built_look: Look[Budget] | None = None
        self._built_version = -1
        self._gate_look: Look[Budget] | None = None

    def rules(self, *, look_again: bool = True) -> Rules:
        """The configuration in force, after one stat of the file (see `WatchedFile.current`)."""
        look = self._file.look(look_again=look_again)
        if look_again and self._guard.waits:
            self._guard.settle()
            look = self._file.last_look
        if look is not self._built_look or self._guard.version != self._built_version:
            self._build()
        return self._rules

    @property
    def latest_rules(self) -> Rules:
        """The configuration as of the last look; no stat, for what comes behind a look."""
        return self._rules

    def _build(self) -> None:
        with self._lock:
            version, look = self._guard.version, self._file.last_look
            budget = self._guard.in_force(look)
            if self._rules.generation < 0 or budget != self._rules.budget:
                self._rules = Rules(
                    budget,
                    self._zone_of(budget),
                    self._rules.generation + 1,
                    budget.has_limits,
                    budget.observes,
                )
                self._cache.clear()
            self._built_version, self._built_look = version, look

    def _gate_rules(self) -> Rules:
        """The rules for the tool gate: a new file is compared with the ledger by the refresher."""
        look = self._file.look(look_again=False)
        if look is self._gate_look and self._guard.version == self._built_version:
            return self._rules
        self.rules(look_again=False)
        if look is not self._gate_look:
            self._gate_look = look
            if self._guard.waits:
                self._refresher.wait_for([(Scope.GLOBAL, "")], PATIENCE_S)
        return self.rules(look_again=False)

    def reload(self) -> Rules:
        """Read the file again, changed or not, and forget all verdicts."""
        self._file.reload()
        self._cache.clear()
        return self.rules()

    # ------------------------------------------------------------------ the tool gate

    def tool_verdict(self, live: LiveRun) -> Verdict | None:
        """The strictest verdict over a run, without touching the ledger on this thread.

        Warm, this is one stat and two comparisons. Without limits it is a comparison alone, and
        without a budget.yaml not even the stat.
        """
        rules = self._gate_rules()
        if not rules.has_limits:
            return None
        memo = live.memo
        if (
            memo is not None
            and memo.generation == self._cache.generation
            and self._clock.monotonic() < memo.until_s
        ):
            return memo.verdict
        return self._judge(live, rules)

    def _judge(self, live: LiveRun, rules: Rules) -> Verdict | None:
        now_ms = self._clock.now_ms()
        generation = self._cache.generation
        self.reopen_if_over(live, rules, now_ms)
        scopes = [s for s in call_scopes(live.run, live.run.model) if rules.limits(s)]
        entries = self._entries(scopes, now_ms)
        verdict = live.closing or strictest(
            verdict
            for scope in scopes
            for verdict in self._standing(scope, entries.get(scope), rules, now_ms)
            if not (live.costs_nothing and verdict.limit.measure is Measure.USD)
        )
        until_s = self._good_until(scopes, entries, rules, now_ms)
        # Entries that arrived while we looked make another generation: then the memo is stale.
        live.memo = GateMemo(generation, until_s, verdict)
        return verdict

    def _good_until(
        self,
        scopes: list[ScopeId],
        entries: Mapping[ScopeId, ScopeVerdicts],
        rules: Rules,
        now_ms: int,
    ) -> float:
        """Until when, in monotonic seconds, an answer from these entries stands."""
        now_s = self._clock.monotonic()
        until_s = min((entry.until_s for entry in entries.values()), default=now_s + TTL_S)
        if len(entries) == len(scopes) and until_s > now_s:
            return until_s
        # The ledger did not answer in time. Asked at every tool call, it would hold up each; an
        # answer that still comes makes another generation.
        periods = [period for scope in scopes for _, period in rules.limits_now(scope, now_ms)]
        return now_s + min(RETRY_S, *((period.end_ms - now_ms) / 1000 for period in periods))

    def _entries(self, scopes: list[ScopeId], now_ms: int) -> dict[ScopeId, ScopeVerdicts]:
        fresh = {s: entry for s in scopes if (entry := self._cache.get(s, now_ms)) is not None}
        missing = [scope for scope in scopes if scope not in fresh]
        if missing:
            self._refresher.wait_for(missing, PATIENCE_S)
            for scope in missing:
                entry = self._cache.get(scope, now_ms) or self._cache.last(scope, now_ms)
                if entry is not None:
                    fresh[scope] = entry
        return fresh

    def _standing(
        self, scope: ScopeId, entry: ScopeVerdicts | None, rules: Rules, now_ms: int
    ) -> Iterable[Verdict]:
        if entry is not None:
            return entry.verdicts
        blocks = rules.budget.ledger.on_error is OnError.BLOCK
        return (
            Verdict(
                limit,
                period,
                NOTHING_SPENT,
                Level.HARD if blocks or limit.amount == 0 else Level.OK,
                unknown=limit.amount != 0,
            )
            for limit, period in rules.limits_now(scope, now_ms)
        )

    def reopen_if_over(self, live: LiveRun, rules: Rules, now_ms: int) -> None:
        """Lift "finish now" from a run once its window has ended or the limits have changed."""
        if live.rules_generation != rules.generation:
            live.rules_generation = rules.generation
            live.reopen()
        elif live.closing is not None and not live.closing.period.contains(now_ms):
            live.reopen()

    # ------------------------------------------------------------------ verdicts of scopes

    def verdicts(self, scopes: Iterable[ScopeId]) -> list[Verdict]:
        """The verdicts over all limits of these scopes, from the cache or the refresher."""
        rules, now_ms = self.rules(), self._clock.now_ms()
        limited = [scope for scope in scopes if rules.limits(scope)]
        entries = self._entries(limited, now_ms)
        return [
            verdict for scope in limited if scope in entries for verdict in entries[scope].verdicts
        ]

    def read_now(self, scope: ScopeId) -> tuple[Verdict, ...]:
        """The verdicts of one scope, read from the ledger on this thread: for status and commands.

        Raises:
            LedgerError: the ledger does not answer.
        """
        with self._ledger.reading() as connection:
            return self._read(connection, scope)

    def _read(self, connection: sqlite3.Connection, scope: ScopeId) -> tuple[Verdict, ...]:
        rules, now_ms = self.rules(), self._clock.now_ms()
        limits = rules.limits_now(scope, now_ms)
        if not limits:
            return ()
        periods = [period for _, period in limits]
        for _ in range(_READS):
            seen = self._cache.changed(scope)
            spends = self._ledger.spends(connection, scope, periods, now_ms, READ_PATIENCE_S)
            verdicts = self.evaluated(scope, limits, spends.get, rules)
            if self._cache.put(scope, verdicts, since=seen):
                break  # else something was recorded meanwhile
        return verdicts

    def take(self, recorded: Recorded) -> tuple[list[Verdict], list[ScopeId]]:
        """Replace cached verdicts by totals that were read in a transaction of this process.

        Threads may come here in another order than their transactions had; older totals never
        replace newer ones.

        Returns:
            The new verdicts, and the scopes that have limits but not all their totals yet.
        """
        rules, now_ms = self.rules(look_again=False), self._clock.now_ms()
        taken: list[Verdict] = []
        lacking: list[ScopeId] = []
        for scope, by_window in recorded.totals.items():
            limits = rules.limits_now(scope, now_ms)
            if all(window_key(period) in by_window for _, period in limits):
                verdicts = self.evaluated(scope, limits, _looked_up(by_window), rules)
                if limits:
                    self._cache.put(scope, verdicts, order=recorded.order)
                taken.extend(verdicts)
            else:
                lacking.append(scope)
        self._cache.drop(lacking)
        return taken, lacking

    def drop(self, scopes: Iterable[ScopeId]) -> None:
        """Forget the fresh verdicts of these scopes: their spend has changed."""
        self._cache.drop(scopes)

    def _load(self, scope: ScopeId) -> None:
        """Runs on the refresher's thread.

        (A reader that shared its connection with a waiting writer stalled for 953 ms.)
        """
        try:
            self.read_now(scope)
        except LedgerError as error:
            log.debug("the verdicts of %s could not be read: %s", scope, error)

    def close(self) -> None:
        """End the refresher's thread."""
        self._refresher.close()

    def observed(self, scope: ScopeId) -> tuple[Verdict, ...]:
        """The verdicts over the limits of a scope that are only observed, read from the ledger.

        Raises:
            LedgerError: the ledger does not answer.
        """
        rules, now_ms = self.rules(), self._clock.now_ms()
        limits = rules.observed_now(scope, now_ms)
        if not limits:
            return ()
        periods = [period for _, period in limits]
        with self._ledger.reading() as connection:
            spends = self._ledger.spends(connection, scope, periods, now_ms, READ_PATIENCE_S)
        return self.evaluated(scope, limits, spends.get, rules)

    def evaluated(
        self,
        scope: ScopeId,
        limits: Iterable[tuple[Limit, Period]],
        spend_in: Callable[[Period], Spend | None],
        rules: Rules,
    ) -> tuple[Verdict, ...]:
        """The verdicts over these limits of one scope; rows that wait to be written count."""
        budget = rules.budget
        return tuple(
            evaluate(
                limit,
                (spend_in(period) or NOTHING_SPENT) + self._recorder.pending(scope, period),
                period,
                budget.thresholds,
                budget.on_estimated,
            )
            for limit, period in limits
        )


def _looked_up(by_window: Mapping[WindowKey, Spend]) -> Callable[[Period], Spend | None]:
    return lambda period: by_window.get(window_key(period))
