"""Observed limits in the real host: nothing is stopped, all is noted, a word enforces them."""

from __future__ import annotations

from collections.abc import Callable

from tests.host.hermes_home import HermesHome
from tests.host.provider import refusal_in

NewHome = Callable[..., HermesHome]

OBSERVED = """\
timezone: UTC
budgets: {global: {daily_calls: 2, mode: observe}}
runs: {default: {tool_calls: 1, mode: observe}}
"""
_TOOL_RESULTS = "SELECT content FROM messages WHERE role = 'tool'"


def test_nothing_is_stopped_until_a_person_enforces_it(new_home: NewHome) -> None:
    """Three tools in four calls: the second tool, and the third call, would have been refused."""
    home = new_home(budget=OBSERVED)
    answer = home.chat("[[scene:three_tools]] go")
    assert "Run:" not in answer
    results = [str(row["content"]) for row in home.host_state(_TOOL_RESULTS)]
    assert len(results) == 3
    assert not any(map(refusal_in, results))
    noted = home.ledger("SELECT gate, scope, measure, level, action FROM decisions ORDER BY id")
    assert {(row["gate"], row["scope"]) for row in noted} == {
        ("tool", "run"),
        ("model", "run"),
        ("ledger", "global"),
    }
    assert {(row["level"], row["action"]) for row in noted} == {("observed", "would have stopped")}

    home.hermes("budget", "enforce")
    before = len(home.provider_calls())
    home.chat("[[scene:three_tools]] go")
    assert len(home.provider_calls()) == before  # two calls a day are used up
