"""Many sessions at once, of several people on several profiles, in threads and in processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

from budget_plugin.engine.engine import Engine
from budget_plugin.policy.limits import Scope
from budget_plugin.testing import FakeClock

NOON = 1_796_040_000_000  # 2026-11-30T12:00Z
PROCESSES, SESSIONS, SENDERS, PROFILES, CALLS = 4, 40, 8, 3, 5
COST_NANOS = 5_000_000

BUDGET = """
timezone: UTC
budgets:
  global: {daily_usd: 1000, monthly_usd: 1000}
  per_sender: {default: {daily_usd: 1000}}
  per_profile: {default: {daily_usd: 1000}}
"""

# Session n is of sender n % 8 on profile n % 3; each makes five calls of half a cent.
PROCESS = f"""
import sys, threading
from pathlib import Path
from zoneinfo import ZoneInfo
from budget_plugin.engine.engine import Engine
from budget_plugin.engine.permits import Request
from budget_plugin.policy.events import (Run, Usage)
from budget_plugin.policy.prices.usage import UsageReport
from budget_plugin.testing import FakeClock

engine = Engine(Path(sys.argv[1]), clock=FakeClock({NOON}), local_zone=lambda: ZoneInfo("UTC"))
request = Request("p", "m", "", 400, 100)

def session(n):
    run_id = f"{{sys.argv[2]}}-{{n}}"
    live = engine.open_run(
        Run(run_id, run_id, run_id, "chat", {NOON}, sender_id=f"telegram:{{n % {SENDERS}}}",
            profile=f"profile{{n % {PROFILES}}}", platform="telegram")
    )
    for _ in range({CALLS}):
        permit = engine.admit(live, request)
        assert not permit.refused
        report = UsageReport(Usage(100, 20), provider_cost_nanos={COST_NANOS})
        engine.record(live, permit, request, report)
    engine.end_run(live, "completed")

threads = [threading.Thread(target=session, args=(n,)) for n in range({SESSIONS})]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert engine.recorder.flush(60)
"""


def test_totals_per_scope_equal_the_sums_of_the_rows(tmp_path: Path) -> None:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "budget.yaml").write_text(BUDGET)
    command = [sys.executable, "-c", PROCESS, str(tmp_path)]
    running = [subprocess.Popen([*command, f"process{n}"]) for n in range(PROCESSES)]
    assert [process.wait() for process in running] == [0] * PROCESSES

    engine = Engine(tmp_path, clock=FakeClock(NOON), local_zone=lambda: ZoneInfo("UTC"))
    compared, differences = engine.ledger.verify()
    assert differences == []
    # global × day and month, 8 senders, 3 profiles
    assert compared == 2 + SENDERS + PROFILES

    all_calls = PROCESSES * SESSIONS * CALLS
    everything = engine.judge.read_now((Scope.GLOBAL, ""))
    assert {v.spend.certain_nanos for v in everything} == {all_calls * COST_NANOS}
    for n in range(SENDERS):
        (verdict,) = engine.judge.read_now((Scope.SENDER, f"telegram:{n}"))
        assert verdict.spend.calls == all_calls // SENDERS
    # 40 sessions on 3 profiles: 14, 13 and 13 of them
    profiles = [engine.judge.read_now((Scope.PROFILE, f"profile{n}"))[0] for n in range(PROFILES)]
    assert [v.spend.calls for v in profiles] == [PROCESSES * CALLS * n for n in (14, 13, 13)]
    engine.close()
