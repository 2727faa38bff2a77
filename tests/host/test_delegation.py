"""A child's spend is its root's: charged to it, and gated by everything that gates the root."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.host.hermes_home import HermesHome

NewHome = Callable[..., HermesHome]

ROOMY = (
    "timezone: UTC\nbudgets: {global: {daily_usd: 50}, per_cron_job: {default: {daily_usd: 50}}}\n"
)


def runs_by_id(home: HermesHome) -> dict[str, dict[str, Any]]:
    return {run["run_id"]: run for run in home.ledger("SELECT * FROM runs")}


def family(home: HermesHome) -> list[tuple[str, str]]:
    """(parent session, child session) of every edge."""
    sql = (
        "SELECT runs.session_id AS parent, child_session_id AS child FROM subagent_edges "
        "JOIN runs ON runs.run_id = parent_run_id"
    )
    return [(edge["parent"], edge["child"]) for edge in home.ledger(sql)]


def assert_one_root(home: HermesHome) -> str:
    """Every run hangs at the same root run; returns it."""
    runs = runs_by_id(home)
    (root_id,) = {run["root_run_id"] for run in runs.values()}
    assert runs[root_id]["root_run_id"] == root_id
    assert {run["kind"] for key, run in runs.items() if key != root_id} == {"child"}
    return root_id


@pytest.mark.parametrize("background", [False, True])
def test_two_children_are_charged_to_their_parent(new_home: NewHome, background: bool) -> None:
    home = new_home(budget=ROOMY)
    play = home.turns if background else home.oneshot
    play("[[scene:delegate_two]] go")
    root_id = assert_one_root(home)
    assert len(runs_by_id(home)) == 3
    root_session = runs_by_id(home)[root_id]["session_id"]
    assert [parent for parent, _ in family(home)] == [root_session] * 2
    sql = "SELECT run_id, COUNT(*) AS n FROM calls GROUP BY run_id"
    assert Counter(row["n"] for row in home.ledger(sql)) == Counter({2: 3})
    assert home.recorded_nanos() == home.billed_nanos()


def test_a_grandchild_has_the_same_root(new_home: NewHome) -> None:
    home = new_home(budget=ROOMY)
    home.oneshot("[[scene:delegate_deep]] go")
    assert_one_root(home)
    (upper, lower) = sorted(family(home), key=lambda edge: edge[0] in dict(family(home)).values())
    assert lower[0] == upper[1]  # a chain, not two children of one


@pytest.mark.case("A45", "T11")
@pytest.mark.parametrize("scene", ["delegate_one", "delegate_two", "delegate_deep"])
def test_children_of_a_cron_job_are_charged_to_the_job(new_home: NewHome, scene: str) -> None:
    home = new_home(budget=ROOMY)
    job_id = home.cron_create(f"[[scene:{scene}]] report", "delegating report")
    home.cron_tick()
    assert_one_root(home)
    assert {run["cron_job_id"] for run in runs_by_id(home).values()} == {job_id}
    (total,) = home.ledger(
        "SELECT * FROM spend_totals WHERE scope = 'cron_job' AND scope_id = ?", [job_id]
    )
    assert total["certain_nanos"] == home.billed_nanos() > 0
    assert total["calls"] == len(home.provider_calls())


@pytest.mark.case("T12")
@pytest.mark.parametrize("scope", ["global", "per_cron_job"])
def test_a_runaway_child_is_gated_by_the_jobs_limit(new_home: NewHome, scope: str) -> None:
    limit = {"global": "{daily_usd: 0.50}", "per_cron_job": "{default: {daily_usd: 0.50}}"}[scope]
    home = new_home(budget=f"timezone: UTC\nbudgets: {{{scope}: {limit}}}\n", sized=True)
    job_id = home.cron_create("[[scene:delegate_runaway]] report", "delegating report")
    home.cron_tick()
    assert home.billed_nanos() <= 500_000_000
    assert home.recorded_nanos() == home.billed_nanos()
    assert Counter(call["scene"] for call in home.provider_calls())["runaway"] >= 2
    assert not home.cron_job(job_id)["enabled"]


def test_a_child_of_a_chat_is_gated_too(new_home: NewHome) -> None:
    home = new_home(budget="timezone: UTC\nbudgets: {global: {daily_usd: 0.50}}\n", sized=True)
    home.oneshot("[[scene:delegate_runaway]] go")
    assert home.billed_nanos() <= 500_000_000
    assert home.recorded_nanos() == home.billed_nanos()


@pytest.mark.case("A46")
def test_a_failed_child_still_costs(new_home: NewHome) -> None:
    home = new_home(budget=ROOMY)
    home.oneshot("[[scene:delegate_failing]] go")
    assert_one_root(home)
    assert [c["status"] for c in home.provider_calls() if c["scene"] == "child_fails"] == [200, 400]
    assert home.recorded_nanos() == home.billed_nanos()
