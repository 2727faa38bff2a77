"""`forecast`: where the pace of a scope leads, for each of its limits or for one window."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from ..engine.engine import Engine
from ..messages import reports
from ..messages.cron import ShortJob, short_job_text
from ..messages.forecasts import (
    Outlooks,
    forecast_data,
    forecast_text,
    nothing_to_forecast,
)
from ..messages.jobs_ahead import schedules_not_known
from ..messages.layout import page
from ..policy.charges import ScopeId
from ..policy.forecast import DAYS_BACK, Day, forecast
from ..policy.limits import SCOPES, Measure, Scope
from ..policy.schedules import ScheduledJob, ahead
from ..policy.verdicts import Spend, used
from ..policy.windows import Period, Window
from ..store.activity import active_ids
from .asking import PROBLEM, Answer, Args, Caller
from .grammar import Question, question
from .jobs_ahead import WITH_JOBS, JobsOf, jobs_ahead
from .naming import scope_id
from .spending import ACTIVE_DAYS, DAY_MS, short_job, spent

_MOST_IDS: Final = 20
_MONTH_DAYS: Final = 31


def forecast_(engine: Engine, args: Args) -> Answer:
    """The outlook of everything together, or of what was asked for."""
    asked = question(args.words, args.scope_id)
    if asked.scope_id is not None:
        asked = replace(asked, scope_id=scope_id(engine, asked.scope, asked.scope_id))
    if not _may_ask(args.caller, asked):
        return Answer(reports.only_your_own(), None, PROBLEM)
    now_ms, zone = engine.clock.now_ms(), engine.rules().zone
    jobs_of = _jobs_of(engine, args, asked)
    found = [
        outlook
        for scope_id in _ids(engine, asked, args.caller)
        for outlook in _outlooks(engine, (asked.scope, scope_id), asked.window, jobs_of)
    ]
    if not found:
        text = nothing_to_forecast(asked.scope, asked.scope_id or "", asked.window)
        return Answer(text, [])
    personal = not args.caller.may_change
    names = engine.jobs.names()
    outlooks = forecast_text(found, names, now_ms, zone, shares_only=personal)
    unknown = names and jobs_of is None and asked.scope in WITH_JOBS and not personal
    text = page(
        [
            outlooks,
            *map(short_job_text, _short_jobs(engine, found)),
            *([schedules_not_known()] if unknown else ()),
        ]
    )
    return Answer(text, None if personal else forecast_data(found, names))


def _jobs_of(engine: Engine, args: Args, asked: Question) -> JobsOf | None:
    """What is known of the jobs ahead, for who may know what they cost."""
    if asked.scope not in WITH_JOBS or not args.caller.may_change:
        return None
    return jobs_ahead(engine, args.host)


def _short_jobs(engine: Engine, outlooks: Iterable[Outlooks]) -> list[ShortJob]:
    """Of the cron jobs that were asked about, those whose next run will likely be stopped."""
    ids = dict.fromkeys(o.scope_id for o in outlooks if o.scope is Scope.CRON_JOB)
    return [job for job_id in ids if (job := short_job(engine, job_id)) is not None]


def _may_ask(caller: Caller, asked: Question) -> bool:
    if caller.may_change or asked.scope is Scope.GLOBAL:
        return True
    return asked.scope is Scope.SENDER and asked.scope_id in (None, caller.sender_id)


def _ids(engine: Engine, asked: Question, caller: Caller) -> list[str]:
    if not SCOPES[asked.scope].takes_id:
        return [""]
    if asked.scope_id is not None:
        return [asked.scope_id]
    if not caller.may_change:
        return [caller.sender_id] if caller.sender_id else []
    since_ms = engine.clock.now_ms() - ACTIVE_DAYS * DAY_MS
    return active_ids(engine.database, asked.scope, since_ms)[:_MOST_IDS]


def _outlooks(
    engine: Engine, scope: ScopeId, window: Window | None, jobs_of: JobsOf | None
) -> Iterator[Outlooks]:
    verdicts = [
        verdict
        for verdict in engine.judge.read_now(scope)
        if window in (None, verdict.limit.window)
    ]
    days = _days(engine, scope)
    jobs = jobs_of(scope) if jobs_of is not None else None
    for verdict in verdicts:
        limit = verdict.limit
        yield _outlook(
            engine, scope, limit.measure, verdict.period, verdict.spend, limit.amount, days, jobs
        )
    if not verdicts:
        asked = window or Window.MONTHLY
        period = engine.rules().period(asked, engine.clock.now_ms())
        spend = spent(engine, scope, asked)
        if spend.calls or scope[0] is Scope.GLOBAL:
            yield _outlook(engine, scope, Measure.USD, period, spend, None, days, jobs)


def _outlook(
    engine: Engine,
    scope: ScopeId,
    measure: Measure,
    period: Period,
    spend: Spend,
    limit: int | None,
    days: list[tuple[int, Spend]],
    jobs: Sequence[ScheduledJob] | None,
) -> Outlooks:
    now_ms, so_far = engine.clock.now_ms(), used(spend, measure)
    counted = [Day(start_ms, used(on_day, measure)) for start_ms, on_day in days]
    of_a_job = scope[0] is Scope.CRON_JOB
    coming = None
    if jobs is not None and measure is Measure.USD and period.window is not Window.TOTAL:
        coming = ahead(period, now_ms, so_far, limit, jobs)
        if not (coming.jobs or of_a_job):
            coming = None
    return Outlooks(
        *scope,
        measure,
        period,
        forecast(period, now_ms, so_far, limit, counted, coming, all_scheduled=of_a_job),
        at_least=measure is Measure.USD and bool(spend.unpriced_calls),
    )


def _days(engine: Engine, scope: ScopeId) -> list[tuple[int, Spend]]:
    """What the scope used on each of the last days, today last: a month of them, since the pace of
    a month counts from its first day with data."""
    rules = engine.rules()
    now_ms = engine.clock.now_ms()
    today = rules.period(Window.DAILY, now_ms)
    days = [(today.start_ms, spent(engine, scope, Window.DAILY))]
    start_ms = today.start_ms
    for _ in range(max(DAYS_BACK, _MONTH_DAYS)):
        day = rules.period(Window.DAILY, start_ms - 1)
        start_ms = day.start_ms
        days.append((start_ms, engine.ledger.spend_between(scope, start_ms, day.end_ms)))
    return days[::-1]
