"""What cron jobs will add: firings until the window ends, at what their runs cost lately."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_plugin.commands import chat
from budget_plugin.commands.asking import Caller, Host
from budget_plugin.engine.engine import Engine
from budget_plugin.policy.forecast import Outlook, forecast
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.schedules import Schedule, ScheduledJob, ahead
from budget_plugin.policy.windows import Period, Window, period
from budget_plugin.store.journal import Pause
from budget_plugin.testing import FakeClock, at, make_engine, spend

NOON = at("2026-11-30 12:00")
UTC = ZoneInfo("UTC")
TODAY = period(Window.DAILY, NOON, UTC)
HOUR = 3_600_000
OWNER = Caller("owner", "chat", "/budget")


def job(name: str, run: int | None, *hours: float, paused: bool = False) -> ScheduledJob:
    """A job that fires so many hours from now."""
    at_ms = tuple(NOON + round(each * HOUR) for each in hours)
    return ScheduledJob(Schedule(name, at_ms, paused), run)


# ------------------------------------------------------------------------------- the arithmetic


def test_firings_of_the_window_count_and_no_others() -> None:
    found = ahead(TODAY, NOON, 100, None, [job("a", 7, -1, 0, 3, 11.99, 12, 36)])
    assert [(each.firings, each.nanos) for each in found.jobs] == [(3, 21)]  # at 0, 3 and 11.99 h
    assert found.by_end == 121


def test_the_dearest_job_stands_first_and_one_that_does_not_fire_is_left_out() -> None:
    jobs = [job("cheap", 1, 1, 2, 3), job("dear", 50, 1), job("tomorrow", 999, 13)]
    found = ahead(TODAY, NOON, 0, None, jobs)
    assert [each.job_id for each in found.jobs] == ["dear", "cheap"]
    assert found.by_end == 53


@pytest.mark.parametrize(
    ("used", "limit", "hours"),
    [
        (0, 40, 2),  # 10 at 1 h, 10 + 20 at 2 h
        (0, 41, 3),
        (0, 60, None),  # 3 × 10 + 20 = 50
        (10, 60, 3),
        (60, 60, None),  # reached already
        (0, None, None),
    ],
)
def test_the_firing_that_carries_it_to_the_limit(
    used: int, limit: int | None, hours: int | None
) -> None:
    jobs = [job("a", 10, 1, 2, 3), job("b", 20, 2)]
    found = ahead(TODAY, NOON, used, limit, jobs)
    assert found.reached_ms == (None if hours is None else NOON + hours * HOUR)


def test_what_is_not_known_is_said() -> None:
    known, new = job("known", 10, 1), job("new", None, 1, 2)
    partly = ahead(TODAY, NOON, 0, None, [known, new])
    assert (partly.by_end, partly.at_least, partly.is_blind) == (10, True, False)
    assert ahead(TODAY, NOON, 0, None, [new]).is_blind
    assert not ahead(TODAY, NOON, 0, None, [known]).at_least
    assert ahead(TODAY, NOON, 0, None, [replace(known, at_least=True)]).at_least


def test_a_paused_job_adds_nothing() -> None:
    paused = ahead(TODAY, NOON, 5, 10, [job("a", 10, 1, paused=True)])
    assert (paused.jobs, paused.by_end, paused.is_paused) == ((), 5, True)
    assert not ahead(TODAY, NOON, 5, 10, [job("a", 10, 1, paused=True), job("b", 1, 1)]).is_paused


@given(
    used=st.integers(0, 100),
    limit=st.integers(1, 300),
    jobs=st.lists(
        st.tuples(st.none() | st.integers(0, 100), st.lists(st.integers(-5, 30), max_size=8)),
        max_size=5,
    ),
)
def test_a_limit_is_reached_at_a_firing_and_not_before(
    used: int, limit: int, jobs: list[tuple[int | None, list[int]]]
) -> None:
    planned = [job(str(n), run, *sorted(hours)) for n, (run, hours) in enumerate(jobs)]
    found = ahead(TODAY, NOON, used, limit, planned)

    def used_after(end_ms: int) -> int:
        return used + sum(
            each.run_nanos or 0
            for each in planned
            for at_ms in each.schedule.at_ms
            if NOON <= at_ms <= end_ms and at_ms < TODAY.end_ms
        )

    assert found.by_end == used_after(TODAY.end_ms)
    if found.reached_ms is None:
        assert used >= limit or found.by_end < limit
    else:
        assert used_after(found.reached_ms - 1) < limit <= used_after(found.reached_ms)


def test_a_schedule_decides_where_it_knows_more_than_the_pace() -> None:
    half_a_day: Period = TODAY
    dear = ahead(half_a_day, NOON, 10, 100, [job("a", 95, 1)])
    assert forecast(half_a_day, NOON, 10, 100, []).outlook is Outlook.UNDER  # 20 by the end
    assert forecast(half_a_day, NOON, 10, 100, [], dear).outlook is Outlook.REACHED

    # A job's own window: it has fired for today, so its pace leads nowhere.
    done = ahead(half_a_day, NOON, 60, 100, [job("a", 60, 20)])
    assert forecast(half_a_day, NOON, 60, 100, []).outlook is Outlook.REACHED
    alone = forecast(half_a_day, NOON, 60, 100, [], done, all_scheduled=True)
    assert (alone.outlook, alone.so_far, alone.lately) == (Outlook.UNDER, None, None)

    # Nobody knows what a firing costs: the pace has the word again.
    new = ahead(half_a_day, NOON, 60, 100, [job("a", None, 1)])
    unknown = forecast(half_a_day, NOON, 60, 100, [], new, all_scheduled=True)
    assert (unknown.outlook, unknown.so_far is None) == (Outlook.REACHED, False)
    assert forecast(half_a_day, NOON, 0, 100, [], new).outlook is Outlook.UNKNOWN


# ------------------------------------------------------------------------------------ in words

LIMITS = """\
timezone: UTC
budgets:
  global: {daily_usd: 5}
  per_cron_job: {default: {daily_usd: 3}}
  per_profile: {default: {daily_usd: 4}}
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = make_engine(tmp_path, LIMITS, FakeClock(NOON))
    (tmp_path / "cron").mkdir()
    (tmp_path / "cron" / "jobs.json").write_text(
        json.dumps(
            {"jobs": [{"id": "n1", "name": "nightly report"}, {"id": "d1", "name": "digest"}]}
        )
    )
    yield engine
    engine.close()


