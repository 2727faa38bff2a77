"""The budget's own tools in the real host: offered where runs have ceilings, and never blocked."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.host.hermes_home import HermesHome

NewHome = Callable[..., HermesHome]


def test_a_run_accounts_for_itself(new_home: NewHome) -> None:
    """One tool call is allowed and made; the three of the budget's own are not among them."""
    home = new_home(budget="timezone: UTC\nruns: {default: {tool_calls: 1}, checkpoints: 0.25}\n")
    answer = home.chat("[[scene:accounts_for_itself]] go")
    assert "that is all" in answer
    results = [
        row["content"]
        for row in home.host_state("SELECT content FROM messages WHERE role = 'tool'")
    ]
    assert len(results) == 4
    assert sum("tool calls: 0 of 1 left" in result for result in results) == 2
    (row,) = home.ledger("SELECT receipt FROM run_endings")
    receipt = json.loads(row["receipt"])
    assert (receipt["state"], receipt["status"]) == ("FOLLOW_UP_TICKET", "partial")
    assert (receipt["delivered"], receipt["gaps"], receipt["tools"]) == (["one"], ["two"], 1)
    (checkpoint,) = home.ledger("SELECT * FROM checkpoints")
    assert checkpoint["established"] == "one fact"
    assert "check_fn offered" not in home.agent_log()


def test_without_ceilings_they_are_not_offered_and_nothing_complains(new_home: NewHome) -> None:
    home = new_home(budget="budgets: {global: {daily_usd: 5}}\n")
    home.chat("[[scene:accounts_for_itself]] go")
    results = [
        row["content"]
        for row in home.host_state("SELECT content FROM messages WHERE role = 'tool'")
    ]
    assert not any("of this run" in result for result in results)
    assert "check_fn offered" not in home.agent_log()
