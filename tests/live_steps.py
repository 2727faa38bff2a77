"""Four runs of an engine, played step by step: children, and calls that use what they like."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.engine.permits import Permit, Request
from budget_plugin.policy.events import Call, Cost, CostSource, Run, Usage
from budget_plugin.testing import FakeClock, at, make_engine, make_run

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
        self.answers: list[object] = []
        self._numbers: dict[str, int] = {}
        self.runs = [[self._opened(make_run(**scopes))] for scopes in charged]

    def number_of(self, run_id: str) -> int:
        """How many runs had begun before this one."""
        return self._numbers[run_id]

    def _opened(self, run: Run) -> LiveRun:
        self._numbers[run.run_id] = len(self._numbers)
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
        refused = self.engine.guard.try_tool(root, "delegate_task", {}, 1)
        self.answers.append(refused)
        if refused is None:
            name = f"child-{next(_numbers)}"
            self.engine.delegated(root, name, "")
            family.append(self._opened(make_run(session_id=name, kind="child")))

    def _call(self, live: LiveRun, step: Step) -> None:
        request = Request("a-provider", step.model, "", 4_000, 100)
        permit = self.engine.admit(live, request)
        self.answers.append((permit.kind, permit.output_cap, permit.stop))
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
