"""Cron jobs that are still to fire: how often, what that costs, and where it leads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from zoneinfo import ZoneInfo

from ..policy.limits import Measure
from ..policy.money import format_usd
from ..policy.schedules import Ahead, JobAhead
from .layout import job_label, many, near_moment, page, plain, upper_first

_MOST_JOBS: Final = 5
"""Jobs that a person reads one by one; the others are added up."""


def schedules_not_known() -> str:
    """There are cron jobs, but the host's schedules are out of reach."""
    return page(
        ["", "When cron jobs fire next is not counted: only Hermes knows (hermes budget forecast)."]
    )


def own_firings(
    ahead: Ahead, limit: int | None, when: str, now_ms: int, zone: ZoneInfo
) -> Iterator[str]:
    """What one job adds to its own window; `when` is `today`, `this month`."""
    if ahead.is_paused:
        yield "It is paused, and does not fire until it is resumed."
        return
    if ahead.jobs:
        job = ahead.jobs[0]
        yield f"{many(job.firings, 'more firing')} {when}, {_cost(job)}."
    else:
        yield f"It does not fire again {when}."
    if not ahead.is_blind:
        yield f"  {upper_first(_leads_to(ahead, limit, now_ms, zone))}"


def firings_of_jobs(
    ahead: Ahead,
    limit: int | None,
    names: Mapping[str, str],
    when: str,
    now_ms: int,
    zone: ZoneInfo,
) -> Iterator[str]:
    """What all jobs add to a window in which others spend too."""
    yield f"Cron jobs still to fire {when}:"
    for job in ahead.jobs[:_MOST_JOBS]:
        yield f"  {many(job.firings, 'firing')} of {job_label(job.job_id, names)}, {_cost(job)}"
    others = ahead.jobs[_MOST_JOBS:]
    if others:
        nanos = sum(job.nanos for job in others)
        yield f"  {many(len(others), 'other job')}, {_least(others)} {format_usd(nanos)}"
    if not ahead.is_blind:
        yield f"  With them alone {_leads_to(ahead, limit, now_ms, zone)}"


def _cost(job: JobAhead) -> str:
    if job.run_nanos is None:
        return "cost not known, since no run is recorded"
    return f"{_least([job])} {format_usd(job.nanos)}"


def _least(jobs: Sequence[JobAhead]) -> str:
    known = all(job.run_nanos is not None and not job.at_least for job in jobs)
    return "about" if known else "at least"


def _leads_to(ahead: Ahead, limit: int | None, now_ms: int, zone: ZoneInfo) -> str:
    if ahead.reached_ms is not None and limit is not None:
        return f"{format_usd(limit)} is reached {near_moment(ahead.reached_ms, now_ms, zone)}."
    least, under = ("at least", "of") if ahead.at_least else ("about", "under")
    of_limit = "" if limit is None else f", {under} {format_usd(limit)}"
    return f"{least} {format_usd(ahead.by_end)} by the end{of_limit}."


def jobs_ahead_data(ahead: Ahead | None, names: Mapping[str, str]) -> dict[str, object] | None:
    """The same for programs; docs/json.md describes it."""
    if ahead is None:
        return None
    return {
        "by_end": plain(ahead.by_end, Measure.USD),
        "at_least": ahead.at_least,
        "reached_ms": ahead.reached_ms,
        "paused": ahead.is_paused,
        "jobs": [
            {
                "job": job.job_id,
                "name": names.get(job.job_id),
                "firings": job.firings,
                "run_usd": None if job.run_nanos is None else plain(job.run_nanos, Measure.USD),
                "at_least": job.at_least,
            }
            for job in ahead.jobs
        ],
    }
