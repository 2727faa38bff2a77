"""What we paused is resumed at the reset, by the host's own job store; nothing else is touched."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import cron.jobs as host_jobs
import pytest

from budget_plugin.commands import chat, table
from budget_plugin.commands.asking import OK, PROBLEM, Answer, Caller, Host
from budget_plugin.engine.engine import Engine
from budget_plugin.engine.permits import Request
from budget_plugin.hermes import cron_host
from budget_plugin.hermes.cron_jobs import CronJobs
from budget_plugin.hermes.cron_marker import MARKER, marker_due_ms
from budget_plugin.hermes.job_store import HostJobStore
from budget_plugin.policy.events import Call, Cost, CostSource, Run, Usage
from budget_plugin.policy.prices.usage import UsageReport
from budget_plugin.policy.verdicts import Verdict
from budget_plugin.testing import FakeClock, spend

NOON = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() * 1000)
MIDNIGHT = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp() * 1000)
HALF_A_MINUTE_LATER = MIDNIGHT + 30_000
USD = 1_000_000_000
ONE_A_DAY = "timezone: UTC\nbudgets: {per_cron_job: {default: {daily_usd: 1.00}}}\n"


class Cron:
    """An engine, its cron jobs, and the host's job store, in one temporary home."""

    def __init__(self, home: Path, budget: str) -> None:
        (home / "budget").mkdir(parents=True)
        (home / "budget" / "budget.yaml").write_text(budget)
        self.home = home
        self.clock = FakeClock(NOON)
        self.engine = Engine(home, clock=self.clock, local_zone=lambda: ZoneInfo("UTC"))
        self.keeper = CronJobs(self.engine)
        self.engine.on_hard = self._pause_at_once

    def _pause_at_once(self, run: Run, verdict: Verdict) -> None:
        """As `on_hard`, without the thread, so that a test need not wait for it."""
        self.keeper.pause(run, verdict, str(self.home))

    def job(self, schedule: str = "0 9 * * *") -> str:
        job = host_jobs.create_job(prompt="report", schedule=schedule, name="report")
        return str(job["id"])

    def spend(self, job_id: str, usd: float) -> None:
        """One run of the job with one call of this cost."""
        run_id = f"run-{job_id}-{self.clock.now_ms()}"
        run = Run(run_id, f"cron_{job_id}", run_id, "cron", self.clock.now_ms(), job_id)
        live = self.engine.open_run(run)
        cost = Cost(round(usd * USD), CostSource.PROVIDER)
        usage = Usage(input_tokens=1)
        call = Call(f"{run_id}-1", run_id, self.clock.now_ms(), "p", "m", "m", usage, cost)
        self.engine.write_call(live, self.engine.unasked(call.attempt_id), call)
        assert self.engine.recorder.flush(60)

    def state(self, job_id: str) -> str:
        job = host_jobs.get_job(job_id)
        return str(job["state"]) if job else "gone"

    def ours(self) -> list[str]:
        return [pause.cron_job_id for pause in self.engine.journal.pauses()]


@pytest.fixture
def cron(tmp_path: Path) -> Iterator[Any]:
    with host_jobs.use_cron_store(tmp_path):
        made: list[Cron] = []

        def make(budget: str = ONE_A_DAY) -> Cron:
            made.append(Cron(tmp_path, budget))
            return made[-1]

        yield make
        for one in made:
            one.engine.close()


@pytest.mark.case("A50", "T19")
def test_at_the_reset_only_what_we_paused_goes_on(cron: Any) -> None:
    c = cron()
    ours, a_persons = c.job(), c.job()
    host_jobs.pause_job(a_persons, reason="on holiday")
    c.spend(ours, 1.05)
    assert (c.state(ours), c.ours()) == ("paused", [ours])

    assert c.keeper.resume_due() == MIDNIGHT  # not before
    assert c.state(ours) == "paused"

    c.clock.set(HALF_A_MINUTE_LATER)
    assert c.keeper.resume_due() is None
    assert (c.state(ours), c.state(a_persons), c.ours()) == ("scheduled", "paused", [])


