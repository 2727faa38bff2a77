"""One tree of commands: in the chat, as `hermes budget …`, and as `hermes-budget …`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.host.hermes_home import HermesHome

NewHome = Callable[..., HermesHome]

COMMENTED = """\
# what we may spend
budgets:
  global: {daily_usd: 5.00}   # a coffee
  per_cron_job:
    default: {daily_usd: 1.00}
    overrides:
      "Bericht für Jörg": {daily_usd: 2.00}
"""


def budgets(home: HermesHome) -> dict[str, Any]:
    return dict(yaml.safe_load((home.budget_dir / "budget.yaml").read_text())["budgets"])


def said(home: HermesHome, *args: str) -> str:
    done = home.hermes("budget", *args)
    assert done.returncode == 0, done.stdout
    return done.stdout


# -------------------------------------------------------------------------------- the same tree


def test_three_doors_to_one_answer(new_home: NewHome) -> None:
    home = new_home(budget="timezone: UTC\nbudgets: {global: {daily_usd: 5.00}}\n")
    home.oneshot("[[scene:three_tools]] go")
    doors = {
        "hermes": home.hermes("budget", "status"),
        "script": home.run(Path(sys.executable).with_name("hermes-budget"), "status"),
        "module": home.run(sys.executable, "-m", "budget_plugin", "status"),
    }
    assert {door: done.returncode for door, done in doors.items()} == dict.fromkeys(doors, 0)
    assert len({done.stdout.strip() for done in doors.values()}) == 1
    assert "$5.00" in doors["hermes"].stdout
    (in_chat,) = home.turns("/budget")
    assert "$5.00" in in_chat


def test_status_as_json(new_home: NewHome) -> None:
    home = new_home(budget="timezone: UTC\nbudgets: {global: {daily_usd: 5.00}}\n")
    home.oneshot("[[scene:three_tools]] go")
    spent = Decimal(home.billed_nanos()) / 10**9
    numbers = list(numbers_in(json.loads(said(home, "status", "--json"))))
    assert spent in numbers or home.billed_nanos() in numbers


def numbers_in(value: Any) -> list[Decimal]:
    """Every number of a document, also those that are written as text."""
    if isinstance(value, dict):
        return [n for item in value.values() for n in numbers_in(item)]
    if isinstance(value, list):
        return [n for item in value for n in numbers_in(item)]
    if isinstance(value, bool) or value is None:
        return []
    try:
        return [Decimal(str(value).lstrip("$"))]
    except ArithmeticError:
        return []


@pytest.mark.parametrize("command", ["status", "forecast", "help", "check", "verify", "doctor"])
def test_a_fresh_home_answers_every_command(home: HermesHome, command: str) -> None:
    assert said(home, command).strip()
    assert not (home.budget_dir / "budget.yaml").exists()


def test_status_of_a_fresh_home(home: HermesHome) -> None:
    assert "No budgets configured" in said(home, "status")


@pytest.mark.parametrize(
    "args", [("sett",), ("set", "global", "fortnightly", "5"), ("set", "global", "daily", "$5x")]
)
def test_what_is_not_understood_is_a_usage_error(home: HermesHome, args: tuple[str, ...]) -> None:
    done = home.hermes("budget", *args)
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stdout
    assert not (home.budget_dir / "budget.yaml").exists()


# ------------------------------------------------------------------------------------------- set


def test_set_then_the_limit_holds(home: HermesHome) -> None:
    said(home, "set", "global", "daily", "0")
    assert Decimal(str(budgets(home)["global"]["daily_usd"])) == 0
    home.oneshot("[[scene:text]] hello")
    assert home.provider_calls() == []
    (change,) = home.ledger("SELECT * FROM config_changes")
    assert (change["scope"], change["window"], change["amount_after"]) == ("global", "daily", 0)


@pytest.mark.case("T25")
def test_set_changes_one_value_and_nothing_else(new_home: NewHome) -> None:
    home = new_home(budget=COMMENTED)
    said(home, "set", "global", "daily", "7.50")
    said(home, "set", "cron_job", "--id", "nightly report", "monthly", "30")
    text = (home.budget_dir / "budget.yaml").read_text()
    assert "# what we may spend" in text
    assert "# a coffee" in text
    assert '"Bericht für Jörg"' in text
    after = budgets(home)
    assert Decimal(str(after["global"]["daily_usd"])) == Decimal("7.5")
    assert after["per_cron_job"]["default"] == {"daily_usd": 1.00}
    assert set(after["per_cron_job"]["overrides"]) == {"Bericht für Jörg", "nightly report"}


@pytest.mark.case("T24")
def test_set_refuses_a_file_that_it_cannot_read(new_home: NewHome) -> None:
    home = new_home(budget="budgets: [oops")
    done = home.hermes("budget", "set", "global", "daily", "5")
    assert done.returncode == 1, done.stdout
    assert (home.budget_dir / "budget.yaml").read_text() == "budgets: [oops"


def test_check_names_line_and_key(new_home: NewHome) -> None:
    home = new_home(budget='budgets:\n  global:\n    daily_usd: "$5"\n')
    done = home.hermes("budget", "check")
    assert done.returncode == 1, done.stdout
    assert "daily_usd" in done.stdout
    assert "3" in done.stdout


@pytest.mark.case("T20")
def test_the_command_in_a_refusal_lifts_it(new_home: NewHome) -> None:
    home = new_home(budget="timezone: UTC\nbudgets: {global: {daily_usd: 0.50}}\n")
    home.oneshot("[[scene:costly]] go")
    refusal = home.oneshot("[[scene:text]] hello")
    command = re.search(r"(?:/|hermes )budget (set global daily [\d.]*\d)", refusal)
    assert command, refusal
    said(home, *command.group(1).split())
    assert "hello" in home.oneshot("[[scene:text]] hello")


# ---------------------------------------------------------------------------------- who may what


def test_in_a_chat_app_everybody_may_ask_and_only_admins_set(new_home: NewHome) -> None:
    home = new_home(
        budget="timezone: UTC\nbudgets: {global: {daily_usd: 5.00}}\nadmins: ['telegram:111']\n"
    )
    stranger, asked, refused, lifted = home.inside(
        "messages",
        "999:/budget set global daily 100",
        "222:/budget status",
        "222:/budget set global daily 100",
        "111:/budget set global daily 9",
    )
    assert stranger is None
    assert "$5.00" in asked
    assert "admin" in refused
    assert "$9.00" in lifted
    assert Decimal(str(budgets(home)["global"]["daily_usd"])) == 9
    assert [row["who"] for row in home.ledger("SELECT who FROM config_changes")] == ["telegram:111"]
    assert home.provider_calls(auxiliary=True) == []


def test_a_sender_pays_for_their_own_turns(new_home: NewHome) -> None:
    """The sender belongs to the turn, not to the conversation that two people share."""
    home = new_home(budget="timezone: UTC\nbudgets: {per_sender: {default: {daily_usd: 0.50}}}\n")
    first, second, third = home.inside(
        "messages",
        "111:[[scene:costly]] go",
        "222:[[scene:text]] hello",
        "111:[[scene:text]] hello again",
    )
    assert "expensive" in first
    assert "hello" in second
    assert "$0.50" in third
    assert [call["scene"] for call in home.provider_calls()] == ["costly", "text"]
    runs = home.ledger("SELECT sender_id FROM runs ORDER BY started_ms")
    assert [run["sender_id"] for run in runs][:2] == ["telegram:111", "telegram:222"]
