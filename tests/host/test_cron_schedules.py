"""When the host's jobs fire next, read from its own job store, and what `forecast` makes of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import cron.jobs as host_jobs
import pytest

from budget_plugin.hermes.cron_schedules import schedules
from budget_plugin.policy.schedules import Schedule
from tests.host.hermes_home import HermesHome

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


NOW_MS = ms(NOW)
MINUTE = 60_000
DAY = 1_440 * MINUTE


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HERMES_TIMEZONE", "UTC")
    import hermes_time

    hermes_time.reset_cache()
    with host_jobs.use_cron_store(tmp_path):
        yield tmp_path
    monkeypatch.undo()
    hermes_time.reset_cache()


def job(schedule: str, next_run: datetime, **fields: Any) -> str:
    """A job of the host whose next firing is then."""
    job_id = str(host_jobs.create_job(prompt="report", schedule=schedule, name="report")["id"])
    host_jobs.update_job(job_id, {**fields, "next_run_at": next_run.isoformat()})
    return job_id


def found(home: Path, end_ms: int) -> dict[str, Schedule]:
    known = schedules(home, NOW_MS, end_ms)
    assert known is not None
    return {schedule.job_id: schedule for schedule in known}


@pytest.mark.parametrize(
    ("schedule", "next_in", "until_in", "expected"),
    [
        ("0 */6 * * *", timedelta(hours=6), DAY, [360, 720, 1080]),
        ("*/30 * * * *", timedelta(minutes=30), 90 * MINUTE, [30, 60]),  # `[start, end)`
        ("every 4h", timedelta(minutes=10), DAY, [10, 250, 490, 730, 970, 1210]),
        ("every 4h", timedelta(minutes=-10), DAY // 2, [0, 240, 480]),  # due: it fires now
        ("0 9 * * *", timedelta(hours=21), DAY // 2, []),
        ("2099-01-01T00:00:00", timedelta(hours=1), DAY, [60]),  # once
    ],
)
def test_the_firings_to_come(
    store: Path, schedule: str, next_in: timedelta, until_in: int, expected: list[int]
) -> None:
    job_id = job(schedule, NOW + next_in)
    at_ms = found(store, NOW_MS + until_in)[job_id].at_ms
    assert [(each - NOW_MS) // MINUTE for each in at_ms] == expected


def test_a_job_of_every_minute_is_counted_for_a_month(store: Path) -> None:
    by_expression = job("* * * * *", NOW + timedelta(minutes=1))
    by_interval = job("every 1m", NOW + timedelta(minutes=1))
    month = found(store, NOW_MS + 31 * DAY)
    for job_id in (by_expression, by_interval):
        assert len(month[job_id].at_ms) == 31 * 1440 - 1
        assert list(month[job_id].at_ms) == sorted(set(month[job_id].at_ms))


def test_repeats_that_are_left_are_all_that_fires(store: Path) -> None:
    job_id = job("every 1h", NOW + timedelta(hours=1), repeat={"times": 5, "completed": 3})
    assert len(found(store, NOW_MS + DAY)[job_id].at_ms) == 2


def test_a_paused_job_says_when_it_would_fire(store: Path) -> None:
    job_id = job("0 * * * *", NOW - timedelta(hours=2))
    host_jobs.pause_job(job_id, reason="on holiday")
    schedule = found(store, NOW_MS + 2 * 60 * MINUTE + 1)[job_id]
    assert schedule.is_paused
    assert [(each - NOW_MS) // MINUTE for each in schedule.at_ms] == [60, 120]  # none is due now


def test_jobs_that_bill_nothing_or_are_over_are_left_out(store: Path) -> None:
    job("every 1h", NOW, no_agent=True)
    job("every 1h", NOW, enabled=False, state="completed")
    assert found(store, NOW_MS + DAY) == {}


def test_a_job_file_that_nobody_can_read_is_not_known(store: Path) -> None:
    job("every 1h", NOW)
    (store / "cron" / "jobs.json").write_text('{"jobs": 7')
    assert schedules(store, NOW_MS, NOW_MS + DAY) is None


def test_firings_follow_the_clocks_of_a_machine_whose_zone_hermes_was_not_told(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Berlin's midnight is 22:00 UTC until 25 October 2026, and 23:00 after it; that of
    1 November is none of October's. (On the day itself the host's own reckoning is an hour off.)"""
    import hermes_time

    monkeypatch.delenv("HERMES_TIMEZONE")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    hermes_time.reset_cache()
    noted = datetime(2026, 10, 22, 22, tzinfo=UTC)
    job("0 0 * * *", noted)
    known = schedules(store, ms(noted) - 60 * MINUTE, ms(datetime(2026, 10, 31, 23, tzinfo=UTC)))
    monkeypatch.undo()
    time.tzset()
    assert known is not None
    (schedule,) = known
    fired = [f"{datetime.fromtimestamp(each / 1000, UTC):%d %H:%M}" for each in schedule.at_ms]
    assert fired[:3] == ["22 22:00", "23 22:00", "24 22:00"]
    assert fired[-3:] == ["28 23:00", "29 23:00", "30 23:00"]


def test_forecast_counts_the_firings_in_hermes(new_home: Callable[..., HermesHome]) -> None:
    home = new_home(budget="timezone: UTC\nbudgets: {global: {monthly_usd: 50000}}\n")
    job_id = home.cron_create("[[scene:costly]] report", "dear report")
    home.cron_tick()
    (outlook,) = json.loads(home.hermes("budget", "forecast", "--json").stdout)
    (job_ahead,) = outlook["scheduled"]["jobs"]
    assert (job_ahead["job"], job_ahead["name"]) == (job_id, "dear report")
    assert Decimal(job_ahead["run_usd"]) * 10**9 == home.billed_nanos()  # it ran once
    left = (outlook["end_ms"] - ms(datetime.now(UTC))) / MINUTE
    # Every minute until the month ends; one may be due, and the clock goes on meanwhile.
    assert left - 1 <= job_ahead["firings"] <= left + 3
    assert "of dear report" in home.hermes("budget", "forecast").stdout
