"""Who is charged for a call, and with what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from budget_plugin.policy.charges import call_scopes, minus, run_scopes, spend_of
from budget_plugin.policy.events import Call, Cost, CostSource, Run, Usage
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.verdicts import NOTHING_SPENT, Spend

RUN = Run(
    run_id="r",
    session_id="s",
    root_run_id="r",
    kind="child",
    started_ms=0,
    cron_job_id="nightly",
    sender_id="telegram:1",
    profile="work",
    platform="telegram",
)
CALL = Call(
    attempt_id="a",
    run_id="r",
    at_ms=0,
    provider="anthropic",
    model="claude-sonnet-4-5",
    response_model="",
    usage=Usage(5, 600, 1_000, 10_000, 2_000, reasoning_tokens=550),
    cost=Cost(46_515_000, CostSource.PRICING),
)


@pytest.mark.case("T11")
def test_a_call_is_charged_to_every_scope_of_its_run_and_to_its_model() -> None:
    assert call_scopes(RUN, "m") == (
        (Scope.GLOBAL, ""),
        (Scope.CRON_JOB, "nightly"),
        (Scope.SENDER, "telegram:1"),
        (Scope.PROFILE, "work"),
        (Scope.PLATFORM, "telegram"),
        (Scope.MODEL, "m"),
    )
    assert call_scopes(RUN, "") == run_scopes(RUN)


def test_an_empty_id_is_nobodys_and_everything_is_everybodys() -> None:
    nobody = replace(RUN, cron_job_id="", sender_id="", profile="", platform="")
    assert run_scopes(nobody) == ((Scope.GLOBAL, ""),)


@pytest.mark.case("T03", "A03")
def test_each_token_counts_once() -> None:
    """5 + 1,000 + 10,000 + 2,000 in, 600 out; the 550 reasoned ones are inside the 600."""
    assert spend_of(CALL) == Spend(certain_nanos=46_515_000, tokens=13_605, calls=1)


def test_a_guess_is_kept_apart() -> None:
    guessed = replace(CALL, cost=replace(CALL.cost, estimated=True))
    assert spend_of(guessed) == Spend(
        estimated_nanos=46_515_000, tokens=13_605, calls=1, estimated_calls=1
    )


@pytest.mark.case("A10", "T04")
def test_what_nobody_knows_is_counted_as_unknown() -> None:
    unpriced = replace(CALL, cost=Cost(None, CostSource.UNPRICED))
    assert spend_of(unpriced) == Spend(tokens=13_605, calls=1, unpriced_calls=1)


def test_free_is_known_to_be_nothing() -> None:
    free = replace(CALL, cost=Cost(0, CostSource.FREE))
    assert spend_of(free) == Spend(tokens=13_605, calls=1)


def test_taking_away_what_was_added_leaves_nothing() -> None:
    for call in (CALL, replace(CALL, cost=Cost(None, CostSource.UNPRICED))):
        assert spend_of(call) + minus(spend_of(call)) == NOTHING_SPENT
