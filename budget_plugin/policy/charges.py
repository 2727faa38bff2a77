"""Who is charged for a call, and with what: the scopes of a run and the spend of a call."""

from .events import Call, Run
from .limits import Scope
from .verdicts import Spend

ScopeId = tuple[Scope, str]


def run_scopes(run: Run) -> tuple[ScopeId, ...]:
    """The scopes that a run's calls are charged to; a scope with an empty id is nobody's."""
    named = (
        (Scope.CRON_JOB, run.cron_job_id),
        (Scope.SENDER, run.sender_id),
        (Scope.PROFILE, run.profile),
        (Scope.PLATFORM, run.platform),
    )
    return ((Scope.GLOBAL, ""), *((scope, scope_id) for scope, scope_id in named if scope_id))


def call_scopes(run: Run, model: str) -> tuple[ScopeId, ...]:
    """The scopes of one call: those of its run and its model."""
    return (*run_scopes(run), (Scope.MODEL, model)) if model else run_scopes(run)


def spend_of(call: Call) -> Spend:
    """What one call adds to a total."""
    nanos = call.cost.nanos
    return Spend(
        certain_nanos=0 if call.cost.estimated else nanos or 0,
        estimated_nanos=nanos or 0 if call.cost.estimated else 0,
        tokens=call.usage.total_tokens,
        calls=1,
        unpriced_calls=1 if nanos is None else 0,
        estimated_calls=1 if call.cost.estimated else 0,
    )


def minus(spend: Spend) -> Spend:
    """The spend to add in order to take one away."""
    return Spend(
        -spend.certain_nanos,
        -spend.estimated_nanos,
        -spend.tokens,
        -spend.calls,
        -spend.unpriced_calls,
        -spend.estimated_calls,
    )
