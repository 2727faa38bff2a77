"""The firings of cron jobs that are still to come, with what a run of each has cost lately."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from ..engine.engine import Engine
from ..policy.charges import ScopeId
from ..policy.job_costs import JobCosts, job_costs
from ..policy.limits import CronResume, Scope
from ..policy.schedules import Schedule, ScheduledJob
from ..policy.windows import Window
from ..store.activity import job_runs
from ..store.journal import Pause
from .asking import Host
from .spending import ACTIVE_DAYS, DAY_MS

WITH_JOBS: Final = (Scope.GLOBAL, Scope.CRON_JOB, Scope.PROFILE)
"""The scopes that cron jobs spend in by themselves."""

_LONGEST: Final = (Window.WEEKLY, Window.MONTHLY)
"""One of them ends last: a week may reach into the next month."""

JobsOf = Callable[[ScopeId], Sequence[ScheduledJob] | None]


def jobs_ahead(engine: Engine, host: Host) -> JobsOf | None:
    """Finds the jobs that spend in a scope, `None` for a job that the host does not know.

    Returns:
        `None` when the schedules are not known.
    """
    now_ms = engine.clock.now_ms()
    rules = engine.rules()
    end_ms = max(rules.period(window, now_ms).end_ms for window in _LONGEST)
    schedules = host.schedules(now_ms, end_ms)
    if schedules is None:
        return None
    known = {each.job_id: each for each in _with_resumes(engine, schedules)}

    @cache
    def costs(job_id: str) -> JobCosts:
        return job_costs(job_runs(engine.database, job_id, now_ms - ACTIVE_DAYS * DAY_MS))

    def scheduled(schedule: Schedule) -> ScheduledJob:
        found = costs(schedule.job_id)
        run_nanos = found.recent_mean_nanos if found.runs else None
        return ScheduledJob(schedule, run_nanos, at_least=bool(found.recent_unpriced_calls))

    def jobs_of(scope: ScopeId) -> list[ScheduledJob] | None:
        kind, scope_id = scope
        if kind is Scope.CRON_JOB:
            return [scheduled(known[scope_id])] if scope_id in known else None
        jobs = [scheduled(each) for each in known.values()]
        if kind is Scope.GLOBAL:
            return jobs
        return [job for job in jobs if _profile(costs(job.schedule.job_id)) == scope_id]

    return jobs_of


def _profile(costs: JobCosts) -> str | None:
    """Where the job ran last; one that never ran costs nothing that is known."""
    return costs.last.profile if costs.last else None


def _with_resumes(engine: Engine, schedules: Sequence[Schedule]) -> list[Schedule]:
    """A job that we paused, and resume at the reset of its limit, fires again from then on."""
    if engine.rules().budget.cron.resume is CronResume.MANUAL:
        return list(schedules)
    ours = {(pause.cron_job_id, pause.host_paused_at): pause for pause in engine.journal.pauses()}
    return [_resumed(each, ours.get((each.job_id, each.paused_at))) for each in schedules]


def _resumed(schedule: Schedule, pause: Pause | None) -> Schedule:
    if not schedule.is_paused or pause is None:
        return schedule
    at_ms = tuple(at_ms for at_ms in schedule.at_ms if at_ms >= pause.until_ms)
    return replace(schedule, is_paused=False, at_ms=at_ms)
