"""The ledger equals the bill: every billed call is one row, at the provider's price, exactly."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.host.hermes_home import HermesHome, fallback_to, price_nanos

NewHome = Callable[..., HermesHome]

# Limits far above anything that is spent: the totals exist, so that `verify` has something to find.
ROOMY = """\
budgets:
  global: {daily_usd: 500, monthly_usd: 5000}
  per_profile: {default: {daily_usd: 500}}
  per_cron_job: {default: {daily_usd: 500}}
"""

# scene, how it is played, how many calls are billed, options of the home
BILLED: list[tuple[str, str, int, dict[str, Any]]] = [
    ("text", "chat", 1, {}),
    ("text", "oneshot", 1, {"cost_usd_per_mtok": "2.5"}),  # the provider's own word on the cost
    ("text", "oneshot", 1, {"refuse_streams": True}),
    ("three_tools", "chat", 4, {}),
    ("parallel_tools", "chat", 2, {}),
    ("execute_code", "chat", 2, {}),
    ("cut_text", "chat", 3, {}),
    ("cut_tool_calls", "chat", 3, {}),
    ("rate_limited", "chat", 1, {}),
    ("server_error", "chat", 1, {}),
    ("refused", "oneshot", 0, {}),
    ("delegate_two", "oneshot", 6, {}),
    ("delegate_deep", "oneshot", 6, {}),
]


@pytest.mark.case("T7", "A17")
@pytest.mark.parametrize(
    ("scene", "how", "count", "options"),
    BILLED,
    ids=["-".join([scene, how, *options]) for scene, how, _, options in BILLED],
)
def test_the_ledger_equals_the_bill(
    new_home: NewHome, scene: str, how: str, count: int, options: dict[str, Any]
) -> None:
    home = new_home(budget=ROOMY, **options)
    home.hermes(*{"chat": ("chat", "-Q", "-q"), "oneshot": ("-z",)}[how], f"[[scene:{scene}]] go")
    assert_ledger_is_the_bill(home, count)


@pytest.mark.case("A20")
def test_a_fallback_in_the_middle_is_priced_as_what_answered(new_home: NewHome) -> None:
    home = new_home(budget=ROOMY)
    home.config = fallback_to(home.provider)
    home.write_config()
    assert "second model" in home.chat("[[scene:second_model]] go")
    assert_ledger_is_the_bill(home, 1)
    assert [row["model"] for row in home.ledger("SELECT model FROM calls")] == ["fake-second"]


def test_children_in_the_background(new_home: NewHome) -> None:
    home = new_home(budget=ROOMY)
    home.turns("[[scene:delegate_two]] go", "[[scene:text]] and now")
    assert_ledger_is_the_bill(home, 7)


def test_a_cron_job(new_home: NewHome) -> None:
    home = new_home(budget=ROOMY)
    home.cron_create("[[scene:cron_report]] report", "daily report")
    home.cron_tick()
    assert_ledger_is_the_bill(home, 2)


def test_the_tokens_of_each_call(new_home: NewHome) -> None:
    home = new_home(budget=ROOMY)
    home.chat("[[scene:three_tools]] go")
    home.oneshot("[[scene:text]] hello")
    rows = home.ledger("SELECT * FROM calls ORDER BY id")
    assert [tokens_of(row) for row in rows] == [wire_tokens(c) for c in home.provider_calls()]
    assert [row["cost_nanos"] for row in rows] == [price_nanos(c) for c in home.provider_calls()]
    assert {row["cost_source"] for row in rows} == {"pricing"}


def tokens_of(row: dict[str, Any]) -> tuple[int, ...]:
    names = ("input", "cache_read", "cache_write", "output", "reasoning")
    return tuple(row[f"{name}_tokens"] for name in names)


def wire_tokens(call: dict[str, Any]) -> tuple[int, ...]:
    usage = call["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    reasoning = usage["completion_tokens_details"]["reasoning_tokens"]
    return usage["prompt_tokens"] - cached, cached, 0, usage["completion_tokens"], reasoning


@pytest.mark.case("A15")
def test_a_stream_that_reports_no_usage_is_estimated_and_says_so(new_home: NewHome) -> None:
    home = new_home(budget=ROOMY)
    home.oneshot("[[scene:no_usage]] go")
    (row,) = home.ledger("SELECT * FROM calls")
    assert row["estimated"] == 1
    assert row["cost_nanos"] > 0
    assert "estimate" in home.hermes("budget", "status").stdout


@pytest.mark.case("T4", "A10")
def test_a_model_without_a_price_is_unpriced_and_never_free(new_home: NewHome) -> None:
    home = new_home(budget=ROOMY)
    home.write_pricing("unit: usd_per_million_tokens\nmodels: {}\n")
    home.oneshot("[[scene:text]] hello")
    (row,) = home.ledger("SELECT * FROM calls")
    assert (row["cost_nanos"], row["cost_source"]) == (None, "unpriced")
    status = home.hermes("budget", "status").stdout
    assert "at least" in status
    assert "unpriced" in status


def test_without_configuration_it_only_records(home: HermesHome) -> None:
    assert "three things done" in home.chat("[[scene:three_tools]] go")
    assert home.recorded_nanos() == home.billed_nanos() > 0
    assert home.ledger("SELECT * FROM decisions") == []
    assert home.ledger("SELECT * FROM budget_alerts") == []


@pytest.mark.case("T7")
def test_a_run_is_a_turn(new_home: NewHome) -> None:
    """Two questions in one conversation are two runs of one session."""
    home = new_home(budget=ROOMY)
    home.turns("[[scene:text]] one", "[[scene:text]] two")
    runs = home.ledger("SELECT * FROM runs ORDER BY started_ms")
    assert len(runs) == 2
    assert len({run["session_id"] for run in runs}) == 1
    assert {(run["cron_job_id"], run["sender_id"]) for run in runs} == {("", "")}
    assert {run["root_run_id"] for run in runs} == {run["run_id"] for run in runs}
    counted = home.ledger("SELECT run_id, COUNT(*) AS n FROM calls GROUP BY run_id")
    assert {row["run_id"]: row["n"] for row in counted} == {run["run_id"]: 1 for run in runs}


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_call_that_was_cut_off_is_an_estimate(new_home: NewHome, ending: signal.Signals) -> None:
    """It may have been billed: what was set aside for it becomes a row, flagged, and stays one."""
    home = new_home(budget=ROOMY)
    process = home.start("chat", "-Q", "-q", "[[scene:held]] go")
    home.provider.wait_until_asked(1)
    process.send_signal(ending)
    process.communicate(timeout=120)
    home.provider.release()
    for _ in range(2):
        home.oneshot("[[scene:text]] hello")
    rows = home.ledger("SELECT * FROM calls ORDER BY id")
    assert sorted(row["estimated"] for row in rows) == [0, 0, 1]
    assert min(row["cost_nanos"] for row in rows) > 0
    assert home.ledger("SELECT * FROM reservations") == []


def test_the_summary_at_the_iteration_limit_is_what_nobody_sees(new_home: NewHome) -> None:
    """The host makes it past every hook and notes it nowhere; the README says so."""
    home = new_home(budget=ROOMY, config={"agent": {"max_turns": 3}})
    home.chat("[[scene:runaway]] go")
    assert_ledger_is_the_bill(home, 3)
    assert len(home.provider_calls(auxiliary=True)) == 4
    assert home.host_state("SELECT * FROM session_model_usage WHERE task <> ''") == []


def assert_ledger_is_the_bill(home: HermesHome, count: int) -> None:
    billed = [call for call in home.provider_calls() if call["usage"]]
    rows = home.ledger("SELECT * FROM calls")
    assert len(billed) == count
    assert len(rows) == count
    assert home.recorded_nanos() == home.billed_nanos()
    assert [row for row in rows if row["estimated"]] == []
