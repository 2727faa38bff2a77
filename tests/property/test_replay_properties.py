"""Replay of what the live gates let pass, under the limits that were in force, agrees with them."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.engine.permits import Permit, Request
from budget_plugin.policy.events import Call, Cost, CostSource, Run, Usage
from budget_plugin.policy.replay.outcome import Outcome
from budget_plugin.policy.replay.player import Candidate, Player, Reached
from budget_plugin.store.history import recorded_between
from budget_plugin.testing import FakeClock, at, make_engine, make_run
from tests import six_weeks

PATIENT = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""

PRICES = """\
unit: usd_per_million_tokens
models: {large: {input: 40.0, output: 40.0}, small: {input: 20.0, output: 20.0}}
"""
LIMITS = """\
timezone: UTC
thresholds: {hard_pct: %s}
on_estimated: {mode: %s}
budgets:
  global:       {hourly_usd: 0.40, daily_usd: 1.00, daily_calls: 25}
  per_sender:   {default: {daily_usd: 0.50}, overrides: {"telegram:2": {daily_tokens: 9000}}}
  per_cron_job: {default: {daily_usd: 0.30}}
  per_model:    {overrides: {small: {daily_calls: 3}}}
"""
CEILINGS = """\
runs:
  default: {tokens: 6000, usd: 0.35, wall_clock_s: 1800, dispatches: 2}
  child:   {tokens: 3000}
"""


class Step(NamedTuple):
    """After some time one of four runs starts a child, or makes a call that uses so much."""

    run: int
    wait_s: int
    dispatches: bool
    tokens: int
    cents: int | None
    estimated: bool
    model: str


steps = st.lists(
    st.builds(
        Step,
        st.integers(0, 3),
        st.sampled_from((1, 40, 600, 4_000, 30_000)),
        st.booleans(),
        st.integers(1, 2_500),
        st.none() | st.integers(3, 25),
        st.booleans(),
        st.sampled_from(("large", "small")),
    ),
    min_size=12,
    max_size=40,
)
_numbers = itertools.count()


class Live:
    """An engine with four runs that are played step by step."""

    def __init__(self, home: Path, yaml: str) -> None:
        self.clock = FakeClock(at("2026-11-30 20:00"))
        (home / "budget").mkdir(parents=True)
        (home / "budget" / "pricing.yaml").write_text(PRICES)
        self.engine = make_engine(home, yaml, self.clock)
        charged = (
            {"sender_id": "telegram:1"},
            {"sender_id": "telegram:2"},
            {"cron_job_id": "nightly"},
            {"sender_id": "telegram:1", "platform": "telegram"},
        )
        self.runs = [[self._opened(make_run(**scopes))] for scopes in charged]

    def _opened(self, run: Run) -> LiveRun:
        return self.engine.open_run(replace(run, started_ms=self.clock.now_ms()))

    def take(self, step: Step) -> None:
        self.clock.advance(step.wait_s)
        family = self.runs[step.run]
        if step.dispatches:
            self._dispatch(family)
        else:
            self._call(family[-1], step)

    def _dispatch(self, family: list[LiveRun]) -> None:
        root = family[0]
        if self.engine.guard.try_tool(root, "delegate_task", {}, 1) is None:
            name = f"child-{next(_numbers)}"
            self.engine.delegated(root, name, "")
            family.append(self._opened(make_run(session_id=name, kind="child")))

    def _call(self, live: LiveRun, step: Step) -> None:
        request = Request("a-provider", step.model, "", 4_000, 100)
        permit = self.engine.admit(live, request)
        if not permit.refused:
            call = _call(live, permit, step)
            self.engine.guard.charge(live, call)
            self.engine.write_call(live, permit, call)


def _call(live: LiveRun, permit: Permit, step: Step) -> Call:
    nanos = None if step.cents is None else step.cents * 10**7
    source = CostSource.UNPRICED if nanos is None else CostSource.PRICING
    return Call(
        permit.attempt_id,
        live.run.run_id,
        permit.at_ms,
        "a-provider",
        step.model,
        "",
        Usage(input_tokens=step.tokens),
        Cost(nanos, source, estimated=step.estimated),
    )


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