def test_a_job_file_that_cannot_be_read_at_the_reset_is_looked_at_again(cron: Any) -> None:
    c = cron()
    job = c.job()
    c.spend(job, 1.05)
    file = c.home / "cron" / "jobs.json"
    whole = file.read_text()
    file.write_text('"jobs"')
    c.clock.set(HALF_A_MINUTE_LATER)
    assert c.keeper.resume_due() == HALF_A_MINUTE_LATER + 60_000
    file.write_text(whole)
    assert c.keeper.resume_due() is None
    assert c.state(job) == "scheduled"


def test_a_limit_of_the_platform_holds_a_job_over_the_reset(cron: Any) -> None:
    c = cron()
    job = c.job()
    c.spend(job, 1.05)
    spend(c.engine, "1.05", platform="cron")
    (c.home / "budget" / "budget.yaml").write_text(
        ONE_A_DAY.rstrip("}\n") + "}}, per_platform: {default: {weekly_usd: 1.00}}}\n"
    )
    c.engine.reload_config()
    assert not c.engine.budget_file.problems
    c.clock.set(HALF_A_MINUTE_LATER)
    assert c.keeper.resume_due() == MIDNIGHT + 6 * 86_400_000  # 30 November was a Monday
    assert (c.state(job), c.ours()) == ("paused", [job])


def test_a_job_that_a_person_paused_again_is_theirs(cron: Any) -> None:
    c = cron()
    job = c.job()
    c.spend(job, 1.05)
    host_jobs.resume_job(job)
    host_jobs.pause_job(job, reason="I want it quiet")
    c.clock.set(HALF_A_MINUTE_LATER)
    c.keeper.resume_due()
    assert (c.state(job), c.ours()) == ("paused", [])


def test_an_edited_job_is_resumed_with_its_new_schedule(cron: Any) -> None:
    c = cron()
    job = c.job("0 9 * * *")
    c.spend(job, 1.05)
    host_jobs.update_job(job, {"schedule": host_jobs.parse_schedule("30 17 * * *")})
    c.clock.set(HALF_A_MINUTE_LATER)
    c.keeper.resume_due()
    resumed = host_jobs.get_job(job)
    assert resumed["state"] == "scheduled"
    assert "17:30" in resumed["next_run_at"]


def say(cron: Cron, text: str) -> Answer:
    """A person's command, with the host's own job store behind it."""
    name, args, _ = chat.parse(text, Caller("owner", "command line"))
    host = Host(jobs=HostJobStore(cron.home, lambda: "default"))
    return table.answer(lambda: cron.engine, name, replace(args, host=host))


def test_a_persons_command_takes_our_pause_over(cron: Any) -> None:
    c = cron()
    job = c.job()
    c.spend(job, 1.05)
    assert c.ours() == [job]
    assert say(c, f"pause {job}").exit_code == OK
    assert (c.state(job), c.ours()) == ("paused", [])
    assert host_jobs.get_job(job)["paused_reason"] == "paused by owner (command line)"
    c.clock.set(HALF_A_MINUTE_LATER)
    assert c.keeper.resume_due() is None
    assert c.state(job) == "paused"
    assert say(c, "resume report").exit_code == OK
    assert c.state(job) == "scheduled"


def test_our_pause_is_lifted_by_a_person_once_the_limit_is_raised(cron: Any) -> None:
    c = cron()
    job = c.job()
    c.spend(job, 1.05)
    assert "The job goes on by itself then." in say(c, f"resume {job}").text
    assert (c.state(job), c.ours()) == ("paused", [job])
    assert say(c, f"set cron_job {job} daily 2").exit_code == OK
    assert say(c, f"resume {job}").exit_code == OK
    assert (c.state(job), c.ours()) == ("scheduled", [])


def test_a_one_shot_whose_time_has_passed_is_not_resumed(cron: Any) -> None:
    c = cron()
    job = c.job("2099-01-01T00:00:00")
    assert say(c, f"pause {job}").exit_code == OK
    jobs = host_jobs.load_jobs()
    jobs[0]["schedule"]["run_at"] = "2020-01-01T00:00:00+00:00"
    host_jobs.save_jobs(jobs)
    answer = say(c, f"resume {job}")
    assert answer.exit_code == PROBLEM
    assert "is in the past" in answer.text
    assert c.state(job) == "paused"


