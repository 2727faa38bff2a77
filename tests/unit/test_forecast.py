"""Looking ahead: the pace of a window and of the last days, and where it leads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_plugin.commands import chat
from budget_plugin.commands.asking import Caller
from budget_plugin.engine.engine import Engine
from budget_plugin.policy.forecast import DAY_MS, Day, Forecast, Outlook, forecast
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.windows import Period, Window, period
from budget_plugin.testing import FakeClock, at, make_engine, spend

UTC = ZoneInfo("UTC")
OWNER = Caller("owner", "chat", "/budget")


def month(now_ms: int) -> Period:
    return period(Window.MONTHLY, now_ms, UTC)


def days_until(now_ms: int, *used: int) -> list[Day]:
    """One day each, ascending; the last is today."""
    today_ms = period(Window.DAILY, now_ms, UTC).start_ms
    first = len(used) - 1
    return [Day(today_ms - (first - n) * DAY_MS, each) for n, each in enumerate(used)]


def look(now: str, used: int, limit: int | None, *days: int) -> Forecast:
    now_ms = at(now)
    return forecast(month(now_ms), now_ms, used, limit, days_until(now_ms, *days))


# ------------------------------------------------------------------------------- the arithmetic


@pytest.mark.case("T37")
def test_the_first_day_is_not_divided_by_fourteen() -> None:
    found = look("2026-11-20 12:00", 1400, 20_000, *[0] * 14, 1400)
    assert found.so_far is not None
    assert found.so_far.per_day == 2800  # half a day has passed
    assert found.lately is None  # no day is over yet


def test_the_pace_of_the_window_counts_from_its_first_day_with_data() -> None:
    found = look("2026-11-21 00:00", 300, 20_000, 0, 0, 100, 200, 0)
    assert found.so_far is not None
    assert found.so_far.per_day == 150  # two days, not twenty
    assert found.lately is not None
    assert (found.lately.per_day, found.lately.days) == (150, 2)


def test_days_without_use_do_not_thin_the_pace_of_the_last_days() -> None:
    found = look("2026-11-20 12:00", 500, None, 100, 0, 0, 0, 300, 100)
    assert found.lately is not None
    assert (found.lately.per_day, found.lately.days) == (200, 2)


def test_only_the_last_fourteen_days_count() -> None:
    found = look("2026-11-30 12:00", 10, None, 999_999, *[0] * 14, 10)
    assert found.lately is None
    found = look("2026-11-30 12:00", 10, None, 70, *[0] * 13, 10)
    assert found.lately is not None
    assert found.lately.per_day == 70


def test_the_day_of_reaching_the_limit() -> None:
    found = look("2026-11-11 00:00", 100, 200, *[10] * 10, 0)
    assert found.outlook is Outlook.REACHED
    assert found.so_far is not None
    assert found.so_far.reached_ms == at("2026-11-21 00:00")
    assert found.so_far.by_end == 300


def test_a_limit_that_is_reached_only_after_the_window_is_not_reached() -> None:
    found = look("2026-11-11 00:00", 100, 301, *[10] * 10, 0)
    assert found.outlook is Outlook.UNDER
    assert found.so_far is not None
    assert found.so_far.reached_ms is None


@pytest.mark.case("T37")
@pytest.mark.parametrize("used", [200, 201, 10_000])
def test_already_over(used: int) -> None:
    found = look("2026-11-11 00:00", used, 200, *[10] * 11)
    assert found.outlook is Outlook.OVER
    assert found.so_far is not None
    assert found.so_far.reached_ms is None


def test_too_little_time_is_no_pace() -> None:
    now_ms = at("2026-11-01 00:59")
    assert forecast(month(now_ms), now_ms, 50, 100, days_until(now_ms, 50)).outlook is (
        Outlook.UNKNOWN
    )
    hour = period(Window.HOURLY, at("2026-11-01 10:04"), UTC)
    assert forecast(hour, at("2026-11-01 10:04"), 5, 10, []).outlook is Outlook.UNKNOWN
    assert forecast(hour, at("2026-11-01 10:05"), 5, 10, []).outlook is Outlook.REACHED


def test_nothing_spent_and_nothing_allowed() -> None:
    assert look("2026-11-11 00:00", 0, 100).outlook is Outlook.UNKNOWN
    assert look("2026-11-11 00:00", 0, 0).outlook is Outlook.BLOCKED
    assert look("2026-11-11 00:00", 10, None, 10, 0).outlook is Outlook.UNLIMITED


def test_all_time_has_no_end() -> None:
    now_ms = at("2026-11-11 00:00")
    total = period(Window.TOTAL, now_ms, UTC)
    found = forecast(total, now_ms, 100, 200, days_until(now_ms, 10, 0))
    assert found.so_far is None
    assert found.lately is not None
    assert found.lately.by_end is None
    assert found.lately.reached_ms == at("2026-11-21 00:00")
    never = forecast(total, now_ms, 100, 10**18, days_until(now_ms, 1, 0))
    assert never.outlook is Outlook.UNDER


@given(
    now_ms=st.integers(at("2026-01-01"), at("2027-12-31")),
    used=st.integers(0, 10**18),
    limit=st.none() | st.integers(0, 10**18),
    days=st.lists(st.integers(0, 10**17), max_size=40),
    window=st.sampled_from(Window),
)
def test_what_is_said_holds_together(
    now_ms: int, used: int, limit: int | None, days: list[int], window: Window
) -> None:
    there = period(window, now_ms, ZoneInfo("Europe/Berlin"))
    found = forecast(there, now_ms, used, limit, days_until(now_ms, *days))
    for pace in filter(None, (found.so_far, found.lately)):
        assert pace.per_day >= 0
        if pace.reached_ms is not None:
            assert now_ms < pace.reached_ms < there.end_ms
            assert limit is not None
            assert pace.by_end is None or pace.by_end >= limit
        if pace.by_end is not None:
            assert pace.by_end >= used
    if limit and used >= limit:
        assert found.outlook is Outlook.OVER


# ------------------------------------------------------------------------------------ in words


LIMITS = """\
budgets:
  global: {monthly_usd: 200}
  per_sender:
    default: {daily_usd: 2.00}
    overrides: {"telegram:2": {daily_usd: 0}}
