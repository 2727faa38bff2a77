"""`status` for programs; docs/json.md describes it."""

from ..policy.limits import Limit, Measure, Problem, Scope
from ..policy.verdicts import Spend, Verdict
from .held import held_data
from .layout import plain
from .observing import watched_data, watched_runs_data
from .roles import tier_cost_data
from .status import Entry, Status


def status_data(status: Status) -> dict[str, object]:
    """The report as JSON takes it; docs/json.md describes it."""
    return {
        "version": 1,
        "now_ms": status.now_ms,
        "timezone": status.zone.key,
        "over_budget": status.over_budget,
        "enforcing": status.failing_since_ms is None and not status.ledger_error,
        "not_enforcing_since_ms": status.failing_since_ms,
        "ledger_error": (not status.personal and status.ledger_error) or None,
        "model_gate": status.model_gate,
        "waiting_calls": status.waiting_calls,
        "global": None if status.personal else _entry_data(status.overall, status),
        "sections": {
            str(scope): [_named_data(entry, status) for entry in entries]
            for scope, entries in status.sections
        },
        "inactive_limits": [limit_data(limit) for limit in status.inactive],
        "paused_jobs": [
            {
                "cron_job": pause.cron_job_id,
                "name": status.job_names.get(pause.cron_job_id),
                "paused_ms": pause.paused_ms,
                "until_ms": pause.until_ms,
                "reason": pause.reason,
            }
            for pause in status.pauses
        ],
        "jobs_that_will_not_fit": [job.job_id for job in status.short_jobs],
        "tiers": [tier_cost_data(cost) for cost in status.tiers],
        "unpriced_models": list(status.unpriced_models),
        "observed_limits": [watched_data(watched) for watched in status.observed],
        "observed_ceilings": watched_runs_data(status.observed_runs),
        "held_limits": [held_data(limit) for limit in status.held],
        "problems": [problem_data(problem) for problem in status.problems],
    }


def _entry_data(entry: Entry, status: Status) -> dict[str, object]:
    return {
        "id": entry.scope_id,
        "limits": [_verdict_data(verdict, status) for verdict in entry.verdicts],
        "today": spend_data(entry.today),
        "month": spend_data(entry.month),
    }


def _named_data(entry: Entry, status: Status) -> dict[str, object]:
    data = _entry_data(entry, status)
    if entry.scope is Scope.CRON_JOB:
        data["name"] = status.job_names.get(entry.scope_id)
    return data


def _verdict_data(verdict: Verdict, status: Status) -> dict[str, object]:
    stopped = status.stopped_by(verdict)
    return {
        **limit_data(verdict.limit),
        "used": plain(verdict.used, verdict.limit.measure),
        "left": plain(verdict.left, verdict.limit.measure),
        "level": verdict.level.name.lower(),
        "only_by_estimates": verdict.on_estimates,
        "period": verdict.period.key,
        "start_ms": verdict.period.start_ms,
        "end_ms": verdict.period.end_ms,
        "runs_stopped": stopped.runs if stopped else 0,
        "spend": spend_data(verdict.spend),
    }


def limit_data(limit: Limit) -> dict[str, object]:
    """A limit by its names; dollars as text, so that no digit is lost."""
    return {
        "scope": str(limit.scope),
        "id": limit.scope_id,
        "window": str(limit.window),
        "measure": str(limit.measure),
        "limit": plain(limit.amount, limit.measure),
        "own": limit.from_override,
    }


def spend_data(spend: Spend) -> dict[str, object]:
    """What was used in one window; `usd` is at least that much while calls are unpriced."""
    return {
        "usd": plain(spend.nanos, Measure.USD),
        "estimated_usd": plain(spend.estimated_nanos, Measure.USD),
        "tokens": spend.tokens,
        "calls": spend.calls,
        "estimated_calls": spend.estimated_calls,
        "unpriced_calls": spend.unpriced_calls,
    }


def problem_data(problem: Problem) -> dict[str, object]:
    """A problem of a file."""
    return {
        "file": problem.file,
        "line": problem.line,
        "key": problem.key,
        "message": problem.message,
        "fatal": problem.fatal,
    }
