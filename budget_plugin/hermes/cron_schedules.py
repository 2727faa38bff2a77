"""When the host's cron jobs fire next, as its own job store has it."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

from ..policy.schedules import Schedule
from ..store.local_zone import local_zone
from .cron_host import Job, is_paused, store_of

log = logging.getLogger(__name__)

_MOST: Final = 2_000
"""Firings of one job that are counted one by one (some 30 µs each); what follows is taken to come
as often. A job of every minute has 44,640 in a month."""


def schedules(home: Path, now_ms: int, end_ms: int) -> list[Schedule] | None:
    """The jobs that may still fire before `end_ms`; `None` when the host does not say."""
    try:
        from cron.jobs import list_jobs

        with store_of(str(home)):
            jobs: list[Job] = list_jobs(include_disabled=True)
        return [_schedule(job, now_ms, end_ms) for job in jobs if _may_fire(job)]
    except Exception as error:  # noqa: BLE001  (the host's insides may change with any version)
        log.warning("the schedules of cron jobs could not be read: %s", error)
        return None


def _may_fire(job: Job) -> bool:
    """Whether it fires, or would after a pause; a script without an agent bills nothing."""
    return bool(job.get("enabled", True) or is_paused(job)) and not job.get("no_agent")


def _schedule(job: Job, now_ms: int, end_ms: int) -> Schedule:
    repeat = job.get("repeat") or {}
    times = repeat.get("times")
    left = None if not times else max(0, times - repeat.get("completed", 0))
    firings = takewhile(lambda at_ms: at_ms < end_ms, _firings(job, now_ms, end_ms))
    at_ms, stamp = tuple(islice(firings, left)), str(job.get("paused_at") or "")
    return Schedule(str(job["id"]), at_ms, is_paused(job), stamp)


def _firings(job: Job, now_ms: int, end_ms: int) -> Iterator[int]:
    """Ascending. The first is the one that the host has noted; one that is due fires now."""
    schedule = job.get("schedule") or {}
    noted_ms = _ms(job.get("next_run_at"))
    if noted_ms is None:
        return
    first_ms = max(noted_ms, now_ms)
    if noted_ms >= now_ms or not is_paused(job):  # a resumed job counts from then
        yield first_ms
    if schedule.get("kind") == "interval" and schedule.get("minutes"):
        yield from range(first_ms, end_ms, int(schedule["minutes"]) * 60_000)[1:]
    elif schedule.get("kind") == "cron":
        yield from _by_expression(str(schedule.get("expr")), first_ms, end_ms)


def _by_expression(expression: str, after_ms: int, end_ms: int) -> Iterator[int]:
    from croniter import croniter

    after = datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(_zone())
    following = croniter(expression, after)
    last_ms = after_ms
    for _ in range(_MOST):
        last_ms = round(following.get_next(datetime).timestamp() * 1000)
        yield last_ms
        if last_ms >= end_ms:
            return
    every_ms = max(1, (last_ms - after_ms) // _MOST)
    yield from range(last_ms + every_ms, end_ms, every_ms)


def _zone() -> tzinfo | None:
    """The host's, else the machine's; `None`, its offset of now, where that has no name."""
    try:
        return local_zone()
    except (KeyError, OSError, ValueError):
        return None


def _ms(moment: object) -> int | None:
    """UTC milliseconds of a moment as the host writes it."""
    if not isinstance(moment, str) or not moment:
        return None
    at = datetime.fromisoformat(moment)
    return round((at if at.tzinfo else at.astimezone()).timestamp() * 1000)
