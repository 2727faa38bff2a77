"""A hard limit is hard: a tool is refused, a last answer written, and no further call leaves."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.host.hermes_home import HermesHome, price_nanos
from tests.host.provider import refusal_in

NewHome = Callable[..., HermesHome]

USD = 10**9
TWENTY_CENTS = "timezone: UTC\nbudgets: {global: {daily_usd: 0.20}}\n"
ONE_DOLLAR = "timezone: UTC\nbudgets: {global: {daily_usd: 1.00}}\n"
NOTHING = "timezone: UTC\nbudgets: {global: {daily_usd: 0}}\n"
# The scene `costly` bills $0.8115 in one call of ordinary size: no estimate can foresee it.
COSTLY_NANOS = 811_500_000


def tool_results(home: HermesHome) -> list[str]:
    return [c["last_text"] for c in home.provider_calls() if c["last_role"] == "tool"]


def refusals(home: HermesHome) -> list[str]:
    """What the model read where a tool was refused."""
    return [text for result in tool_results(home) if (text := refusal_in(result))]


def calls_after(home: HermesHome, limit_nanos: int) -> int:
    """How many calls left after the bill had reached the limit."""
    spent = after = 0
    for call in home.provider_calls():
        after += spent >= limit_nanos
        spent += price_nanos(call)
    return after


# ---------------------------------------------------------------------------- the runaway


def play_runaway(new_home: NewHome) -> tuple[HermesHome, str]:
    """A model that never stops, at a bill that follows the request: $6.31 without a plugin."""
    home = new_home(budget=TWENTY_CENTS, sized=True)
    return home, home.chat("[[scene:runaway]] go", "--max-turns", "20")


@pytest.mark.case("T14")
def test_a_runaway_is_told_and_then_ended(new_home: NewHome) -> None:
    home, answer = play_runaway(new_home)
    assert calls_after(home, USD // 5) <= 2
    assert len(home.provider_calls()) < 8
    assert home.recorded_nanos() == home.billed_nanos()
    # The tool is refused first, in words that name the limit; one call is left to sum up.
    assert "$0.20" in refusals(home)[0]
    assert refusals(home)[-1] == refusals(home)[0]
    assert refusal_in(tool_results(home)[-1])
    assert "$0.20" in answer  # the model did not sum up: we say what happened


def test_a_runaway_never_bills_more_than_the_limit(new_home: NewHome) -> None:
    home, _ = play_runaway(new_home)
    dearest = max(price_nanos(call) for call in home.provider_calls())
    assert home.billed_nanos(auxiliary=True) <= USD // 5
    assert home.billed_nanos() >= USD // 5 - 2 * dearest  # and the limit is there to be used


def test_the_last_answer_is_the_models_own(new_home: NewHome) -> None:
    """A model that does as it is told: its summary is what the person reads."""
    home = new_home(budget=TWENTY_CENTS, sized=True)
    answer = home.chat("[[scene:obedient]] go")
    assert "My summary" in answer
    assert len(refusals(home)) == 1
    assert home.billed_nanos() <= USD // 5
    assert home.recorded_nanos() == home.billed_nanos()


@pytest.mark.case("T15")
def test_four_runaways_at_once_share_one_limit(new_home: NewHome) -> None:
    budget = "timezone: UTC\nbudgets: {global: {daily_usd: 0.60}}\n"
    home = new_home(budget=budget, sized=True, latency_s=0.2)
    processes = [home.start("chat", "-Q", "-q", "[[scene:runaway]] go") for _ in range(4)]
    answers = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert home.billed_nanos() <= 600_000_000
    assert home.billed_nanos() >= 600_000_000 - 2 * max(map(price_nanos, home.provider_calls()))
    assert home.recorded_nanos() == home.billed_nanos()
    assert all("$0.60" in answer for answer in answers)


# --------------------------------------------------------------------------- at the start


@pytest.mark.case("T21", "A26")
@pytest.mark.parametrize(
    ("limit", "calls"),
    [("daily_usd: 0", 0), ("monthly_usd: 0.00", 0), ("daily_usd: null", 1), ("", 1)],
)
def test_zero_is_a_limit_and_null_is_none(new_home: NewHome, limit: str, calls: int) -> None:
    home = new_home(budget=f"budgets: {{global: {{{limit}}}}}\n")
    answer = home.oneshot("[[scene:text]] hello")
    assert len(home.provider_calls()) == calls
    assert ("hello" in answer) == bool(calls)
    assert answer.strip()


@pytest.mark.case("A41", "T16")
def test_spend_counts_after_a_restart(new_home: NewHome) -> None:
    home = new_home(budget="timezone: UTC\nbudgets: {global: {daily_usd: 0.50}}\n")
    assert "expensive" in home.oneshot("[[scene:costly]] go")
    refused = home.oneshot("[[scene:text]] hello")
    assert len(home.provider_calls()) == 1
    assert "$0.50" in refused
    assert "budget set global daily" in refused  # the person reads which command lifts it


def test_the_rest_of_the_turn_is_refused_once_the_limit_is_passed(new_home: NewHome) -> None:
    home = new_home(budget="timezone: UTC\nbudgets: {global: {daily_usd: 0.50}}\n")
    answer = home.chat("[[scene:costly_then_tools]] go")
    assert calls_after(home, USD // 2) == 0
    assert "$0.50" in answer
    assert home.billed_nanos() == COSTLY_NANOS == home.recorded_nanos()


@pytest.mark.parametrize("mode", ["chat_completions", "codex_responses", "anthropic_messages"])
def test_a_refusal_ends_the_turn_in_every_api_mode(new_home: NewHome, mode: str) -> None:
    home = new_home(budget=NOTHING)
    end = home.inside("api_mode", mode, PROVIDER=home.provider.base_url)
    assert home.provider_calls(auxiliary=True) == []
    assert "$0" in end["final_response"]
    assert (end["completed"], bool(end["failed"])) == (True, False)


@pytest.mark.case("T27")
def test_a_limit_lowered_in_an_editor_acts_in_a_running_process(new_home: NewHome) -> None:
    home = new_home(budget=ONE_DOLLAR)
    edit = f"write:{home.budget_dir / 'budget.yaml'}:{NOTHING}"
    before, _, after = home.turns("[[scene:text]] one", edit, "[[scene:text]] two")
    assert before == "hello"
    assert after != "hello"
    assert len(home.provider_calls()) == 1


def test_an_edit_that_cannot_be_read_leaves_the_last_limits(new_home: NewHome) -> None:
    home = new_home(budget=NOTHING)
    edit = f"write:{home.budget_dir / 'budget.yaml'}:budgets: [oops"
    home.turns("[[scene:text]] one", edit, "[[scene:text]] two")
    assert home.provider_calls() == []


# ----------------------------------------------------------------------------- soft alerts


def test_a_soft_alert_is_given_once(new_home: NewHome) -> None:
    home = new_home(budget=ONE_DOLLAR)
    turns = home.turns("[[scene:costly]] go", *["[[scene:text]] and then?"] * 3)
    other_process = home.oneshot("[[scene:text]] once more")

    alerts = home.ledger("SELECT * FROM budget_alerts WHERE level <> 'hard'")
    assert len(alerts) == 1
    assert (alerts[0]["scope"], alerts[0]["window"]) == ("global", "daily")
    told = [c for c in home.provider_calls() if "$1.00" in c["last_text"]]
    assert len(told) == 1
    shown = [text for text in (*turns, other_process) if "$1.00" in text]
    assert len(shown) == 1
    assert re.search(r"8\d ?%|\$0\.8\d", shown[0])
    assert len(home.provider_calls()) == 5  # nothing was refused


def test_below_the_threshold_nobody_is_told(new_home: NewHome) -> None:
    home = new_home(budget="timezone: UTC\nbudgets: {global: {daily_usd: 5.00}}\n")
    turns = home.turns("[[scene:costly]] go", "[[scene:text]] and then?")
    assert turns == ["that was expensive", "hello"]
    assert home.ledger("SELECT * FROM budget_alerts") == []


@pytest.mark.case("T2")
def test_an_estimate_alone_warns_and_does_not_block(new_home: NewHome) -> None:
    """What carries the spend over the limit is a guess; `warn_only` is the default."""
    home = new_home(budget="timezone: UTC\nbudgets: {global: {daily_usd: 0.50}}\n")
    home.write_pricing(
        "unit: usd_per_million_tokens\n"
        "models:\n  fake-model: {input: 3.00, output: 15.00, _estimated_price: true}\n"
    )
    home.oneshot("[[scene:costly]] go")
    home.oneshot("[[scene:text]] hello")
    assert len(home.provider_calls()) == 2
    assert "estimate" in home.hermes("budget", "status").stdout
