"""`status`: how every limit in use stands, read the way the gates read it."""

from collections.abc import Iterable
from itertools import chain
from typing import Final

from ..engine.engine import Engine
from ..messages.cron import ShortJob
from ..messages.observing import Watched, WatchedRuns
from ..messages.status import Entry, Status, status_text
from ..messages.status_data import status_data
from ..policy.charges import ScopeId
from ..policy.limits import SCOPES, Limit, Scope
from ..policy.tier_costs import TierCost
from ..policy.verdicts import NOTHING_SPENT
from ..policy.windows import Window
from ..store.activity import active_ids
from ..store.journal import Pause, Stopped
from ..store.sql.database import LedgerError
from .asking import OK, OVER_BUDGET, PROBLEM, Answer, Args, Caller
from .naming import misnamed_jobs
from .prices import unpriced_models
from .spending import ACTIVE_DAYS, DAY_MS, short_job, spent, tier_costs

_LONGEST_WINDOW_DAYS: Final = 32
"""A month, and a day for its clocks."""


def status(engine: Engine, args: Args) -> Answer:
    """How the limits stand; with `check`, exit code 3 when one of them blocks."""
    report = _gather(engine, args.caller)
    code = PROBLEM if report.ledger_error else OK
    if args.check and report.over_budget:
        code = OVER_BUDGET
    return Answer(status_text(report, args.caller.prefix), status_data(report), code, report=report)


def _gather(engine: Engine, caller: Caller) -> Status:
    rules, now_ms = engine.rules(), engine.clock.now_ms()
    engine.prices.table()  # looks at the user's file, so that its problems are known
    entries: dict[Scope, list[Entry]] = {}
    active: dict[Scope, list[str]] = {}
    overall = Entry(Scope.GLOBAL, "", (), NOTHING_SPENT, NOTHING_SPENT)
    error = ""
    pauses: list[Pause] = []
    short_jobs: list[ShortJob] = []
    tiers: list[TierCost] = []
    unpriced: list[str] = []
    stopped: dict[tuple[str, ...], Stopped] = {}
    observed: list[Watched] = []
    observed_runs: WatchedRuns | None = None
    try:
        overall = _entry(engine, (Scope.GLOBAL, ""))
        active = _active(engine, caller, now_ms)
        for scope, ids in active.items():
            found = [_entry(engine, (scope, scope_id)) for scope_id in ids]
            entries[scope] = [entry for entry in found if not entry.is_empty]
        if caller.may_change:
            pauses = engine.journal.pauses()
            tiers = tier_costs(engine)
            unpriced = _unpriced_models(engine, [overall, *chain.from_iterable(entries.values())])
            observed, observed_runs = _observed(engine, active), _observed_runs(engine, now_ms)
        stopped = engine.journal.stopped(now_ms - _LONGEST_WINDOW_DAYS * DAY_MS)
        short_jobs = _short_jobs(engine, active.get(Scope.CRON_JOB, ()), pauses)
    except LedgerError as problem:
        error = str(problem)
    problems = (*engine.budget_file.problems, *misnamed_jobs(engine), *engine.prices.problems)
    return Status(
        now_ms=now_ms,
        zone=rules.zone,
        overall=overall,
        sections=tuple((scope, tuple(found)) for scope, found in entries.items() if found),
        inactive=tuple(_inactive(engine, active)) if caller.may_change else (),
        pauses=tuple(pauses),
        short_jobs=tuple(short_jobs),
        job_names=engine.jobs.names(),
        observed=tuple(observed),
        observed_runs=observed_runs,
        held=tuple(engine.held_limits()) if caller.may_change else (),
        problems=problems if caller.may_change else (),
        waiting_calls=engine.recorder.waiting_calls,
        failing_since_ms=engine.recorder.failing_since_ms,
        ledger_error=error,
        model_gate=rules.budget.model_gate.enabled,
        limited=not rules.limits_nothing,
        run_limits=rules.budget.runs.has_limits,
        personal=not caller.may_change,
        tiers=tuple(tiers),
        unpriced_models=tuple(unpriced),
        stopped=stopped,
    )


def _unpriced_models(engine: Engine, entries: Iterable[Entry]) -> list[str]:
    """Whose calls are missing in the dollars that these entries show."""
    spends = (
        spend
        for entry in entries
        for spend in (entry.month, *(verdict.spend for verdict in entry.verdicts))
    )
    if not any(spend.unpriced_calls for spend in spends):
        return []
    return unpriced_models(engine)


def _observed(engine: Engine, active: dict[Scope, list[str]]) -> list[Watched]:
    """How the observed limits stand over everything and every active id."""
    if not engine.rules().observes:
        return []
    ids = [(scope, scope_id) for scope, found in active.items() for scope_id in found]
    return [
        Watched(verdict, engine.journal.would_have_stopped(verdict.limit, verdict.period.start_ms))
        for scope in ((Scope.GLOBAL, ""), *ids)
        for verdict in engine.judge.observed(scope)
    ]


def _observed_runs(engine: Engine, now_ms: int) -> WatchedRuns | None:
    if not engine.rules().budget.runs.observes:
        return None
    since_ms = now_ms - ACTIVE_DAYS * DAY_MS
    return WatchedRuns(ACTIVE_DAYS, engine.journal.ceilings_would_have_stopped(since_ms))


def _short_jobs(engine: Engine, job_ids: Iterable[str], pauses: Iterable[Pause]) -> list[ShortJob]:
    """The jobs whose next run will likely be stopped; of a paused one that is no news."""
    paused = {pause.cron_job_id for pause in pauses}
    found = (short_job(engine, job_id) for job_id in job_ids if job_id not in paused)
    return [job for job in found if job is not None]


def _active(engine: Engine, caller: Caller, now_ms: int) -> dict[Scope, list[str]]:
    """The ids that were active in the last 30 days; for a sender in a chat app only themselves."""
    if not caller.may_change:
        return {Scope.SENDER: [caller.sender_id]} if caller.sender_id else {}
    since_ms = now_ms - ACTIVE_DAYS * DAY_MS
    return {
        scope: active_ids(engine.database, scope, since_ms)
        for scope, kind in SCOPES.items()
        if kind.takes_id
    }


def _entry(engine: Engine, scope: ScopeId) -> Entry:
    verdicts = engine.judge.read_now(scope)
    if verdicts:
        return Entry(*scope, verdicts, NOTHING_SPENT, NOTHING_SPENT)
    return Entry(
        *scope, (), spent(engine, scope, Window.DAILY), spent(engine, scope, Window.MONTHLY)
    )


def _inactive(engine: Engine, active: dict[Scope, list[str]]) -> list[Limit]:
    """Limits of ids that did nothing, and defaults that nobody's activity falls under."""
    budget = engine.rules().budget
    found: list[Limit] = []
    for scope, limits in budget.scopes.items():
        if not SCOPES[scope].takes_id:
            continue
        ids = set(active.get(scope, ()))
        if not ids:
            found += [
                Limit(scope, "", key.window, key.measure, amount)
                for key, amount in limits.default.items()
                if amount is not None and ("", key) not in limits.observed
            ]
        for scope_id in limits.overrides:
            if scope_id not in ids:
                own = budget.limits_for(scope, scope_id)
                found += [limit for limit in own if limit.from_override]
    return found
