"""The host's cron store, through its own interface only; its file is never edited by us."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

Job = dict[str, Any]


@contextmanager
def store_of(home: str) -> Iterator[None]:
    """Work on the jobs of this home; a gateway may serve several profiles in one process."""
    from cron.jobs import use_cron_store

    with use_cron_store(Path(home)):
        yield


def active_home() -> str:
    """The home whose jobs the calling thread works with."""
    from hermes_constants import get_hermes_home

    return str(get_hermes_home())


def find(job_id: str) -> Job | None:
    """The job with this id, paused or not."""
    from cron.jobs import get_job

    job: Job | None = get_job(job_id)
    return job


def resolve(reference: str) -> str:
    """The id behind an id or a name as the model writes it; "" when there is none, or several."""
    from cron.jobs import AmbiguousJobReference, resolve_job_ref

    try:
        job = resolve_job_ref(reference)
    except AmbiguousJobReference:
        return ""
    return str(job["id"]) if job else ""


def is_paused(job: Job) -> bool:
    """Whether the host will not fire it."""
    return job.get("state") == "paused"


def pause(job_id: str, reason: str) -> Job | None:
    """Pause a job; `None` when the host does not know it, which is no success."""
    from cron.jobs import pause_job

    job: Job | None = pause_job(job_id, reason=reason)
    _tell_scheduler()
    return job


def resume(job: Job, not_before_ms: int, now_ms: int) -> None:
    """Resume a job, and make a firing up that lay between `not_before_ms` and now.

    The host counts a resumed job's next run from now, so that a firing at the very reset would be
    skipped: a daily job at midnight would run every other day.

    Raises:
        ValueError: a one-shot whose time has passed; it can never fire again.
    """
    from cron.jobs import trigger_job

    job_id = str(job["id"])
    resume_from_now(job_id)
    if fired_between(job, not_before_ms, now_ms):
        trigger_job(job_id)
        _tell_scheduler()


def resume_from_now(job_id: str) -> Job | None:
    """Resume a job; `None` when the host does not know it.

    Raises:
        ValueError: as `resume`.
    """
    from cron.jobs import resume_job

    job: Job | None = resume_job(job_id)
    _tell_scheduler()
    return job


def fired_between(job: Job, start_ms: int, end_ms: int) -> bool:
    """Whether the job's schedule has a firing in `[start_ms, end_ms]`."""
    schedule = job.get("schedule") or {}
    start, end = _moment(start_ms), _moment(end_ms)
    if schedule.get("kind") == "interval":
        return _interval_fires(job, schedule, start, end)
    if schedule.get("kind") != "cron":
        return False
    from cron.jobs import compute_next_run

    following = compute_next_run(schedule, (start - timedelta(seconds=1)).isoformat())
    return following is not None and datetime.fromisoformat(following) <= end


def _interval_fires(job: Job, schedule: Job, start: datetime, end: datetime) -> bool:
    minutes = schedule.get("minutes")
    if not minutes or not job.get("last_run_at"):
        return False
    last = datetime.fromisoformat(str(job["last_run_at"]))
    last = last if last.tzinfo else last.astimezone()
    every = timedelta(minutes=minutes)
    steps = max(1, -((last - start) // every))
    return last + steps * every <= end


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()


def _tell_scheduler() -> None:
    try:
        from cron.scheduler import _notify_provider_jobs_changed

        _notify_provider_jobs_changed()
    except Exception as error:  # noqa: BLE001  (private to the host; its ticker looks by itself)
        log.debug("the scheduler was not told: %s", error)
