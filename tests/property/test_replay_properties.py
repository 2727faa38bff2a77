"""Replay of what the live gates let pass, under the limits that were in force, agrees with them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from budget_plugin.engine.engine import Engine
from budget_plugin.policy.replay.outcome import Outcome
from budget_plugin.policy.replay.player import Candidate, Player, Reached
from budget_plugin.store.history import recorded_between
from budget_plugin.testing import FakeClock
from tests import six_weeks
from tests.live_steps import CEILINGS, LIMITS, Live, Step, steps

PATIENT = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""


def replayed(engine: Engine, clock: FakeClock) -> tuple[Outcome, list[Reached]]:
    """The whole ledger, under what its budget.yaml says."""
    reached: list[Reached] = []
    candidate = Candidate("in force", engine.rules().budget)
    player = Player(candidate, ZoneInfo("UTC"), reached.append)
    for recorded in recorded_between(engine.database, 0, clock.now_ms() + 1):
        player.play(recorded)
    return player.outcome(1), reached


def first_of_each(rows: list[tuple[object, ...]]) -> dict[object, tuple[object, ...]]:
    """By run, limit and window the first row: what was used, and of how much."""
    first: dict[object, tuple[object, ...]] = {}
    for *key, used, amount in rows:
        first.setdefault(tuple(key), (used, amount))
    return first


@PATIENT
@given(steps, st.booleans(), st.sampled_from((0.8, 1)), st.sampled_from(("warn_only", "enforce")))
def test_replay_under_the_limits_in_force_gives_the_recorded_verdicts(
    played: list[Step], ceilings: bool, hard: float, mode: str
) -> None:
    yaml = LIMITS % (hard, mode) + (CEILINGS if ceilings else "")
    with tempfile.TemporaryDirectory() as folder:
        live = Live(Path(folder), yaml)
        for step in played:
            live.take(step)
        engine = live.engine
        assert engine.recorder.flush(60)
        decided = reversed(engine.journal.decisions(10_000))
        came_to, reached = replayed(engine, live.clock)
        engine.close()
    recorded = [
        (d.run_id, d.scope, d.scope_id, d.window, d.measure, d.period_key, d.used, d.amount)
        for d in decided
        if d.gate == "ledger"
    ]
    again = [_row(each) for each in reached]
    event(f"verdicts: {min(len(recorded), 3)}")
    assert first_of_each(again) == first_of_each(recorded)
    # And what the gates let pass, they let pass again.
    assert (came_to.cut, came_to.saved_calls) == (0, 0)


def _row(reached: Reached) -> tuple[object, ...]:
    verdict = reached.verdict
    limit = verdict.limit
    return (
        reached.run_id,
        limit.scope,
        limit.scope_id,
        limit.window,
        limit.measure,
        verdict.period.key,
        verdict.used,
        limit.amount,
    )


def test_all_six_weeks_of_the_sweep() -> None:
    six_weeks.check_sweep(six_weeks.DAYS)
