"""Run limits in the real host: each stops a run at its number, with a last word and one receipt."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.host.hermes_home import HermesHome
from tests.host.provider import refusal_in

NewHome = Callable[..., HermesHome]


def limits(text: str, **more: str) -> str:
    rest = "".join(f"  {key}: {value}\n" for key, value in more.items())
    return f"timezone: UTC\nruns:\n  default: {{{text}}}\n{rest}"


def tools_of(home: HermesHome) -> tuple[int, int]:
    """Tool calls that ran, and that were refused, as the host kept them."""
    results = [row["content"] for row in home.host_state(_TOOL_RESULTS)]
    refused = sum(bool(refusal_in(str(result))) for result in results)
    return len(results) - refused, refused


_TOOL_RESULTS = "SELECT content FROM messages WHERE role = 'tool' ORDER BY id"


def receipts(home: HermesHome, kind: str = "chat") -> list[dict[str, Any]]:
    rows = home.ledger(
        "SELECT receipt FROM run_endings JOIN runs USING (run_id) WHERE kind = ?", [kind]
    )
    return [json.loads(row["receipt"]) for row in rows]


def receipt(home: HermesHome, kind: str = "chat") -> dict[str, Any]:
    """The one receipt of this kind."""
    (found,) = receipts(home, kind)
    return found


def test_a_run_stops_at_exactly_its_tool_calls(new_home: NewHome) -> None:
    home = new_home(budget=limits("tool_calls: 3"))
    answer = home.chat("[[scene:runaway]] go")
    assert tools_of(home)[0] == 3
    end = receipt(home)
    assert (end["tools"], end["cause"], end["status"]) == (3, "tool-call budget", "partial")
    assert "tool-call budget" in answer
    assert home.recorded_nanos() == home.billed_nanos()
    (told,) = [call for call in home.provider_calls() if "last answer" in call["last_text"]]
    assert told == home.provider_calls()[-1]  # and nothing after it


def test_the_last_answer_is_the_models_own(new_home: NewHome) -> None:
    home = new_home(budget=limits("tool_calls: 3"))
    answer = home.chat("[[scene:obedient]] go")
    assert "My summary" in answer
    assert "Run: partial, tool-call budget; tool calls: 3 of 3 (100 %)." in answer


def test_a_tree_starts_exactly_its_dispatches(new_home: NewHome) -> None:
    home = new_home(budget=limits("dispatches: 2"))
    answer = home.oneshot("[[scene:delegates_for_ever]] go")
    assert len(home.ledger("SELECT * FROM subagent_edges")) == 2
    assert (receipt(home)["dispatches"], receipt(home)["cause"]) == (2, "hop budget")
    assert "hop budget" in answer
    assert [end["cause"] for end in receipts(home, "child")] == ["answered"] * 2


def test_a_batch_that_does_not_fit_starts_nobody(new_home: NewHome) -> None:
    home = new_home(budget=limits("dispatches: 1"))
    home.oneshot("[[scene:delegate_two]] go")
    assert home.ledger("SELECT * FROM subagent_edges") == []
    ((result,),) = [tuple(row.values()) for row in home.host_state(_TOOL_RESULTS)]
    assert "2 do not fit, 1 would" in refusal_in(result)


@pytest.mark.parametrize(
    ("text", "cause"), [("usd: 0.10", "spend budget"), ("tokens: 40000", "token budget")]
)
def test_tokens_and_dollars_are_not_passed(new_home: NewHome, text: str, cause: str) -> None:
    home = new_home(budget=limits(text), sized=True)
    answer = home.chat("[[scene:runaway]] go", "--max-turns", "20")
    end = receipt(home)
    assert (end["cause"], end["status"]) == (cause, "partial")
    assert end["cost_nanos"] == home.billed_nanos()
    if cause == "spend budget":
        assert 0 < home.billed_nanos() <= 100_000_000
    else:
        assert 0 < end["budgets"]["tokens"]["used"] <= 40_000
    assert cause in answer


def test_nothing_starts_after_the_deadline(new_home: NewHome) -> None:
    home = new_home(budget=limits("wall_clock_s: 2"), latency_s=0.5)
    answer = home.chat("[[scene:runaway]] go", "--max-turns", "30")
    end = receipt(home)
    assert end["cause"] == "wall-clock deadline"
    assert 1 <= len(home.provider_calls()) < 8
    assert "wall-clock deadline" in answer


def test_after_a_tool_that_outlasts_the_deadline_no_call_starts(new_home: NewHome) -> None:
    """The tool ends 3 s after the deadline, and is not cut; the turn ends with a text of ours."""
    home = new_home(budget=limits("wall_clock_s: 3"))
    answer = home.chat("[[scene:slow_tool]] go")
    assert (len(home.provider_calls()), tools_of(home)) == (1, (1, 0))
    assert (receipt(home)["cause"], receipt(home)["calls"]) == ("wall-clock deadline", 1)
    assert "before the next model call" in answer


def test_a_full_window_ends_the_run(new_home: NewHome) -> None:
    """The host's configuration says that the window holds 200,000 tokens."""
    home = new_home(budget=limits("context_pct: 0.70"))
    answer = home.chat("[[scene:costly_then_tools]] go")
    assert tools_of(home) == (0, 1)
    assert receipt(home)["cause"] == "context budget"
    assert "done after all" in answer


