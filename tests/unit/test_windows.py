"""Calendar windows around clock changes, each edge written out in UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from budget_plugin.policy.windows import END_OF_TIME_MS, Period, Window, day_start_ms, period

BERLIN = "Europe/Berlin"
LOS_ANGELES = "America/Los_Angeles"


def ms(text: str) -> int:
    """UTC milliseconds of `2026-10-24T22:00Z`."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def utc(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%MZ}"


def window_at(window: Window, at: str, zone: str, week_start: int = 0) -> Period:
    return period(window, ms(at), ZoneInfo(zone), week_start)


def edges(found: Period) -> tuple[str, str]:
    return utc(found.start_ms), utc(found.end_ms)


@pytest.mark.case("A37")
def test_a_month_is_a_calendar_month() -> None:
    january = window_at(Window.MONTHLY, "2026-01-31T18:00Z", LOS_ANGELES)  # 10:00 there
    assert edges(january) == ("2026-01-01T08:00Z", "2026-02-01T08:00Z")
    february = period(Window.MONTHLY, january.end_ms, ZoneInfo(LOS_ANGELES))
    assert edges(february) == ("2026-02-01T08:00Z", "2026-03-01T08:00Z")


@pytest.mark.case("A38", "T09")
@pytest.mark.parametrize(
    ("at", "key", "start", "end", "hours"),
    [
        ("2026-10-25T22:30Z", "2026-10-25", "2026-10-24T22:00Z", "2026-10-25T23:00Z", 25),
        ("2026-03-29T12:00Z", "2026-03-29", "2026-03-28T23:00Z", "2026-03-29T22:00Z", 23),
        ("2026-10-25T23:00Z", "2026-10-26", "2026-10-25T23:00Z", "2026-10-26T23:00Z", 24),
    ],
)
def test_the_days_of_a_clock_change(at: str, key: str, start: str, end: str, hours: int) -> None:
    day = window_at(Window.DAILY, at, BERLIN)
    assert (day.key, *edges(day)) == (key, start, end)
    assert day.end_ms - day.start_ms == hours * 3_600_000


@pytest.mark.case("T09")
def test_a_month_keeps_its_start_after_the_clock_change_in_it() -> None:
    before = window_at(Window.MONTHLY, "2026-10-10T12:00Z", BERLIN)
    after = window_at(Window.MONTHLY, "2026-10-30T12:00Z", BERLIN)
    assert before == after
    assert edges(after) == ("2026-09-30T22:00Z", "2026-10-31T23:00Z")  # 31 days and an hour


@pytest.mark.case("A39", "T01")
def test_calls_around_midnight_lie_in_different_days() -> None:
    """23:50, 00:05 and 00:10 local: the first belongs to one day, the others to the next."""
    keys = [
        window_at(Window.DAILY, at, BERLIN).key
        for at in ("2026-09-07T21:50Z", "2026-09-07T22:05Z", "2026-09-07T22:10Z")
    ]
    assert keys == ["2026-09-07", "2026-09-08", "2026-09-08"]


@pytest.mark.case("T10")
def test_the_zone_that_is_asked_for_decides_and_not_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = set()
    for process_zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        monkeypatch.setenv("TZ", process_zone)
        found.add(window_at(Window.DAILY, "2026-06-01T22:30Z", BERLIN))
    assert [edges(day) for day in found] == [("2026-06-01T22:00Z", "2026-06-02T22:00Z")]


@pytest.mark.parametrize(
    ("zone", "at", "start", "key"),
    [
        # A day that has no midnight begins at 01:00; the date 30 December was left out in Apia.
        ("America/Sao_Paulo", "2018-11-04T12:00Z", "2018-11-04T03:00Z", "2018-11-04"),
        ("Asia/Beirut", "2022-03-27T12:00Z", "2022-03-26T22:00Z", "2022-03-27"),
        ("Africa/Cairo", "2023-04-28T12:00Z", "2023-04-27T22:00Z", "2023-04-28"),
        ("Pacific/Apia", "2011-12-31T00:00Z", "2011-12-30T10:00Z", "2011-12-31"),
        # Midnight comes twice: the first one begins the day.
        ("America/Havana", "2026-11-01T12:00Z", "2026-11-01T04:00Z", "2026-11-01"),
        # The clock falls back over midnight, and the old date shows again: the new day goes on.
        ("America/St_Johns", "2010-11-07T03:00Z", "2010-11-07T02:30Z", "2010-11-07"),
        ("Australia/Lord_Howe", "2026-04-05T12:00Z", "2026-04-04T13:00Z", "2026-04-05"),
    ],
)
def test_days_without_a_usual_midnight(zone: str, at: str, start: str, key: str) -> None:
    day = window_at(Window.DAILY, at, zone)
    assert (utc(day.start_ms), day.key) == (start, key)
    assert day.contains(ms(at))


