"""`ledger.keep_days`: when old calls are summed up, and when not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.store.day_sums import IN_ONE_STEP
from budget_plugin.testing import FakeClock, at, make_engine, make_run, spend
from tests.ledgers import assert_totals_equal_rows, held_by_another_process

NOW = at("2026-11-30 12:00")
KEEP = "timezone: UTC\nledger: {keep_days: 62}\n"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def engine(tmp_path: Path, clock: FakeClock) -> Iterator[Engine]:
    engine = make_engine(tmp_path, KEEP, clock)
    yield engine
    engine.close()


def a_turn(engine: Engine) -> None:
    """A run begins, and what the recorder's thread has to do is done."""
    engine.open_run(make_run())
    assert engine.recorder.flush(30)


def kept(engine: Engine) -> tuple[int, int]:
    """Calls, and sums of days."""
    with engine.ledger.reading() as connection:
        return tuple(  # type: ignore[return-value]
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("calls", "day_sums")
        )


@pytest.mark.parametrize("yaml", ["timezone: UTC\n", ""])
def test_every_call_is_kept_where_nobody_asked_otherwise(
    tmp_path: Path, clock: FakeClock, yaml: str
) -> None:
    engine = make_engine(tmp_path, yaml, clock)
    spend(engine, at_ms=at("2020-01-01"))
    a_turn(engine)
    assert kept(engine) == (1, 0)
    engine.close()


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("2026-09-28 23:59", (0, 1)),  # 62 days before 30 November is 29 September
        ("2026-09-29 00:00", (1, 0)),
        ("2026-09-29 12:01", (1, 0)),
    ],
)
def test_the_oldest_day_that_is_kept(engine: Engine, when: str, expected: tuple[int, int]) -> None:
    spend(engine, at_ms=at(when))
    a_turn(engine)
    assert kept(engine) == expected
    assert_totals_equal_rows(engine.ledger)


def test_days_begin_where_the_settings_say(tmp_path: Path, clock: FakeClock) -> None:
    engine = make_engine(tmp_path, KEEP.replace("UTC", "Asia/Tokyo"), clock)
    early, late = at("2026-01-01 23:59", "Asia/Tokyo"), at("2026-01-02 00:01", "Asia/Tokyo")
    for at_ms in (early, late, late + 1):
        spend(engine, at_ms=at_ms, run=make_run(session_id="s"))
    a_turn(engine)
    with engine.ledger.reading() as connection:
        found = connection.execute("SELECT day_ms, calls FROM day_sums ORDER BY day_ms").fetchall()
    assert found == [
        (at("2026-01-01 00:00", "Asia/Tokyo"), 1),
        (at("2026-01-02 00:00", "Asia/Tokyo"), 2),
    ]
    engine.close()


def test_a_process_looks_once_an_hour(engine: Engine, clock: FakeClock) -> None:
    a_turn(engine)
    spend(engine, at_ms=at("2026-01-01"))
    clock.advance(3_599)
    a_turn(engine)
    assert kept(engine) == (1, 0)
    clock.advance(1)
    a_turn(engine)
    assert kept(engine) == (0, 1)


def test_many_calls_go_in_small_steps(engine: Engine) -> None:
    run = make_run()
    for n in range(IN_ONE_STEP + 5):
        spend(engine, "0.01", at_ms=at("2026-01-01") + n, run=run)
    a_turn(engine)
    assert kept(engine) == (0, 1)


def test_a_look_has_an_end(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends waits for it."""
    steps: list[int] = []

    def oldest(_: object, since_ms: int, before_ms: int) -> list[tuple[int, int]]:
        assert since_ms < before_ms
        steps.append(since_ms)
        return [(0, since_ms + 1)] * IN_ONE_STEP

    monkeypatch.setattr("budget_plugin.engine.retention.DaySums.oldest", oldest)
    a_turn(engine)
    assert steps == list(range(50))  # each from where the one before has come to


def test_a_ledger_that_is_locked_is_thinned_later(engine: Engine) -> None:
    spend(engine, at_ms=at("2026-01-01"))
    engine.database.close()
    with held_by_another_process(engine.database.path):
        engine.open_run(make_run())
        assert not engine.recorder.flush(0.2)
    assert engine.recorder.flush(30)
    assert kept(engine) == (0, 1)


def test_nothing_more_is_thinned_once_it_is_taken_back(engine: Engine) -> None:
    spend(engine, at_ms=at("2026-01-01"))
    engine.budget_file.path.write_text("timezone: UTC\n")
    engine.reload_config()
    engine.retention.step(1.0)
    assert kept(engine) == (1, 0)


def test_a_limit_over_all_time_still_sees_what_was_spent(tmp_path: Path, clock: FakeClock) -> None:
    yaml = KEEP + "budgets: {global: {total_usd: 5.00}}\n"
    engine = make_engine(tmp_path, yaml, clock)
    spend(engine, "5.00", at_ms=at("2026-01-01"))
    a_turn(engine)
    assert kept(engine) == (0, 1)
    verdict = engine.strictest_now(make_run())
    assert verdict is not None
    assert verdict.blocks
    engine.close()