def ask(engine: Engine, text: str, schedules: Sequence[Schedule] | None = None) -> str:
    host = Host(schedules=lambda _now_ms, _end_ms: schedules)
    return chat.reply(lambda: engine, text, OWNER, host)


def fires(job_id: str, *hours: float, paused: bool = False) -> Schedule:
    return job(job_id, None, *hours, paused=paused).schedule


def ran(engine: Engine, job_id: str, *usd: str | None, profile: str = "") -> None:
    """One run each, an hour apart, the last an hour ago."""
    for n, cost in enumerate(usd):
        at_ms = NOON - (len(usd) - n) * HOUR
        spend(engine, cost, cron_job_id=job_id, at_ms=at_ms, profile=profile)


def test_a_jobs_own_forecast_goes_by_its_schedule(engine: Engine) -> None:
    ran(engine, "n1", "0.30", "0.50")
    assert ask(engine, "forecast cron_job n1", [fires("n1", 2, 6, 10)]) == (
        'Cron job "n1", daily\n'
        "  $0.80 of $3.00 used\n"
        "  3 more firings today, about $1.20.\n"  # at the mean of $0.40
        "    About $2.00 by the end, under $3.00."
    )


def test_a_job_that_will_break_its_limit(engine: Engine) -> None:
    ran(engine, "n1", "0.80", "0.80")
    said = ask(engine, "forecast cron_job n1", [fires("n1", 2, 6, 10)])
    assert "  3 more firings today, about $2.40.\n    $3.00 is reached today at 18:00." in said


def test_everything_together_with_the_jobs_that_still_fire(engine: Engine) -> None:
    ran(engine, "n1", "0.40")
    ran(engine, "d1", "0.10", None)
    said = ask(engine, "forecast", [fires("d1", 1, 2), fires("n1", 2, 6, 10), fires("x", 3)])
    assert said.endswith(
        "  Cron jobs still to fire today:\n"
        "    3 firings of nightly report (n1),\n"
        "      about $1.20\n"
        "    2 firings of digest (d1), at least\n"
        "      $0.10\n"  # $0.05 each: one of its two runs has no price
        "    1 firing of x, cost not known, since\n"
        "      no run is recorded\n"
        "    With them alone at least $1.80 by\n"  # 0.50 used + 1.20 + 0.10
        "      the end, of $5.00."
    )


def test_many_jobs_are_added_up(engine: Engine) -> None:
    for n in range(7):
        ran(engine, f"job{n}", f"0.{n + 1}")
    said = ask(engine, "forecast", [fires(f"job{n}", 1) for n in range(7)])
    assert "1 firing of job2, about $0.30" in said
    assert "2 other jobs, about $0.30" in said  # job0 and job1
    # $2.80 used and $2.80 to come, all of it at one o'clock
    assert said.endswith("With them alone $5.00 is reached\n      today at 13:00.")


