"""An engine under a dollar a day, whose calls cost what a test says."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.policy.verdicts import Level
from budget_plugin.testing import FakeClock, make_engine, make_run
from tests.ledgers import CENT, NOON, a_call, rows

ONE_DOLLAR = "timezone: UTC\nbudgets: {global: {daily_usd: 1.00}}\n"


def an_engine(home: Path, yaml: str = ONE_DOLLAR) -> Engine:
    """An engine whose clock stands until a test turns it."""
    return make_engine(home, yaml, FakeClock(NOON))


def begin(engine: Engine) -> LiveRun:
    """A run that is written down, with its verdict at hand."""
    live = engine.open_run(make_run())
    assert engine.recorder.flush(10.0)
    assert level(engine, live) is Level.OK
    return live


def bill(engine: Engine, live: LiveRun, count: int, nanos: int = CENT, name: str = "call") -> None:
    """The run is billed for so many calls."""
    for number in range(count):
        call = a_call(f"{name} {number}", live.run, nanos)
        engine.write_call(live, engine.unasked(call.attempt_id), call)


def level(engine: Engine, live: LiveRun) -> Level | None:
    """What the tool gate says."""
    verdict = engine.tool_verdict(live)
    return None if verdict is None else verdict.level


def recorded(engine: Engine) -> tuple[int, int]:
    """How many rows there are and what they cost."""
    [(count, nanos)] = rows(engine.ledger, "count(*), coalesce(sum(cost_nanos), 0)")
    assert isinstance(count, int)
    assert isinstance(nanos, int)
    return count, nanos


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log has of warnings and worse."""
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]
