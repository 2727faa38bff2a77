"""One soft alert for each limit and window, whichever session or process reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.policy.verdicts import Level
from budget_plugin.testing import FakeClock, at, make_engine, make_run, spend

FIVE_A_DAY = "timezone: UTC\nbudgets: {global: {daily_usd: 5.00}}\n"
THREE_MARKS = FIVE_A_DAY + "thresholds: {soft_pct: [0.50, 0.80, 0.90]}\n"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(at("2026-11-30 12:00"))


@pytest.fixture
def engine(tmp_path: Path, clock: FakeClock) -> Iterator[Engine]:
    made = make_engine(tmp_path, FIVE_A_DAY, clock)
    yield made
    made.close()


def turn(engine: Engine, session_id: str) -> LiveRun:
    return engine.open_run(make_run(session_id=session_id))


def alerts(engine: Engine, session_id: str = "s1") -> list[Level]:
    return [verdict.level for verdict in engine.new_alerts(turn(engine, session_id))]


@pytest.mark.case("A42")
def test_three_sessions_hear_of_it_once_and_the_next_day_again(
    engine: Engine, clock: FakeClock
) -> None:
    """$3.90, $4.10, $4.30, $4.60 of $5.00 a day: 80 % are $4.00, passed at the second."""
    heard = []
    for usd, session_id in (("3.90", "s1"), ("0.20", "s2"), ("0.20", "s3"), ("0.30", "s1")):
        spend(engine, usd)
        heard.append(alerts(engine, session_id))
    assert heard == [[], [Level.SOFT], [], []]

    clock.set(at("2026-12-01 09:00"))
    spend(engine, "4.10")
    assert alerts(engine) == [Level.SOFT]
    assert alerts(engine) == []


@pytest.mark.case("A43")
def test_a_restart_does_not_repeat_it(engine: Engine, tmp_path: Path, clock: FakeClock) -> None:
    spend(engine, "4.10")
    assert alerts(engine) == [Level.SOFT]
    again = make_engine(tmp_path, FIVE_A_DAY, clock)
    spend(again, "0.05")
    assert alerts(again) == []
    again.close()


def test_two_processes_at_the_same_moment(engine: Engine, tmp_path: Path, clock: FakeClock) -> None:
    other = make_engine(tmp_path, FIVE_A_DAY, clock)
    spend(engine, "4.10")
    assert sorted([alerts(engine), alerts(other)]) == [[], [Level.SOFT]]
    other.close()


def test_a_jump_over_several_marks_is_one_alert(tmp_path: Path, clock: FakeClock) -> None:
    """From nothing to $4.60: 50, 80 and 90 % are passed at once, and 92 % is said once."""
    engine = make_engine(tmp_path / "marks", THREE_MARKS, clock)
    spend(engine, "4.60")
    (said,) = engine.new_alerts(turn(engine, "s1"))
    assert said.soft_share == 0.90
    assert alerts(engine) == []
    engine.close()


def test_each_mark_is_said_when_it_is_passed(tmp_path: Path, clock: FakeClock) -> None:
    engine = make_engine(tmp_path / "marks", THREE_MARKS, clock)
    shares = []
    for usd in ("2.60", "1.50", "0.50"):  # $2.60 is 52 %, $4.10 82 %, $4.60 92 %
        spend(engine, usd)
        shares += [verdict.soft_share for verdict in engine.new_alerts(turn(engine, "s1"))]
    assert shares == [0.50, 0.80, 0.90]
    engine.close()
