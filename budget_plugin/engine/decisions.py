"""What was decided about a run, as a row of the ledger."""

from typing import Final

from ..policy.events import Run
from ..policy.verdicts import Verdict
from ..store.journal import NOTHING_FITS, OBSERVED, Decision

WOULD_HAVE: Final = "would have stopped"
"""What was done about it: nothing, but a limit in force would have refused the next step."""


def decision_of(run: Run, verdict: Verdict, gate: str, action: str, now_ms: int) -> Decision:
    """What a gate decided about a run, and why."""
    limit = verdict.limit
    return Decision(
        at_ms=now_ms,
        run_id=run.run_id,
        gate=gate,
        scope=limit.scope,
        scope_id=limit.scope_id,
        window=limit.window,
        measure=limit.measure,
        period_key=verdict.period.key,
        level=OBSERVED if action == WOULD_HAVE else verdict.level.name.lower(),
        used=verdict.used,
        amount=limit.amount,
        action=action,
        detail=NOTHING_FITS if verdict.nothing_fits else "",
    )


def about_run(
    run_id: str,
    gate: str,
    measure: str,
    action: str,
    detail: str,
    *,
    at_ms: int,
    level: str = "hard",
    used: int = 0,
    amount: int = 0,
) -> Decision:
    """What was decided over something of the run's own: a ceiling, an effect, a circle, a role.

    Args:
        used, amount: in the unit of the measure, money in nano-dollars.
    """
    return Decision(
        at_ms=at_ms,
        run_id=run_id,
        gate=gate,
        scope="run",
        scope_id=run_id,
        window="run",
        measure=measure,
        period_key="",
        level=level,
        used=used,
        amount=amount,
        action=action,
        detail=detail,
    )