"""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(at("2026-11-11 12:00"))


@pytest.fixture
def engine(tmp_path: Path, clock: FakeClock) -> Iterator[Engine]:
    engine = make_engine(tmp_path, LIMITS, clock)
    yield engine
    engine.close()


def ask(engine: Engine, text: str, caller: Caller = OWNER) -> str:
    return chat.reply(lambda: engine, text, caller)


def test_the_monthly_limit_is_reached_on_the_22nd(engine: Engine, clock: FakeClock) -> None:
    for day in range(10):
        spend(engine, "9.50", at_ms=at(f"2026-11-{day + 1:02} 12:00"))
    clock.set(at("2026-11-11 00:00"))
    assert ask(engine, "forecast") == (
        "Everything together, monthly\n"
        "  $95.00 of $200.00 used\n"
        "  This month so far: $9.50 a day.\n"
        "    $200.00 is reached on the 22nd.\n"
        "  The last 10 days with data: $9.50 a\n"
        "    day.\n"
        "    $200.00 is reached on the 22nd."
    )


@pytest.mark.case("T37")
def test_the_forecast_of_one_scope_uses_the_spend_of_that_scope(engine: Engine) -> None:
    spend(engine, "100", at_ms=at("2026-11-10 12:00"), sender_id="telegram:9")
    spend(engine, "0.90", sender_id="telegram:1")
    assert ask(engine, "forecast sender telegram:1 daily") == (
        'Sender "telegram:1", daily\n'
        "  $0.90 of $2.00 used\n"
        "  Today so far: $0.07 an hour.\n"
        "    About $1.80 by the end, under $2.00."
    )


@pytest.mark.case("T37")
def test_already_over_in_words(engine: Engine) -> None:
    spend(engine, "2.50", sender_id="telegram:1")
    assert ask(engine, "forecast sender telegram:1 daily") == (
        'Sender "telegram:1", daily\n'
        "  $2.50 of $2.00 used\n"
        "  Already over the limit; it resets\n"
        "    2026-11-12 00:00."
    )


def test_not_enough_data_and_nothing_allowed_in_words(engine: Engine) -> None:
    assert ask(engine, "forecast") == (
        "Everything together, monthly\n  $0.00 of $200.00 used\n  Not enough data yet."
    )
    assert "The limit allows nothing." in ask(engine, "forecast sender telegram:2")


def test_without_a_limit_there_is_still_a_pace(engine: Engine) -> None:
    spend(engine, "1.00", cron_job_id="nightly")
    spend(engine, None, cron_job_id="nightly")
    assert ask(engine, "forecast cron_job nightly daily") == (
        'Cron job "nightly", daily\n'
        "  at least $1.00 used today, no limit\n"
        "  Today so far: $0.08 an hour.\n"
        "    About $2.00 by the end."
    )


@pytest.mark.case("T37")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("forecast global fortnightly", '"fortnightly" is no window.'),
        ("forecast fortnightly", '"fortnightly" is no scope or window.'),
        ("forecast dayly", '"dayly" is no window. Did you mean daily?'),
        ("forecast sendr", '"sendr" is no scope or window. Did you mean sender?'),
        ("forecast sender telegram:1 dayly", '"dayly" is no window. Did you mean daily?'),
        ("forecast global telegram:1 daily", '"telegram:1" is no window.'),
    ],
)
def test_what_is_not_understood(engine: Engine, text: str, said: str) -> None:
    assert ask(engine, text).startswith(said)


def test_a_scope_without_activity(engine: Engine) -> None:
    assert ask(engine, "forecast profile") == (
        "There is no limit and no spending of every profile to go by."
    )


def test_a_sender_sees_shares_of_the_total_and_their_own(engine: Engine) -> None:
    spend(engine, "50", at_ms=at("2026-11-10 12:00"), sender_id="telegram:9")
    sender = Caller("telegram:1", "chat", "/budget", False, "telegram:1")
    total = ask(engine, "forecast", sender)
    assert "$50" not in total
    assert "25 % of $200.00 used" in total
    assert "others'" in ask(engine, "forecast sender telegram:9", sender)
    assert "others'" in ask(engine, f"forecast {Scope.PROFILE}", sender)
    spend(engine, "0.90", sender_id="telegram:1")
    assert "$0.90 of $2.00" in ask(engine, "forecast sender", sender)