@pytest.mark.parametrize("command", ["pause", "resume", "cron"])
@pytest.mark.parametrize("content", ['{"jobs": 7', '"jobs"'])
def test_a_job_file_that_the_host_cannot_read_is_said(
    cron: Any, command: str, content: str
) -> None:
    c = cron()
    job = c.job()
    c.spend(job, 0.10)
    (c.home / "cron" / "jobs.json").write_text(content)
    answer = say(c, f"{command} {job}")
    assert answer.exit_code == (OK if command == "cron" else PROBLEM)
    assert job in answer.text


@pytest.mark.case("A51")
@pytest.mark.parametrize("deleted", ["before the pause", "before the resume"])
def test_a_deleted_job_is_let_go(cron: Any, deleted: str, caplog: Any) -> None:
    c = cron()
    job = c.job()
    if deleted == "before the pause":
        host_jobs.remove_job(job)
    c.spend(job, 1.05)
    if deleted == "before the resume":
        host_jobs.remove_job(job)
    c.clock.set(HALF_A_MINUTE_LATER)
    assert c.keeper.resume_due() is None
    assert (c.state(job), c.ours()) == ("gone", [])
    assert sum("does not know it" in r.getMessage() for r in caplog.records) <= 1
    spend = c.engine.ledger.spend_between(("cron_job", job), 0, HALF_A_MINUTE_LATER)
    assert spend.certain_nanos == 1_050_000_000  # kept under the job's id


def test_another_limit_that_still_holds_keeps_it_paused(cron: Any) -> None:
    c = cron(
        "timezone: UTC\nbudgets:\n"
        "  per_cron_job: {default: {daily_usd: 1.00}}\n"
        "  global: {monthly_usd: 1.00}\n"
    )
    job = c.job()
    c.spend(job, 1.05)
    # Today's dollar resets at midnight, which is also the end of November; the month decides then.
    c.clock.set(HALF_A_MINUTE_LATER)
    assert c.keeper.resume_due() is None
    assert c.state(job) == "scheduled"

    c.spend(job, 1.05)
    assert c.state(job) == "paused"
    c.clock.set(MIDNIGHT + 24 * 3_600_000 + 30_000)  # 2 December: the day is over, the month not
    new_year = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp() * 1000)
    assert c.keeper.resume_due() == new_year
    assert c.state(job) == "paused"


@pytest.mark.parametrize(
    ("schedule", "made_up"),
    [
        ("0 0 * * *", True),  # fires at the very reset: without us it would run today
        ("0 9 * * *", False),
        ("*/5 * * * *", True),
        ("1 0 * * *", False),  # a minute after: the host will fire it by itself
    ],
)
def test_a_firing_between_the_reset_and_now_is_made_up(
    cron: Any, schedule: str, made_up: bool
) -> None:
    """A daily job at midnight that was resumed at 00:00:30 would otherwise run every other day."""
    c = cron()
    job = host_jobs.get_job(c.job(schedule))
    assert cron_host.fired_between(job, MIDNIGHT, HALF_A_MINUTE_LATER) is made_up


def test_an_interval_job_is_made_up_by_its_own_rhythm() -> None:
    schedule = {"kind": "interval", "minutes": 60}
    last_run = {"last_run_at": "2026-11-30T22:00:10+00:00", "schedule": schedule}
    # 22:00:10 → 23:00:10 → 00:00:10, which lies in the half minute after midnight.
    assert cron_host.fired_between(last_run, MIDNIGHT, HALF_A_MINUTE_LATER)
    later = {"last_run_at": "2026-11-30T22:05:00+00:00", "schedule": schedule}
    assert not cron_host.fired_between(later, MIDNIGHT, HALF_A_MINUTE_LATER)


def test_resuming_by_hand_is_left_to_the_hand(cron: Any) -> None:
    c = cron(ONE_A_DAY + "cron: {resume: manual}\n")
    job = c.job()
    c.spend(job, 1.05)
    c.clock.set(HALF_A_MINUTE_LATER)
    assert c.keeper.resume_due() is None
    assert (c.state(job), c.ours()) == ("paused", [job])


