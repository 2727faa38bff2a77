"""`cron`: what each job costs, and why it is paused, as text and as data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ..policy.job_costs import JobCosts
from ..policy.limits import Measure
from ..policy.money import format_usd
from ..policy.verdicts import Verdict
from .layout import job_label, moment, page, plain, resets, short, upper_first
from .parts import WINDOW_WORDS, used_of

if TYPE_CHECKING:
    from ..store.journal import Pause


@dataclass(frozen=True, slots=True)
class ShortJob:
    """A job whose next run should cost more than is left of a limit that covers it."""

    job_id: str
    costs: JobCosts
    verdict: Verdict
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Job:
    """One job: its costs, its limits, what it would break next, and our pause of it.

    Attributes:
        paused_why: the note on a pause that is not ours, `None` where there is none.
    """

    job_id: str
    costs: JobCosts
    month_nanos: int
    verdicts: tuple[Verdict, ...]
    names: Mapping[str, str]
    short: ShortJob | None = None
    pause: "Pause | None" = None
    paused_why: str | None = None


def cron_text(jobs: Sequence[Job], zone: ZoneInfo) -> str:
    """A paragraph for each job."""
    if not jobs:
        return "No cron job has run in the last 30 days."
    return page(line for job in jobs for line in _paragraph(job, zone))


def _paragraph(job: Job, zone: ZoneInfo) -> Iterator[str]:
    costs = job.costs
    yield job_label(job.job_id, job.names)
    if costs.last is not None:
        yield f"  last run {format_usd(costs.last.nanos)}, {moment(costs.last.started_ms, zone)}"
        yield f"  mean {format_usd(costs.mean_nanos)}, worst {format_usd(costs.worst_nanos)}"
    yield f"  this month {format_usd(job.month_nanos)}"
    for verdict in job.verdicts:
        window = WINDOW_WORDS[verdict.limit.window]
        yield f"  {window} {used_of(verdict)}, {resets(verdict.period, zone)}"
    if not job.verdicts:
        yield "  no limit of its own"
    if job.pause is not None:
        yield f"  paused by the budget until {moment(job.pause.until_ms, zone)}"
        yield f"  {upper_first(job.pause.reason.removeprefix('budget: '))}"
    elif job.paused_why is not None:
        yield f"  paused: {short(job.paused_why, 80)}" if job.paused_why else "  paused"
    elif job.short is not None:
        yield f"  {will_not_fit(job.short)}"


def will_not_fit(job: ShortJob) -> str:
    """Said before the job fires: what its next run should cost is not left."""
    verdict = job.verdict
    each, left = format_usd(job.costs.recent_mean_nanos, up=True), format_usd(verdict.left)
    return (
        f"The next run will likely be stopped: its last runs cost {each} each, and {left} is left "
        f"of the {WINDOW_WORDS[verdict.limit.window]} limit."
    )


def short_job_text(job: ShortJob) -> str:
    """A paragraph of its own, for reports that are about more than one job."""
    return page(["", f"{job_label(job.job_id, job.names)}: {will_not_fit(job)}"])


def cron_data(jobs: Sequence[Job]) -> list[dict[str, object]]:
    """The same for programs; dollars as exact decimal text."""
    return [_data(job) for job in jobs]


def _data(job: Job) -> dict[str, object]:
    costs = job.costs
    return {
        "job": job.job_id,
        "name": job.names.get(job.job_id),
        "runs": costs.runs,
        "last_run_usd": plain(costs.last.nanos, Measure.USD) if costs.last else None,
        "last_run_ms": costs.last.started_ms if costs.last else None,
        "mean_usd": plain(costs.mean_nanos, Measure.USD),
        "worst_usd": plain(costs.worst_nanos, Measure.USD),
        "month_usd": plain(job.month_nanos, Measure.USD),
        "limits": [used_of(verdict) for verdict in job.verdicts],
        "next_run_fits": job.short is None,
        "paused_until_ms": job.pause.until_ms if job.pause else None,
        "paused_why": job.pause.reason if job.pause else job.paused_why,
    }