def test_a_run_is_told_once_that_it_runs_low(new_home: NewHome) -> None:
    home = new_home(budget=limits("tool_calls: 5"))
    home.chat("[[scene:runaway]] go")
    told = [call for call in home.provider_calls() if "runs low" in call["last_text"]]
    assert len(told) == 1
    assert "tool calls: 1 of 5 left" in told[0]["last_text"]


def test_children_are_told_at_their_start_what_they_may_use(new_home: NewHome) -> None:
    home = new_home(budget=limits("tool_calls: 9", child="{tool_calls: 4}"))
    home.oneshot("[[scene:delegate_one]] go")
    told = [call for call in home.provider_calls() if "Budget of this run" in call["last_text"]]
    assert [call["scene"] for call in told] == ["child"]
    assert "tool calls: 4 of 4 left" in told[0]["last_text"]


def test_a_job_has_the_limits_of_its_kind(new_home: NewHome) -> None:
    home = new_home(budget=limits("tool_calls: 40", cron="{tool_calls: 2}"))
    home.cron_create("[[scene:runaway]] report", "runaway report")
    home.cron_tick()
    end = receipt(home, "cron")
    assert (end["tools"], end["cause"]) == (2, "tool-call budget")


def test_every_run_has_one_receipt_without_any_limit(new_home: NewHome) -> None:
    home = new_home()
    home.turns("[[scene:three_tools]] go", "[[scene:text]] and then?")
    first, second = receipts(home)
    assert (first["status"], first["state"], first["tools"]) == ("complete", "RESOLVED", 3)
    assert (second["tools"], second["calls"]) == (0, 1)
    listed = json.loads(home.hermes("budget", "runs", "--json").stdout)
    assert [run["tools"] for run in listed] == [0, 3]


def test_a_run_that_is_killed_is_closed_once_at_the_next_start(new_home: NewHome) -> None:
    home = new_home(budget=limits("tool_calls: 40"))
    process = home.start("chat", "-Q", "-q", "[[scene:held]] go")
    home.provider.wait_until_asked(1)
    process.kill()
    process.communicate(timeout=60)
    home.provider.release()
    for _ in range(2):
        home.oneshot("[[scene:text]] hello")
    ends = receipts(home)
    assert sorted(end["cause"] for end in ends) == ["answered", "answered", "crashed"]


def test_no_limit_leaves_the_answer_as_it_is(new_home: NewHome) -> None:
    home = new_home(budget="budgets: {global: {daily_usd: 50}}\n")
    assert "Run:" not in home.chat("[[scene:three_tools]] go")