def test_a_profile_has_the_jobs_that_ran_in_it(engine: Engine) -> None:
    ran(engine, "n1", "0.40", profile="research")
    ran(engine, "d1", "0.10", profile="home")
    said = ask(engine, "forecast profile research", [fires("n1", 2), fires("d1", 2)])
    assert "1 firing of nightly report (n1)" in said
    assert "digest" not in said


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (
            fires("n1", 13),
            "It does not fire again today.\n    About $0.80 by the end, under $3.00.",
        ),
        (fires("n1", 1, paused=True), "It is paused, and does not fire until\n    it is resumed."),
    ],
)
def test_a_job_that_does_not_fire_again(engine: Engine, schedule: Schedule, said: str) -> None:
    ran(engine, "n1", "0.80")
    assert ask(engine, "forecast cron_job n1 daily", [schedule]).endswith(said)


def test_a_job_that_we_paused_fires_again_after_the_reset(engine: Engine) -> None:
    ran(engine, "n1", "0.40")
    midnight = TODAY.end_ms
    pause = Pause("n1", NOON, midnight, "", Scope.CRON_JOB, "n1", Window.DAILY, "our stamp")
    engine.journal.note_pause(pause, 1.0)
    hourly = fires("n1", *range(1, 15), paused=True)  # until 2 o'clock of the next day
    assert "It is paused" in ask(engine, "forecast cron_job n1 weekly", [hourly])  # by a person
    hourly = replace(hourly, paused_at="our stamp")
    weekly = ask(engine, "forecast cron_job n1 weekly", [hourly])
    assert "3 more firings this week, about $1.20." in weekly  # at 0, 1 and 2 o'clock
    resumed = ask(engine, "forecast cron_job n1 weekly", [replace(hourly, is_paused=False)])
    assert "14 more firings this week" in resumed  # a person has resumed it since
    engine.budget_file.path.write_text(LIMITS + "cron: {resume: manual}\n")
    engine.reload_config()
    assert "It is paused" in ask(engine, "forecast cron_job n1 weekly", [hourly])


def test_a_limit_that_is_reached_needs_no_schedule(engine: Engine) -> None:
    ran(engine, "n1", "3.00")
    said = ask(engine, "forecast cron_job n1 daily", [fires("n1", 1)])
    assert "The limit is reached" in said
    assert "firing" not in said


def test_windows_without_an_end_and_other_measures_go_by_their_pace(engine: Engine) -> None:
    ran(engine, "n1", "0.40")
    engine.budget_file.path.write_text("budgets: {global: {total_usd: 50, daily_calls: 90}}\n")
    engine.reload_config()
    assert "firing" not in ask(engine, "forecast", [fires("n1", 1)])


def test_outside_the_host_it_is_said_that_firings_are_not_counted(engine: Engine) -> None:
    ran(engine, "n1", "0.40")
    assert "When cron jobs fire next is not" in ask(engine, "forecast")
    assert "When cron jobs fire next" not in ask(engine, "forecast sender")
    assert "When cron jobs fire next" not in ask(engine, "forecast", [])


def test_who_may_not_see_others_spending_does_not_see_jobs(engine: Engine) -> None:
    ran(engine, "n1", "0.40")
    visitor = Caller("telegram:1", "chat", "/budget", False, "telegram:1")
    host = Host(schedules=lambda _now_ms, _end_ms: [fires("n1", 1)])
    said = chat.reply(lambda: engine, "forecast", visitor, host)
    assert "nightly" not in said
    assert "fire" not in said


def test_the_host_is_asked_to_the_end_of_the_longest_window(engine: Engine) -> None:
    asked: list[tuple[int, int]] = []

    def schedules(now_ms: int, end_ms: int) -> list[Schedule]:
        asked.append((now_ms, end_ms))
        return []

    chat.reply(lambda: engine, "forecast", OWNER, Host(schedules=schedules))
    # 30 November 2026 is a Monday: its week ends after its month.
    assert asked == [(NOON, at("2026-12-07 00:00"))]


def test_json(engine: Engine) -> None:
    ran(engine, "n1", "0.40")
    (outlook,) = json.loads(ask(engine, "forecast --json", [fires("n1", 1, 2), fires("x", 1)]))
    assert outlook["scheduled"] == {
        "by_end": "1.2",
        "at_least": True,
        "reached_ms": None,
        "paused": False,
        "jobs": [
            {"job": "n1", "name": "nightly report", "firings": 2, "run_usd": "0.4"}
            | {"at_least": False},
            {"job": "x", "name": None, "firings": 1, "run_usd": None, "at_least": False},
        ],
    }
    (alone,) = json.loads(ask(engine, "forecast --json"))
    assert alone["scheduled"] is None