def test_a_date_that_was_left_out_begins_where_the_next_one_does() -> None:
    zone = ZoneInfo("Pacific/Apia")  # 30 December 2011 did not happen there
    left_out, next_day = (day_start_ms(date(2011, 12, day), zone) for day in (30, 31))
    assert left_out == next_day


@pytest.mark.parametrize(
    ("at", "zone", "start", "end", "key"),
    [
        ("2026-11-30T14:37Z", "UTC", "2026-11-30T14:00Z", "2026-11-30T15:00Z", "2026-11-30T14"),
        ("2026-11-30T14:37Z", "Asia/Kolkata", "2026-11-30T14:30Z", "2026-11-30T15:30Z", "…T20"),
        # 02:00 to 03:00 happens twice, and each is an hour of its own.
        ("2026-10-25T00:30Z", BERLIN, "2026-10-25T00:00Z", "2026-10-25T01:00Z", "…T02"),
        ("2026-10-25T01:30Z", BERLIN, "2026-10-25T01:00Z", "2026-10-25T02:00Z", "…T02~2"),
        # Half an hour is repeated: an hour is cut in two at the change.
        ("2026-04-04T14:45Z", "Australia/Lord_Howe", "2026-04-04T14:00Z", "2026-04-04T15:00Z", ""),
        ("2026-04-04T15:10Z", "Australia/Lord_Howe", "2026-04-04T15:00Z", "2026-04-04T15:30Z", ""),
    ],
)
def test_hours(at: str, zone: str, start: str, end: str, key: str) -> None:
    hour = window_at(Window.HOURLY, at, zone)
    assert edges(hour) == (start, end)
    assert hour.key.endswith(key.removeprefix("…"))


@pytest.mark.parametrize(
    ("at", "week_start", "start", "key"),
    [
        ("2026-12-03T12:00Z", 0, "2026-11-29T23:00Z", "2026-W49"),
        ("2026-12-03T12:00Z", 6, "2026-11-28T23:00Z", "W2026-11-29"),
        ("2027-01-01T12:00Z", 0, "2026-12-27T23:00Z", "2026-W53"),  # the ISO year, not the date's
        ("2026-11-29T12:00Z", 6, "2026-11-28T23:00Z", "W2026-11-29"),
    ],
)
def test_weeks(at: str, week_start: int, start: str, key: str) -> None:
    week = window_at(Window.WEEKLY, at, BERLIN, week_start)
    assert (utc(week.start_ms), week.key) == (start, key)
    assert week.end_ms - week.start_ms == 7 * 86_400_000


def test_a_week_with_a_clock_change_has_another_length() -> None:
    week = window_at(Window.WEEKLY, "2026-10-25T12:00Z", BERLIN)
    assert week.end_ms - week.start_ms == (7 * 24 + 1) * 3_600_000


def test_all_time_is_one_window() -> None:
    total = window_at(Window.TOTAL, "2026-12-03T12:00Z", BERLIN)
    assert total == Period(Window.TOTAL, 0, END_OF_TIME_MS, "total")


@pytest.mark.case("A40")
def test_a_window_ends_with_its_last_millisecond() -> None:
    day = window_at(Window.DAILY, "2026-09-07T21:59Z", BERLIN)
    assert [day.contains(day.end_ms - 1), day.contains(day.end_ms)] == [True, False]
    assert period(Window.DAILY, day.end_ms, ZoneInfo(BERLIN)).key == "2026-09-08"
