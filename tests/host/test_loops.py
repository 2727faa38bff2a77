"""Runs that go in circles, in the real host."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.host.hermes_home import HermesHome
from tests.host.provider import refusal_in

NewHome = Callable[..., HermesHome]
ON = "timezone: UTC\nloops: {all: true}\n"


def results(home: HermesHome) -> list[str]:
    """What refused each tool call, "" for those that ran."""
    rows = home.host_state("SELECT content FROM messages WHERE role = 'tool' ORDER BY id")
    return [refusal_in(str(row["content"])) for row in rows]


def receipt(home: HermesHome, kind: str = "chat") -> dict[str, Any]:
    query = "SELECT receipt FROM run_endings JOIN runs USING (run_id) WHERE kind = ?"
    ((row),) = home.ledger(query, [kind])
    loaded: dict[str, Any] = json.loads(row["receipt"])
    return loaded


@pytest.mark.case("A52")
def test_a_repeated_call_is_hinted_at_and_then_refused(new_home: NewHome) -> None:
    home = new_home(budget=ON)
    home.chat("[[scene:greps]] go")
    first, second, third, *rest = results(home)
    assert (first, second, third) == ("", "", "")
    assert "goes in a circle: terminal was called 3 times" in rest[0]
    told = [call["last_text"] for call in home.provider_calls()]
    assert any("Use the result that is there" in text for text in told)
    assert receipt(home)["cause"] == "answered"
    (seen,) = receipt(home)["loops"]
    assert (seen["detector"], seen["action"], seen["count"]) == ("repeated_call", "refused", 3)
    assert "repeated call: terminal, 3 times (refused)" in home.hermes("budget", "receipt").stdout
    assert "loop: refused" in home.hermes("budget", "why").stdout


@pytest.mark.case("A53")
def test_the_same_error_with_other_arguments_is_seen(new_home: NewHome) -> None:
    home = new_home(budget=ON)
    home.chat("[[scene:errs]] go")
    found = [(seen["detector"], seen["count"]) for seen in receipt(home)["loops"]]
    assert ("repeated_error", 3) in found
    told = [call["last_text"] for call in home.provider_calls()]
    assert any("failed 3 times with the same error" in text for text in told)


@pytest.mark.case("A52")
def test_polling_whose_result_changes_is_not_stopped(new_home: NewHome) -> None:
    home = new_home(budget=ON)
    home.chat("[[scene:polls]] go")
    assert results(home) == [""] * 6
    assert receipt(home)["loops"] == []


def test_a_job_that_loops_ends_with_its_cause(new_home: NewHome) -> None:
    home = new_home(budget=ON)
    home.cron_create("[[scene:greps_for_ever]] report", "looping report")
    home.cron_tick()
    end = receipt(home, "cron")
    assert (end["cause"], end["status"], end["state"]) == (
        "looped",
        "partial",
        "ESCALATED_TO_HUMAN",
    )
    assert end["tools"] == 3
    told = [call["last_text"] for call in home.provider_calls()]
    assert any("Finish now" in text for text in told)
    assert len(told) <= 6


def test_the_same_dispatch_that_brings_nothing_is_refused(new_home: NewHome) -> None:
    home = new_home(budget="loops: {cycle: true}\n")
    home.oneshot("[[scene:delegates_the_same]] go")
    *ran, fifth, sixth = results(home)
    # The first child's work was new; then three times in a row nothing was.
    assert ran == [""] * 8  # four dispatches, and the call of each child
    assert "the same work was handed on 3 times (leaf)" in fifth
    assert fifth == sixth
    assert len(home.ledger("SELECT * FROM subagent_edges")) == 4
    (seen,) = [each for each in receipt(home)["loops"] if each["detector"] == "cycle"]
    assert (seen["action"], seen["subject"]) == ("refused", ["leaf"])


def test_without_settings_a_loop_is_recorded_and_nothing_follows(new_home: NewHome) -> None:
    home = new_home()
    home.chat("[[scene:greps]] go")
    assert results(home) == [""] * 5
    (seen,) = receipt(home)["loops"]
    assert (seen["detector"], seen["action"], seen["count"]) == ("repeated_call", "watched", 5)


def test_a_job_that_looped_unhindered_is_cut_by_a_replay(new_home: NewHome) -> None:
    """Its 4th tool call would have ended it and its 5th answer been the last: the 6th is saved."""
    home = new_home()
    home.cron_create("[[scene:greps]] report", "looping report")
    home.cron_tick()
    assert receipt(home, "cron")["cause"] == "answered"
    replayed = json.loads(home.hermes("budget", "replay", "--loops", "on", "--json").stdout)
    (row,) = replayed["candidates"]
    assert (replayed["runs"], replayed["runs_without_tool_calls"]) == (1, 0)
    assert (row["causes"], row["calls_saved"]) == ({"looped": 1}, 1)
