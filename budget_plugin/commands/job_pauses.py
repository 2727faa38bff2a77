"""`pause` and `resume`: a person stops one of the host's cron jobs, or lets it go on.

What a person pauses is theirs: the ledger holds only our own pauses, and nothing else is lifted at
a reset. While a limit would stop the job at once, it is not resumed: it would only be paused again.
"""

from collections.abc import Callable
from functools import partial

from ..engine.engine import Engine
from ..engine.recorder import Write
from ..messages import job_pauses as words
from ..policy.limits import CronResume, Scope
from ..policy.verdicts import Verdict
from ..policy.windows import END_OF_TIME_MS
from ..store.journal import Pause
from ..store.sql.database import LedgerError
from .asking import OK, PROBLEM, Answer, Args, CronJob, JobStore, JobStoreError, Usage
from .naming import near_jobs, scope_id
from .spending import short_job

_Act = Callable[[Engine, Args, JobStore, CronJob], Answer]


def pause(engine: Engine, args: Args) -> Answer:
    """Pause a job until somebody resumes it."""
    return _with_job(engine, args, "pause", _pause)


def resume(engine: Engine, args: Args) -> Answer:
    """Resume a job, whoever has paused it; not while a limit would stop it at once."""
    return _with_job(engine, args, "resume", _resume)


def _with_job(engine: Engine, args: Args, command: str, act: _Act) -> Answer:
    called = args.scope_id or " ".join(args.words)
    store = args.host.jobs
    if not called:
        raise Usage(words.name_a_job(args.caller.prefix, command))
    if store is None:
        return Answer(words.needs_the_host(command, called), None, PROBLEM)
    job_id = scope_id(engine, Scope.CRON_JOB, called)
    try:
        job = store.find(job_id)
        if job is None:
            near = near_jobs(engine, called)
            raise Usage(words.no_such_job(called, near, engine.jobs.names()))
        return act(engine, args, store, job)
    except JobStoreError as error:
        return Answer(words.not_done(job_id, engine.jobs.names(), str(error)), None, PROBLEM)


def _pause(engine: Engine, args: Args, store: JobStore, job: CronJob) -> Answer:
    names, ours = engine.jobs.names(), _ours(engine, job)
    if job.ended:
        return Answer(words.ended(job.job_id, names), _data(engine, job, changed=False), PROBLEM)
    if job.paused and ours is None:
        text = words.paused_already(job.job_id, names, job.paused_why)
        return Answer(text, _data(engine, job, changed=False))
    store.pause(job.job_id, words.paused_by(args.caller.who, args.caller.via))
    _forget(engine, job)  # after the host has it: from here on it is a person's pause
    text = words.paused(job.job_id, names, args.caller.prefix, was_ours=ours is not None)
    return Answer(text, _data(engine, job, paused=True, changed=True))


def _resume(engine: Engine, args: Args, store: JobStore, job: CronJob) -> Answer:
    names, prefix = engine.jobs.names(), args.caller.prefix
    if not job.paused:
        ended = words.ended(job.job_id, names)
        text = ended if job.ended else words.not_paused(job.job_id, names)
        return Answer(text, _data(engine, job, changed=False), PROBLEM if job.ended else OK)
    verdict = engine.strictest_over_job(job.job_id, job.profile)
    if verdict is not None and verdict.blocks:
        ends_ms = verdict.period.end_ms
        by_itself = _ours(engine, job) is not None and resumes_by_itself(engine, ends_ms)
        zone = engine.rules().zone
        text = words.held(job.job_id, names, verdict, zone, prefix, by_itself=by_itself)
        return Answer(text, _data(engine, job, changed=False, held_by=verdict), PROBLEM)
    store.resume(job.job_id)
    _forget(engine, job)
    text = words.resumed(job.job_id, names, short_job(engine, job.job_id), prefix)
    return Answer(text, _data(engine, job, paused=False, changed=True), OK)


def _ours(engine: Engine, job: CronJob) -> Pause | None:
    """Our own pause of the job, if it is the one that holds.

    Where the ledger does not answer it is taken for a person's: a job can be paused all the same.
    """
    try:
        known = engine.journal.pauses()
    except LedgerError:
        return None
    key = (job.job_id, job.paused_at)
    return next((p for p in known if job.paused and (p.cron_job_id, p.host_paused_at) == key), None)


def resumes_by_itself(engine: Engine, until_ms: int) -> bool:
    """Whether a pause of ours that holds until then is lifted by the reset."""
    is_auto = engine.rules().budget.cron.resume is CronResume.AUTO
    return is_auto and until_ms < END_OF_TIME_MS


def _forget(engine: Engine, job: CronJob) -> None:
    write = Write(partial(engine.journal.forget_pause, job.job_id))
    engine.recorder.now(write, engine.clock.now_ms())


def _data(
    engine: Engine,
    job: CronJob,
    *,
    changed: bool,
    paused: bool | None = None,
    held_by: Verdict | None = None,
) -> dict[str, object]:
    return words.job_data(
        job.job_id,
        engine.jobs.names(),
        paused=job.paused if paused is None else paused,
        changed=changed,
        held_by=held_by,
    )
