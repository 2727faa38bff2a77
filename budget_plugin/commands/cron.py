"""`cron`: for each job its last run, mean and worst cost, its limits, and why it is paused."""

from ..engine.engine import Engine
from ..messages.cron import Job, cron_data, cron_text
from ..policy.job_costs import job_costs
from ..policy.limits import Scope
from ..policy.windows import Window
from ..store.activity import active_ids, job_runs
from ..store.journal import Pause
from .asking import Answer, Args, JobStore, JobStoreError
from .naming import scope_id
from .spending import ACTIVE_DAYS, DAY_MS, short_job, spent


def cron(engine: Engine, args: Args) -> Answer:
    """Every job that ran in the last 30 days or is paused by us; one job where it is named."""
    since_ms = engine.clock.now_ms() - ACTIVE_DAYS * DAY_MS
    pauses = {pause.cron_job_id: pause for pause in engine.journal.pauses()}
    ids = sorted({*active_ids(engine.database, Scope.CRON_JOB, since_ms), *pauses})
    named = args.scope_id or " ".join(args.words)
    wanted = scope_id(engine, Scope.CRON_JOB, named)
    jobs = [
        _job(engine, args.host.jobs, job_id, since_ms, pauses.get(job_id))
        for job_id in ids
        if wanted in ("", job_id)
    ]
    return Answer(cron_text(jobs, engine.rules().zone), cron_data(jobs))


def _job(
    engine: Engine, store: JobStore | None, job_id: str, since_ms: int, pause: Pause | None
) -> Job:
    scope = (Scope.CRON_JOB, job_id)
    costs = job_costs(job_runs(engine.database, job_id, since_ms))
    return Job(
        job_id=job_id,
        costs=costs,
        month_nanos=spent(engine, scope, Window.MONTHLY).nanos,
        verdicts=engine.judge.read_now(scope),
        names=engine.jobs.names(),
        short=short_job(engine, job_id, costs),
        pause=pause,
        paused_why=None if pause is not None or store is None else _paused_why(store, job_id),
    )


def _paused_why(store: JobStore, job_id: str) -> str | None:
    """The host's note on a pause that is not ours; `None` where there is no pause."""
    try:
        job = store.find(job_id)
    except JobStoreError:
        return None
    return job.paused_why if job is not None and job.paused else None
