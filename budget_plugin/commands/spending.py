"""What several reports ask of the engine: a scope's spend, and jobs that will not fit."""

from typing import Final

from ..engine.engine import Engine
from ..messages.cron import ShortJob
from ..policy.charges import ScopeId
from ..policy.job_costs import JobCosts, job_costs, would_not_fit
from ..policy.limits import Scope
from ..policy.tier_costs import TierCost, costs_by_tier
from ..policy.verdicts import Spend
from ..policy.windows import Window
from ..store.activity import job_runs

ACTIVE_DAYS: Final = 30
DAY_MS: Final = 86_400_000


def spent(engine: Engine, scope: ScopeId, window: Window) -> Spend:
    """What a scope has used in the current window, rows that wait included."""
    period = engine.rules().period(window, engine.clock.now_ms())
    recorded = engine.ledger.spend_between(scope, period.start_ms, period.end_ms)
    return recorded + engine.recorder.pending(scope, period)


def short_job(engine: Engine, job_id: str, costs: JobCosts | None = None) -> ShortJob | None:
    """The job, if its next run should cost more than is left of its own or the global limit."""
    if costs is None:
        since_ms = engine.clock.now_ms() - ACTIVE_DAYS * DAY_MS
        costs = job_costs(job_runs(engine.database, job_id, since_ms))
    scopes: tuple[ScopeId, ...] = ((Scope.CRON_JOB, job_id), (Scope.GLOBAL, ""))
    covering = [verdict for scope in scopes for verdict in engine.judge.read_now(scope)]
    verdict = would_not_fit(costs, covering)
    return ShortJob(job_id, costs, verdict, engine.jobs.names()) if verdict else None


def tier_costs(engine: Engine) -> list[TierCost]:
    """What a resolved run of the last 30 days cost by tier; nothing where no tier is declared."""
    policy = engine.rules().budget.tiers
    if not policy.tiers:
        return []
    since_ms = engine.clock.now_ms() - ACTIVE_DAYS * DAY_MS
    return costs_by_tier(policy, engine.run_records.model_spends(since_ms))
