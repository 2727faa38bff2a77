"""Cron jobs ahead: when each fires, and what its runs cost → what they add until a window ends."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge

from .windows import Period


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the host will fire a job.

    Attributes:
        at_ms: ascending, from now to as far as was asked.
        is_paused: it will not fire until somebody resumes it; `at_ms` is when it would.
        paused_at: the host's own stamp of the pause: tells whose it is.
    """

    job_id: str
    at_ms: tuple[int, ...]
    is_paused: bool = False
    paused_at: str = ""


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A schedule with what a firing is expected to cost.

    Attributes:
        run_nanos: `None` where no run has been recorded to go by.
        at_least: calls without a known price are among those runs.
    """

    schedule: Schedule
    run_nanos: int | None
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class JobAhead:
    """What one job adds until the window ends."""

    job_id: str
    firings: int
    run_nanos: int | None
    at_least: bool = False

    @property
    def nanos(self) -> int:
        """All its firings together; 0 where nobody knows what one costs."""
        return self.firings * (self.run_nanos or 0)


@dataclass(frozen=True, slots=True)
class Ahead:
    """What the schedules lead to.

    Attributes:
        jobs: those that fire in the window, the dearest first.
        by_end: what the window will have used if nothing else runs.
        reached_ms: the firing that carries it to the limit.
        at_least: of a job that fires it is not known, or not fully, what it costs.
        is_paused: the jobs asked about do not fire, since they are paused.
    """

    jobs: tuple[JobAhead, ...]
    by_end: int
    reached_ms: int | None = None
    at_least: bool = False
    is_paused: bool = False

    @property
    def is_blind(self) -> bool:
        """Whether of no job that fires it is known what it costs."""
        return bool(self.jobs) and all(job.run_nanos is None for job in self.jobs)


def ahead(
    period: Period, now_ms: int, used: int, limit: int | None, jobs: Sequence[ScheduledJob]
) -> Ahead:
    """Add up the firings of a window that are still to come; money only, in nano-dollars.

    Args:
        used: in this window, up to now.
    """
    firing = [job for job in jobs if not job.schedule.is_paused]
    counted = [_counted(job, now_ms, period.end_ms) for job in firing]
    found = sorted((job for job in counted if job.firings), key=lambda job: -job.nanos)
    by_end = used + sum(job.nanos for job in found)
    return Ahead(
        tuple(found),
        by_end,
        _reached(period, now_ms, used, limit, firing) if limit and used < limit <= by_end else None,
        at_least=any(job.at_least or job.run_nanos is None for job in found),
        is_paused=bool(jobs) and not firing,
    )


def _counted(job: ScheduledJob, now_ms: int, end_ms: int) -> JobAhead:
    at_ms = job.schedule.at_ms
    firings = bisect_left(at_ms, end_ms) - bisect_left(at_ms, now_ms)
    return JobAhead(job.schedule.job_id, firings, job.run_nanos, job.at_least)


def _reached(
    period: Period, now_ms: int, used: int, limit: int, jobs: Sequence[ScheduledJob]
) -> int | None:
    for at_ms, nanos in merge(*map(_billed, jobs)):
        if now_ms <= at_ms < period.end_ms:
            used += nanos
            if used >= limit:
                return at_ms
    return None


def _billed(job: ScheduledJob) -> Iterator[tuple[int, int]]:
    return ((at_ms, job.run_nanos or 0) for at_ms in job.schedule.at_ms)
