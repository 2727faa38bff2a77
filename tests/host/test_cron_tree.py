"""A cron job that delegates to children which delegate again: one purse, one gate, one reset."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.host.hermes_home import HermesHome

NewHome = Callable[..., HermesHome]

ROOMY = """
timezone: UTC
budgets:
  per_cron_job: {default: {daily_usd: 50}}
  per_profile: {default: {daily_usd: 50}}
  per_platform: {default: {daily_usd: 50}}
  global: {daily_usd: 50}
"""


@pytest.mark.case("A45", "T11")
def test_every_call_of_the_tree_carries_the_roots_scopes(new_home: NewHome) -> None:
    home = new_home(budget=ROOMY)
    job_id = home.cron_create("[[scene:delegate_two_deep]] report", "deep report")
    home.cron_tick()
    sql = (
        "SELECT cron_job_id, profile, platform, root_run_id, COUNT(*) AS calls "
        "FROM calls JOIN runs USING (run_id) GROUP BY 1, 2, 3, 4"
    )
    (purse,) = home.ledger(sql)
    assert (purse["cron_job_id"], purse["platform"]) == (job_id, "cron")
    # The root 2 calls, two children 2 each, a grandchild of each 2: ten in all.
    assert purse["calls"] == len(home.provider_calls()) == 10
    totals = home.ledger("SELECT scope, certain_nanos FROM spend_totals")
    billed = home.billed_nanos()
    assert {(t["scope"], t["certain_nanos"]) for t in totals} == {
        (scope, billed) for scope in ("global", "cron_job", "profile", "platform")
    }


@pytest.mark.case("T12")
@pytest.mark.parametrize("scope", ["per_cron_job", "per_profile"])
def test_a_breach_in_a_grandchild_ends_the_whole_tree(new_home: NewHome, scope: str) -> None:
    home = new_home(
        budget=f"timezone: UTC\nbudgets: {{{scope}: {{default: {{daily_usd: 0.50}}}}}}\n",
        sized=True,
    )
    job_id = home.cron_create("[[scene:delegate_deep_runaway]] report", "deep report")
    home.cron_tick()
    assert home.billed_nanos() <= 500_000_000
    assert home.recorded_nanos() == home.billed_nanos()
    assert Counter(call["scene"] for call in home.provider_calls())["runaway"] >= 2
    assert home.cron_job(job_id)["state"] == "paused"


@pytest.mark.case("T19")
def test_after_the_reset_the_job_fires_again(new_home: NewHome) -> None:
    """Not the clock but the reset is moved: spend of yesterday, a pause until a minute ago."""
    home = new_home(budget="timezone: UTC\nbudgets: {per_cron_job: {default: {daily_usd: 0.50}}}\n")
    job_id = home.cron_create("[[scene:costly]] report", "dear report")
    home.cron_tick()
    assert home.cron_job(job_id)["state"] == "paused"

    yesterday_ms, a_minute_ago_s = 86_400_000, time.time() - 60
    ledger = sqlite3.connect(home.budget_dir / "ledger.db")
    with ledger:
        ledger.execute("UPDATE calls SET at_ms = at_ms - ?", [yesterday_ms])
        ledger.execute("DELETE FROM spend_totals")
        ledger.execute("UPDATE cron_pauses SET until_ms = ?", [int(a_minute_ago_s * 1000)])
    ledger.close()
    os.utime(home.budget_dir / "cron-resume-due", (a_minute_ago_s, a_minute_ago_s))

    home.hermes("cron", "tick")  # a process that begins resumes what is due
    assert home.cron_job(job_id)["state"] == "scheduled"
    assert home.ledger("SELECT * FROM cron_pauses") == []
    home.cron_tick()
    assert len(home.provider_calls()) == 2
