"""`cron`: what each job costs, and a word before it fires into a limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.commands.asking import Args, Caller
from budget_plugin.commands.cron import cron
from budget_plugin.commands.forecast import forecast_
from budget_plugin.commands.status import status
from budget_plugin.engine.engine import Engine
from budget_plugin.policy.job_costs import JobRun, job_costs, would_not_fit
from budget_plugin.policy.limits import Limit, Measure, OnEstimated, Scope, Thresholds
from budget_plugin.policy.verdicts import Spend, Verdict, evaluate
from budget_plugin.policy.windows import Period, Window
from budget_plugin.store.journal import Pause
from budget_plugin.testing import FakeClock, at, make_engine, make_run, spend

USD = 1_000_000_000
DAY = Period(Window.DAILY, 0, 1, "2026-11-30")
YAML = "timezone: UTC\nbudgets: {per_cron_job: {default: {daily_usd: 1.00}}}\n"


def runs(*usd: float) -> list[JobRun]:
    return [JobRun(n, round(cost * USD), 1) for n, cost in enumerate(usd)]


@pytest.mark.parametrize(
    ("usd", "mean", "worst", "recent"),
    [
        ((0.40,), 0.40, 0.40, 0.40),
        ((0.10, 0.30), 0.20, 0.30, 0.20),
        # the mean of all seven is $1.00, that of the last five $0.20
        ((3.00, 3.00, 0.20, 0.20, 0.20, 0.20, 0.20), 1.00, 3.00, 0.20),
    ],
)
def test_costs_of_a_job(usd: Any, mean: float, worst: float, recent: float) -> None:
    costs = job_costs(runs(*usd))
    assert (costs.mean_nanos, costs.worst_nanos) == (round(mean * USD), round(worst * USD))
    assert costs.recent_mean_nanos == round(recent * USD)
    assert costs.last == runs(*usd)[-1]


def verdict(limit: float, spent: float, measure: Measure = Measure.USD) -> Verdict:
    return evaluate(
        Limit(Scope.CRON_JOB, "j", Window.DAILY, measure, round(limit * USD)),
        Spend(certain_nanos=round(spent * USD)),
        DAY,
        Thresholds(),
        OnEstimated.WARN_ONLY,
    )


def test_a_run_that_will_not_fit_is_known_before_it_fires() -> None:
    costs = job_costs(runs(0.40, 0.40))
    assert would_not_fit(costs, [verdict(1.00, 0.60)]) is None  # 0.40 is left: it just fits
    short = verdict(1.00, 0.61)
    tightest = verdict(1.00, 0.70)
    assert would_not_fit(costs, [verdict(9.00, 0.70), short, tightest]) is tightest
    assert would_not_fit(job_costs([]), [short]) is None  # it never ran: nobody can say


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return make_engine(tmp_path, YAML, FakeClock(at("2026-11-30 12:00")))


def ask(engine: Engine, *words: str) -> Any:
    answer = cron(engine, Args(Caller("me", "command line"), words))
    return replace(answer, text=answer.in_a_chat())


def test_a_job_with_its_children(engine: Engine) -> None:
    root = make_run(cron_job_id="nightly", kind="cron")
    spend(engine, "0.40", run=root, at_ms=at("2026-11-30 06:00"))
    child = make_run(cron_job_id="nightly", kind="child", root_run_id=root.run_id)
    spend(engine, "0.05", run=child, at_ms=at("2026-11-30 06:01"))
    spend(engine, "0.15", cron_job_id="nightly", at_ms=at("2026-11-30 07:00"))
    answer = ask(engine)
    assert answer.text.splitlines() == [
        "nightly",
        "  last run $0.15, 2026-11-30 07:00",
        "  mean $0.30, worst $0.45",
        "  this month $0.60",
        "  daily $0.60 of $1.00, resets",
        "    2026-12-01 00:00",
    ]
    (data,) = answer.data
    assert (data["runs"], data["mean_usd"], data["next_run_fits"]) == (2, "0.3", True)


def test_the_next_run_is_said_not_to_fit(engine: Engine) -> None:
    spend(engine, "0.60", cron_job_id="nightly")
    answer = ask(engine)
    said = " ".join(answer.text.split())
    assert (
        "The next run will likely be stopped: its last runs cost $0.60 each, and $0.40 is left "
        "of the daily limit."
    ) in said
    assert answer.data[0]["next_run_fits"] is False


@pytest.mark.parametrize("report", [status, forecast_])
def test_other_reports_say_it_too(engine: Engine, report: Any) -> None:
    spend(engine, "0.60", cron_job_id="nightly")
    words = ("cron_job", "nightly") if report is forecast_ else ()
    text = report(engine, Args(Caller("me", "command line"), words)).in_a_chat()
    assert "nightly: The next run will likely be stopped" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 40


def test_why_a_job_is_paused_and_until_when(engine: Engine) -> None:
    spend(engine, "1.05", cron_job_id="nightly")
    until = at("2026-12-01 00:00")
    pause = Pause(
        "nightly", 0, until, "budget: it is spent.", Scope.CRON_JOB, "nightly", Window.DAILY, ""
    )
    engine.journal.note_pause(pause, 10.0)
    lines = ask(engine, "nightly").text.splitlines()
    assert lines[-3:] == ["  paused by the budget until 2026-12-01", "    00:00", "  It is spent."]
    assert ask(engine, "another").text == "No cron job has run in the last 30 days."
