"""What a cron job's runs cost, and whether the next one fits into what is left."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .limits import Measure
from .verdicts import Verdict

RECENT_RUNS: Final = 5
"""How many of the last runs say what the next one will cost."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """One firing of a job with all that it delegated; `nanos` is at least what it cost."""

    started_ms: int
    nanos: int
    calls: int
    unpriced_calls: int = 0
    profile: str = ""


@dataclass(frozen=True, slots=True)
class JobCosts:
    """The runs of one job, in nano-dollars; `last` is `None` for a job that never ran."""

    last: JobRun | None
    runs: int
    mean_nanos: int
    worst_nanos: int
    recent_mean_nanos: int
    """Mean of the last `RECENT_RUNS`: what the next run is expected to cost."""
    recent_unpriced_calls: int = 0
    """Calls of those runs without a known price: then the mean is too low."""


def job_costs(runs: Sequence[JobRun]) -> JobCosts:
    """Sum up a job's runs, oldest first."""
    if not runs:
        return JobCosts(None, 0, 0, 0, 0)
    nanos = [run.nanos for run in runs]
    recent = nanos[-RECENT_RUNS:]
    unpriced_calls = sum(run.unpriced_calls for run in runs[-RECENT_RUNS:])
    return JobCosts(
        last=runs[-1],
        runs=len(runs),
        mean_nanos=sum(nanos) // len(nanos),
        worst_nanos=max(nanos),
        recent_mean_nanos=sum(recent) // len(recent),
        recent_unpriced_calls=unpriced_calls,
    )


def would_not_fit(costs: JobCosts, verdicts: Iterable[Verdict]) -> Verdict | None:
    """The dollar limit that has less left than the job's next run should cost, if one has.

    The tightest one, when there are several. A limit that blocks already is said elsewhere.
    """
    short = [
        verdict
        for verdict in verdicts
        if verdict.limit.measure is Measure.USD
        and not verdict.blocks
        and verdict.left < costs.recent_mean_nanos
    ]
    return min(short, key=lambda verdict: verdict.left, default=None)
