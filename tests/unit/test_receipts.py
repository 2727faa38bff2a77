"""What is written down of every run."""

import json
from typing import Any

import pytest

from budget_plugin.policy.runs.endings import Ending, Outcome, Status, TerminalState, ending_of
from budget_plugin.policy.runs.receipts import (
    BudgetUse,
    Receipt,
    Spread,
    from_json,
    rates,
    receipt_of,
    to_json,
)
from budget_plugin.policy.runs.run_budget import RunBudget
from budget_plugin.policy.runs.run_limits import Cause, Meter, RunLimits

GAP = "The surcharge on INV-8871 is not resolved; no reversal was tried."


def a_receipt(limits: RunLimits, charge: dict[str, Any], **said: Any) -> Receipt:
    budget = RunBudget.create(limits, 0.0, run_id="run-1")
    budget.charge(12.5, **charge)
    return budget.resolve(12.5, **said)


FULL = a_receipt(
    RunLimits(dispatches=14, tool_calls=40, cost_nanos=4 * 10**9),
    {"hops": 14, "tool_calls": 38, "calls": 9, "tokens": 777, "cost_nanos": 13 * 10**8},
    delivered=["Refund of £68.40 issued, ref RF-90412."],
    gaps=[GAP],
    next_owner="human_queue:billing",
)


def test_a_receipt_is_one_line_of_json_that_says_how_it_ended_and_what_it_used() -> None:
    text = to_json(FULL)
    assert "\n" not in text
    raw = json.loads(text)
    assert raw["status"] == "partial"
    assert raw["state"] == "ESCALATED_TO_HUMAN"
    assert raw["cause"] == "hop budget"
    assert raw["delivered"] == ["Refund of £68.40 issued, ref RF-90412."]
    assert raw["gaps"] == [GAP]
    assert raw["next_owner"] == "human_queue:billing"
    assert raw["budgets"]["tool_calls"] == {
        "used": 38,
        "limit": 40,
        "peak_pct": 95.0,  # 38 / 40
        "near_miss": True,
    }
    assert raw["budgets"]["usd"]["peak_pct"] == 32.5  # 1.3 / 4
    assert raw["budgets"]["tokens"] == {
        "used": 777,
        "limit": None,
        "peak_pct": None,
        "near_miss": False,
    }
    assert raw["budgets"]["wall_clock_s"]["used"] == 12.5
    counts = {key: raw[key] for key in ("calls", "tools", "dispatches", "cost_nanos")}
    assert counts == {"calls": 9, "tools": 38, "dispatches": 14, "cost_nanos": 1_300_000_000}
    assert raw["near_misses"] == ["tool_calls"]  # the hops did not nearly end it, they did


@pytest.mark.parametrize(
    "receipt",
    [
        FULL,
        a_receipt(RunLimits(), {}),
        Receipt("run-2", ending_of(Outcome.CRASHED), gaps=("all",)),
    ],
)
def test_a_receipt_is_read_back_as_it_was(receipt: Receipt) -> None:
    assert from_json(to_json(receipt)) == receipt


def test_a_receipt_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    raw = json.loads(to_json(FULL)) | {"version": 9, "mood": "good"}
    raw["budgets"]["gpu_s"] = {"used": 1}
    assert from_json(json.dumps(raw)) == FULL


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"run_id":"r","state":"DONE","cause":"x","status":"partial"}',
        '{"run_id":"r","state":"RESOLVED","cause":"hop budget","status":"complete"}',
        '{"run_id":"r","state":"RESOLVED","cause":"answered","status":"complete","budgets":[]}',
    ],
)
def test_what_is_no_receipt_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (the reader's message, ours or JSON's)
        from_json(text)


def test_a_partial_run_always_names_a_gap_and_an_owner_and_a_complete_one_none() -> None:
    partial = a_receipt(RunLimits(tokens=10), {"tokens": 10})
    assert partial.gaps == ("not said; the run ended by: token budget",)
    assert partial.next_owner == "human"
    whole = a_receipt(RunLimits(), {}, delivered=["done"])
    assert (whole.ending.status, whole.gaps, whole.next_owner) == (Status.COMPLETE, (), "")


def test_a_near_miss_is_marked_on_a_complete_run() -> None:
    receipt = a_receipt(RunLimits(tool_calls=41), {"tool_calls": 40})  # 97.6 %
    assert receipt.ending.status is Status.COMPLETE
    assert receipt.near_misses == (Meter.TOOL_CALLS,)


def test_the_steps_are_counted_over_all_their_names() -> None:
    budget = RunBudget.create(RunLimits(), 0.0)
    for head in ("billing", "refunds", "refunds"):
        budget.try_critique(0.0, head)
    budget.report(0.0, rejudges=2)
    assert budget.resolve(0.0).steps == {
        "retries_per_operation": 0,
        "critique_retries": 3,
        "rejudges": 2,
        "retriages": 0,
    }


def of(dispatches: int, ending: Ending, near: bool = False, converged: bool = False) -> Receipt:
    use = BudgetUse(dispatches, 14, None, near)
    return Receipt("r", ending, budgets={Meter.DISPATCHES: use}, converged=converged)


def test_rates_over_many_runs() -> None:
    """100 runs: 98 resolved with 1 to 98 dispatches, one exhausted, one interrupted."""
    done = ending_of(Outcome.ANSWERED)
    runs = [of(number, done, near=number > 93) for number in range(1, 99)]
    runs += [of(99, ending_of(Outcome.ANSWERED, Cause.HOPS), near=True, converged=True)]
    runs += [of(100, ending_of(Outcome.INTERRUPTED))]
    found = rates(runs)
    assert found.runs == 100
    assert (found.partial, found.exhausted, found.converged) == (0.02, 0.01, 0.01)
    assert found.near_miss == 0.05  # 94 to 98; the exhausted one missed nothing
    assert found.states == {
        TerminalState.RESOLVED: 98,
        TerminalState.ESCALATED_TO_HUMAN: 1,
        TerminalState.FOLLOW_UP_TICKET: 1,
    }
    assert found.causes == {"answered": 98, "hop budget": 1, "interrupted": 1}
    assert found.spreads[Meter.DISPATCHES] == Spread(p50=50, p99=99)


@pytest.mark.parametrize(
    ("values", "spread"),
    [([7], Spread(7, 7)), ([1, 9], Spread(1, 9)), ([3, 1, 2], Spread(2, 3))],
)
def test_a_spread_names_values_that_occurred(values: list[int], spread: Spread) -> None:
    done = ending_of(Outcome.ANSWERED)
    assert rates([of(value, done) for value in values]).spreads[Meter.DISPATCHES] == spread


def test_without_a_run_no_rate_is_known() -> None:
    nothing = rates([])
    assert (nothing.runs, nothing.partial, nothing.exhausted, nothing.spreads) == (
        0,
        None,
        None,
        {},
    )


def test_a_receipt_can_be_made_of_a_bare_state() -> None:
    budget = RunBudget.create(RunLimits(tokens=100), 0.0)
    budget.charge(0.0, tokens=5)
    receipt = receipt_of("r", budget.state, ending_of(Outcome.CRASHED), 3.0)
    assert receipt.budgets[Meter.TOKENS] == BudgetUse(5, 100, 5.0)
    assert receipt.ending.cause == "crashed"
