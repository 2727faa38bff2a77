"""Windows over every clock change of zones that change it in odd ways."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budget_plugin.policy.windows import Period, Window, period

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""

ZONES = (
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",  # its winter time is the exception, as the law has it
    "America/Los_Angeles",
    "America/Sao_Paulo",  # changed at midnight
    "America/Havana",  # changes at midnight, both ways
    "America/St_Johns",  # half an hour off, and changed at one minute past midnight
    "Asia/Beirut",  # changes at midnight
    "Asia/Gaza",  # changed at odd hours, also over midnight
    "Asia/Kathmandu",  # a quarter of an hour off
    "Africa/Cairo",  # changed at midnight, stopped, began again
    "Africa/Casablanca",  # goes back for Ramadan
    "Antarctica/Troll",  # two hours at once
    "Australia/Lord_Howe",  # half an hour at once
    "Pacific/Apia",  # left out a day
    "Pacific/Kwajalein",  # left out a day, too
)
CALENDAR = (Window.HOURLY, Window.DAILY, Window.WEEKLY, Window.MONTHLY)
FIRST_MS = round(datetime(1993, 1, 1, tzinfo=UTC).timestamp() * 1000)
LAST_MS = round(datetime(2037, 12, 31, tzinfo=UTC).timestamp() * 1000)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

zones = st.sampled_from(ZONES).map(ZoneInfo)
windows = st.sampled_from(CALENDAR)
week_starts = st.sampled_from((0, 6))
instants = st.integers(FIRST_MS, LAST_MS)


def offset_s(at_ms: int, zone: ZoneInfo) -> float:
    offset = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return offset.total_seconds()


def changes(zone: ZoneInfo) -> list[int]:
    """Every instant between 1993 and 2037 at which the clock of a zone is moved, to the second."""
    found = []
    for before_ms, after_ms in pairwise(range(FIRST_MS, LAST_MS, DAY_MS)):
        low, high = before_ms // 1000, after_ms // 1000
        if offset_s(before_ms, zone) == offset_s(after_ms, zone):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            same = offset_s(middle * 1000, zone) == offset_s(before_ms, zone)
            low, high = (middle, high) if same else (low, middle)
        found.append(high * 1000)
    return found


@pytest.mark.case("A38", "T09")
@pytest.mark.parametrize("name", ZONES)
def test_windows_contain_their_now_around_every_clock_change(name: str) -> None:
    zone = ZoneInfo(name)
    around = (-DAY_MS, -HOUR_MS, -1, 0, 1, HOUR_MS // 2, HOUR_MS, 2 * HOUR_MS, DAY_MS)
    for change_ms in changes(zone):
        for window in CALENDAR:
            for now_ms in (change_ms + step for step in around):
                found = period(window, now_ms, zone)
                assert found.start_ms <= now_ms < found.end_ms, (window, now_ms)


@pytest.mark.parametrize("name", ZONES)
def test_days_around_every_clock_change_follow_one_another(name: str) -> None:
    zone = ZoneInfo(name)
    for change_ms in changes(zone):
        for window in (Window.HOURLY, Window.DAILY):
            chain = windows_from(window, change_ms - DAY_MS, change_ms + DAY_MS, zone)
            assert_partition(chain)


@PATIENT
@given(windows, instants, zones, week_starts)
def test_a_window_contains_its_now(
    window: Window, now_ms: int, zone: ZoneInfo, week_start: int
) -> None:
    assert period(window, now_ms, zone, week_start).contains(now_ms)


@PATIENT
@given(windows, instants, zones, week_starts, st.floats(0, 1, exclude_max=True))
def test_every_moment_of_a_window_has_that_window(
    window: Window, now_ms: int, zone: ZoneInfo, week_start: int, share: float
) -> None:
    found = period(window, now_ms, zone, week_start)
    inside_ms = found.start_ms + int((found.end_ms - found.start_ms) * share)
    for at_ms in (found.start_ms, inside_ms, found.end_ms - 1):
        assert period(window, at_ms, zone, week_start) == found


@PATIENT
@given(windows, instants, zones, week_starts)
def test_windows_of_a_kind_partition_time_and_have_names_of_their_own(
    window: Window, now_ms: int, zone: ZoneInfo, week_start: int
) -> None:
    found = period(window, now_ms, zone, week_start)
    chain = [found]
    for _ in range(3):
        chain.append(period(window, chain[-1].end_ms, zone, week_start))
    chain.insert(0, period(window, found.start_ms - 1, zone, week_start))
    assert_partition(chain)


@PATIENT
@given(instants, zones)
def test_days_lie_in_their_month_whole(now_ms: int, zone: ZoneInfo) -> None:
    day, month = (period(window, now_ms, zone) for window in (Window.DAILY, Window.MONTHLY))
    assert month.start_ms <= day.start_ms < day.end_ms <= month.end_ms
    assert day.key.startswith(month.key)


def windows_from(window: Window, from_ms: int, to_ms: int, zone: ZoneInfo) -> list[Period]:
    chain = [period(window, from_ms, zone)]
    while chain[-1].end_ms <= to_ms:
        chain.append(period(window, chain[-1].end_ms, zone))
    return chain


def assert_partition(chain: list[Period]) -> None:
    for earlier, later in pairwise(chain):
        assert earlier.start_ms < earlier.end_ms == later.start_ms
    keys = [found.key for found in chain]
    assert len(set(keys)) == len(keys), keys
