"""Homes, runs and calls to measure with: the budget of a cron child, calls that cost five cents."""

import itertools
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

from budget_plugin.engine.engine import Engine
from budget_plugin.policy.charges import run_scopes
from budget_plugin.policy.events import Call, Cost, CostSource, Run, Usage
from budget_plugin.policy.windows import Window, period

PROVIDER: Final = "bench"
MODEL: Final = "five-cents"
PRICES: Final = f"""\
unit: usd_per_million_tokens
models:
  {PROVIDER}/{MODEL}: {{input: 3.00, output: 15.00}}
"""
ALL_SCOPES: Final = """\
timezone: Europe/Berlin
budgets:
  global:       {daily_usd: 100000, monthly_usd: 1000000}
  per_cron_job: {default: {daily_usd: 100000, monthly_usd: 1000000}}
  per_sender:   {default: {daily_usd: 100000, monthly_usd: 1000000}}
  per_profile:  {default: {daily_usd: 100000, monthly_usd: 1000000}}
"""
"""What covers a cron child: global, job, sender and profile, each by day and by month: 8 totals."""

DAY_MS: Final = 86_400_000
_numbers = itertools.count()


def make_home(folder: Path, budget: str = "") -> Path:
    """A home folder with these limits (none: no budget.yaml at all) and a model of our own."""
    (folder / "budget").mkdir(parents=True, exist_ok=True)
    if budget:
        (folder / "budget" / "budget.yaml").write_text(budget)
    (folder / "budget" / "pricing.yaml").write_text(PRICES)
    return folder


def a_run(now_ms: int, number: int = 0) -> Run:
    """A child of a cron job, charged to everything that there is."""
    return Run(
        run_id=f"run-{number}",
        session_id=f"session-{number}",
        root_run_id=f"run-{number}",
        kind="child",
        started_ms=now_ms,
        cron_job_id=f"job-{number % 7}",
        sender_id=f"telegram:{number % 5}",
        profile="default",
        platform="telegram",
        model=MODEL,
    )


def a_call(run: Run, at_ms: int) -> Call:
    """A call of its own: 12,000 tokens in, 933 out, five cents."""
    return Call(
        attempt_id=f"attempt-{next(_numbers)}",
        run_id=run.run_id,
        at_ms=at_ms,
        provider=PROVIDER,
        model=MODEL,
        response_model=MODEL,
        usage=Usage(input_tokens=12_000, output_tokens=933),
        cost=Cost(49_995_000, CostSource.PRICING, price_id=f"{PROVIDER}/{MODEL}"),
    )


def with_totals(engine: Engine, run: Run) -> None:
    """Have the eight totals of a run's limits built, as its first admission does."""
    for scope in run_scopes(run):
        engine.judge.read_now(scope)


def fill(path: Path, calls: int, now_ms: int) -> None:
    """Write so many calls of the last 300 days into an open ledger, without its totals."""
    runs = max(1, calls // 20)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT OR IGNORE INTO runs (run_id, session_id, root_run_id, kind, started_ms, "
            "cron_job_id, sender_id, profile, platform, model, ended_ms) "
            "VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            _run_rows(runs, now_ms),
        )
        connection.executemany(
            "INSERT INTO calls (attempt_id, run_id, at_ms, provider, model, input_tokens, "
            "output_tokens, cost_nanos, cost_source) VALUES (?,?,?,?,?,?,?,?,?)",
            (
                (
                    *(f"old-{n}", f"run-{n % runs}", now_ms - (n * 300 * DAY_MS) // calls),
                    *(PROVIDER, MODEL, 12_000, 933, 49_995_000, "pricing"),
                )
                for n in reversed(range(calls))
            ),
        )


def _run_rows(runs: int, now_ms: int) -> Iterable[tuple[object, ...]]:
    for number in range(runs):
        run = a_run(now_ms - 300 * DAY_MS, number)
        yield (
            *(run.run_id, run.session_id, run.root_run_id, run.kind, run.started_ms),
            *(run.cron_job_id, run.sender_id, run.profile, run.platform, run.model),
            run.started_ms if number else None,
        )


def add_old_totals(engine: Engine, calls: int) -> None:
    """The day totals that a year of use leaves behind, so that lookups meet a full index."""
    zone, now_ms = engine.rules().zone, engine.clock.now_ms()
    days = [period(Window.DAILY, now_ms - day * DAY_MS, zone) for day in range(1, 300)]
    scopes = [s for n in range(max(1, calls // 50_000)) for s in run_scopes(a_run(now_ms, n))]
    with closing(sqlite3.connect(engine.database.path)) as connection, connection:
        connection.executemany(
            'INSERT OR IGNORE INTO spend_totals (scope, scope_id, "window", start_ms, end_ms) '
            "VALUES (?,?,?,?,?)",
            (
                (str(scope), scope_id, str(day.window), day.start_ms, day.end_ms)
                for scope, scope_id in scopes
                for day in days
            ),
        )
