"""Five conditions in strict order, four numbers that are never reset."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budget_plugin.policy.continuation import NUDGE, Condition, Continuation, Decision, decide

FLAT = Continuation(3, 400, 5_000, 1.0)
"""Sent on three times, and not much came of the last."""


def look(
    state: Continuation = FLAT,
    tokens: int = 5_400,
    budget: int | None = 100_000,
    subagent: str | None = None,
    now_s: float = 60.0,
) -> Decision:
    return decide(state, subagent=subagent, budget_tokens=budget, turn_tokens=tokens, now_s=now_s)


@pytest.mark.parametrize(
    ("subagent", "budget", "tokens", "state", "condition"),
    [
        # each row leaves out the first reason of the row above
        ("reviewer", None, 99_999, FLAT, Condition.NAMED_SUBAGENT),
        (None, None, 99_999, FLAT, Condition.NO_BUDGET),
        ("", 0, 99_999, FLAT, Condition.NO_BUDGET),
        (None, 5_500, 5_400, FLAT, Condition.DIMINISHING_RETURNS),
        (None, 5_500, 5_400, Continuation(2, 400, 5_000, 1.0), Condition.BUDGET_USED),
        (None, 100_000, 5_400, Continuation(2, 400, 5_000, 1.0), Condition.GOES_ON),
    ],
)
def test_the_first_condition_that_holds_decides(
    subagent: str | None,
    budget: int | None,
    tokens: int,
    state: Continuation,
    condition: Condition,
) -> None:
    assert look(state, tokens, budget, subagent).condition is condition


def test_what_was_written_counts_where_it_is_known() -> None:
    """Each call counts its whole prompt again: 5,000 tokens more, of which 40 are new."""
    said = {"subagent": None, "budget_tokens": 100_000, "turn_tokens": 10_000, "now_s": 60.0}
    assert decide(FLAT, **said).condition is Condition.GOES_ON
    ended = decide(FLAT, **said, new_tokens=40)
    assert ended.condition is Condition.DIMINISHING_RETURNS
    assert ended.state.last_delta_tokens == 40


@pytest.mark.parametrize(
    ("count", "delta", "condition"),
    [
        (3, 499, Condition.DIMINISHING_RETURNS),
        (3, 500, Condition.GOES_ON),
        (2, 0, Condition.GOES_ON),
        (4, 0, Condition.DIMINISHING_RETURNS),
    ],
)
def test_diminishing_returns_begin_at_three_and_under_500(
    count: int, delta: int, condition: Condition
) -> None:
    state = Continuation(count, 9_000, 5_000, 1.0)
    assert look(state, 5_000 + delta).condition is condition


@pytest.mark.parametrize(
    ("tokens", "condition"),
    [(89_999, Condition.GOES_ON), (90_000, Condition.BUDGET_USED)],
)
def test_the_last_tenth_is_not_used(tokens: int, condition: Condition) -> None:
    assert look(Continuation(), tokens).condition is condition


def test_a_run_that_goes_flat_is_sent_on_three_times() -> None:
    state, ends = Continuation(), []
    for tokens in (4_000, 4_300, 4_600, 4_900, 5_200):
        decision = look(state, tokens, now_s=float(tokens))
        state = decision.state
        ends.append(decision.condition)
        if not decision.goes_on:
            break
    assert ends == [Condition.GOES_ON] * 3 + [Condition.DIMINISHING_RETURNS]
    assert state == Continuation(3, 300, 4_900, 4_000.0)


def test_going_on_comes_with_the_nudge_and_ending_with_a_receipt() -> None:
    on, off = look(Continuation(), 1_000), look(now_s=90.0)
    assert (on.goes_on, on.nudge, on.termination) == (True, NUDGE, None)
    assert (off.goes_on, off.nudge) == (False, "")
    receipt = off.termination
    assert receipt is not None
    assert receipt.condition is Condition.DIMINISHING_RETURNS
    assert (receipt.continuation_count, receipt.last_delta_tokens) == (3, 400)
    assert (receipt.turn_tokens, receipt.budget_tokens, receipt.used_pct) == (5_400, 100_000, 5)
    assert (receipt.started_at, receipt.ended_at) == (1.0, 90.0)


def test_without_a_budget_there_is_no_share() -> None:
    ended = look(budget=None).termination
    assert ended is not None
    assert ended.used_pct is None


def test_the_nudge_keeps_working_and_names_no_number() -> None:
    assert "Keep working" in NUDGE
    assert "Do not summarise" in NUDGE
    assert not any(char.isdigit() for char in NUDGE)


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(st.integers(0, 200_000), min_size=1), st.integers(1, 200_000))
def test_the_state_never_goes_back(turns: list[int], budget: int) -> None:
    states = [Continuation()]
    for now_s, tokens in enumerate(turns, start=1):
        states.append(look(states[-1], tokens, budget, now_s=float(now_s)).state)
    for before, after in pairwise(states):
        assert after.continuation_count >= before.continuation_count
        assert after.last_global_turn_tokens >= before.last_global_turn_tokens
        assert after.last_delta_tokens >= 0
    assert {state.started_at for state in states[1:]} == {1.0}