@pytest.mark.case("T18")
def test_a_pause_that_fails_once_is_tried_again(cron: Any, monkeypatch: Any) -> None:
    c = cron()
    job = c.job()
    real, failures = host_jobs.pause_job, [OSError("jobs.json is locked")]

    def pause(job_id: str, reason: str | None = None) -> Any:
        if failures:
            raise failures.pop()
        return real(job_id, reason=reason)

    monkeypatch.setattr(host_jobs, "pause_job", pause)
    c.spend(job, 1.05)
    assert (c.state(job), c.ours()) == ("paused", [job])


@pytest.mark.case("T18")
def test_after_a_raise_the_next_breach_pauses_again(cron: Any) -> None:
    c = cron()
    job = c.job()
    c.spend(job, 1.05)
    (c.home / "budget" / "budget.yaml").write_text(ONE_A_DAY.replace("1.00", "2.00"))
    c.engine.reload_config()
    c.engine.confirm("the owner", "command line")  # an edit that raises a reached limit waits
    host_jobs.resume_job(job)
    c.clock.set(NOON + 60_000)
    c.spend(job, 0.50)  # 1.55 of 2.00
    assert c.state(job) == "scheduled"
    c.clock.set(NOON + 120_000)
    c.spend(job, 0.50)  # 2.05
    assert c.state(job) == "paused"
    (pause,) = c.engine.journal.pauses()
    assert "$2.05 of $2.00" in pause.reason


def test_the_mark_names_the_earliest_reset_and_goes_with_the_last_job(cron: Any) -> None:
    c = cron()
    marker = c.home / "budget" / MARKER
    assert marker_due_ms(marker) is None
    c.spend(c.job(), 1.05)
    assert marker_due_ms(marker) == MIDNIGHT
    c.clock.set(HALF_A_MINUTE_LATER)
    c.keeper.resume_due()
    assert marker_due_ms(marker) is None


def test_the_pause_is_written_after_the_host_has_paused(cron: Any, monkeypatch: Any) -> None:
    """Success is recorded after success: a host that cannot pause leaves no row of ours."""
    c = cron()
    job = c.job()

    def broken(job_id: str, reason: str | None = None) -> Any:
        raise OSError("read-only file system")

    monkeypatch.setattr(host_jobs, "pause_job", broken)
    monkeypatch.setattr("budget_plugin.hermes.cron_jobs._RETRY_PAUSE_S", 0)
    c.spend(job, 1.05)
    assert (c.state(job), c.ours()) == ("scheduled", [])
    rows = sqlite3.connect(c.engine.database.path).execute("SELECT * FROM cron_pauses").fetchall()
    assert rows == []


@pytest.mark.case("T17")
def test_hourly_runs_do_not_each_bill_a_first_call(cron: Any) -> None:
    """24 hourly runs of $0.40 under a global $1.00: two fit, the third is refused and pauses."""
    c = cron("timezone: UTC\nbudgets: {global: {daily_usd: 1.00}}\n")
    # 0.40 $ of input at $4 a million tokens are 100,000 tokens, 400,000 bytes; answers are short.
    (c.home / "budget" / "pricing.yaml").write_text(
        "unit: usd_per_million_tokens\nmodels:\n  m: {input: 4.00, output: 0.01}\n"
    )
    c.clock.set(MIDNIGHT)
    job = c.job("0 * * * *")
    request = Request("p", "m", "", 400_000, None)
    billed = 0
    for hour in range(24):
        c.clock.set(MIDNIGHT + hour * 3_600_000)
        run_id = f"run-{hour}"
        live = c.engine.open_run(
            Run(run_id, f"cron_{job}_{hour}", run_id, "cron", c.clock.now_ms(), job)
        )
        permit = c.engine.admit(live, request)
        if not permit.refused:
            usage = Usage(input_tokens=100_000, output_tokens=10)
            billed += c.engine.record(live, permit, request, UsageReport(usage)).cost.nanos or 0
        c.engine.end_run(live, "completed")
        assert c.engine.recorder.flush(60)
    assert billed == 2 * 400_000_100
    assert c.state(job) == "paused"
    (pause,) = c.engine.journal.pauses()
    assert "Nothing more fits under the daily limit of $1.00" in pause.reason
