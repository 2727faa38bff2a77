"""Observing changes nothing: what is enforced beside it acts as it would without."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from budget_plugin.engine.decisions import WOULD_HAVE
from tests.live_steps import CEILINGS, LIMITS, Live, Step, steps

PATIENT = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""

ENFORCED = LIMITS % (1, "warn_only") + CEILINGS
OBSERVED = "".join(
    (
        LIMITS % (1, "warn_only"),
        "  per_platform: {default: {daily_calls: 1, mode: observe}}\n",
        CEILINGS,
        "  platforms: {telegram: {tool_calls: 1, mode: observe}}\n",
    )
)


def played(yaml: str, taken: list[Step]) -> tuple[list[object], list[object]]:
    """What the gates answered, and what was decided apart from observing."""
    with tempfile.TemporaryDirectory() as folder:
        live = Live(Path(folder), yaml)
        for step in taken:
            live.take(step)
        assert live.engine.recorder.flush(60)
        decided = live.engine.journal.decisions(10_000)
        live.engine.close()
    return live.answers, [
        (live.number_of(d.run_id), d.at_ms, d.gate, d.scope, d.window, d.measure, d.used, d.action)
        for d in decided
        if d.action != WOULD_HAVE
    ]


@PATIENT
@given(steps)
def test_the_gates_answer_as_if_nothing_were_observed(taken: list[Step]) -> None:
    assert played(OBSERVED, taken) == played(ENFORCED, taken)
