"""A cron job over its limit is paused through the host, with the reason, and is not fired again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.host.hermes_home import HermesHome

NewHome = Callable[..., HermesHome]

PER_JOB = "timezone: UTC\nbudgets: {per_cron_job: {default: {daily_usd: 0.50}}}\n"
GLOBAL = "timezone: UTC\nbudgets: {global: {daily_usd: 0.50}}\n"


def delivered(home: HermesHome, job_id: str) -> str:
    """What the owner of the job reads."""
    files = sorted((home.home / "cron" / "output" / job_id).glob("*.md"))
    return files[-1].read_text() if files else ""


def assert_paused(home: HermesHome, job_id: str, scope: str) -> None:
    job = home.cron_job(job_id)
    assert (job["enabled"], job["state"]) == (False, "paused")
    assert "$0.50" in job["paused_reason"]
    (pause,) = home.ledger("SELECT * FROM cron_pauses WHERE cron_job_id = ?", [job_id])
    assert pause["scope"] == scope
    assert pause["until_ms"] > pause["paused_ms"]


@pytest.mark.parametrize(
    ("budget", "scope"), [(PER_JOB, "cron_job"), (GLOBAL, "global")], ids=["own limit", "global"]
)
def test_a_breach_pauses_the_job_and_the_next_tick_does_not_fire_it(
    new_home: NewHome, budget: str, scope: str
) -> None:
    home = new_home(budget=budget)
    job_id = home.cron_create("[[scene:costly]] report", "dear report")
    home.cron_tick()
    assert_paused(home, job_id, scope)
    assert "expensive" in delivered(home, job_id)  # this run had its answer already

    home.cron_tick()
    assert len(home.provider_calls()) == 1
    assert home.recorded_nanos() == home.billed_nanos()


def test_the_running_session_is_blocked_too(new_home: NewHome) -> None:
    home = new_home(budget=PER_JOB)
    job_id = home.cron_create("[[scene:costly_then_tools]] report", "dear report")
    home.cron_tick()
    assert_paused(home, job_id, "cron_job")
    assert len(home.provider_calls()) == 1
    assert "$0.50" in delivered(home, job_id)


def test_a_runaway_job_stays_under_its_limit(new_home: NewHome) -> None:
    home = new_home(budget=PER_JOB, sized=True)
    job_id = home.cron_create("[[scene:runaway]] report", "endless report")
    home.cron_tick()
    assert_paused(home, job_id, "cron_job")
    assert home.billed_nanos() <= 500_000_000
    assert home.recorded_nanos() == home.billed_nanos()


@pytest.mark.case("T17")
def test_a_spent_global_limit_pauses_a_job_before_it_bills(new_home: NewHome) -> None:
    home = new_home(budget=GLOBAL)
    home.oneshot("[[scene:costly]] by a person")
    job_id = home.cron_create("[[scene:cron_report]] report", "cheap report")
    home.cron_tick()
    assert [call["scene"] for call in home.provider_calls()] == ["costly"]
    assert_paused(home, job_id, "global")
    assert "$0.50" in delivered(home, job_id)


def test_a_job_pays_for_itself_alone(new_home: NewHome) -> None:
    home = new_home(budget=PER_JOB)
    dear = home.cron_create("[[scene:costly]] report", "dear report")
    cheap = home.cron_create("[[scene:cron_report]] report", "cheap report")
    home.cron_tick()
    assert_paused(home, dear, "cron_job")
    assert home.cron_job(cheap)["enabled"]
    runs = home.ledger("SELECT DISTINCT cron_job_id FROM runs ORDER BY cron_job_id")
    assert [run["cron_job_id"] for run in runs] == sorted([dear, cheap])


@pytest.mark.case("A49", "T13")
def test_the_job_is_known_from_the_session_id(new_home: NewHome) -> None:
    home = new_home(budget=PER_JOB)
    job_id = home.cron_create("[[scene:cron_report]] report", "report")
    home.cron_tick()
    (run,) = home.ledger("SELECT * FROM runs")
    assert run["session_id"].startswith(f"cron_{job_id}_")
    assert (run["cron_job_id"], run["kind"], run["platform"]) == (job_id, "cron", "cron")


def test_an_override_by_job_id_beats_the_default(new_home: NewHome) -> None:
    home = new_home()
    job_id = home.cron_create("[[scene:costly]] report", "dear report")
    home.write_budget(
        "timezone: UTC\n"
        "budgets:\n"
        "  per_cron_job:\n"
        "    default: {daily_usd: 0.50}\n"
        f"    overrides: {{'{job_id}': {{daily_usd: 5.00}}}}\n"
    )
    home.cron_tick()
    assert home.cron_job(job_id)["enabled"]


def test_without_pausing_only_the_session_is_blocked(new_home: NewHome) -> None:
    home = new_home(budget=f"{PER_JOB}cron: {{pause: false}}\n")
    job_id = home.cron_create("[[scene:costly]] report", "dear report")
    home.cron_tick()
    home.cron_tick()
    assert home.cron_job(job_id)["enabled"]
    assert len(home.provider_calls()) == 1


def test_a_person_pauses_and_resumes_a_job(new_home: NewHome) -> None:
    home = new_home(budget=PER_JOB)
    job_id = home.cron_create("[[scene:cron_report]] report", "Morning Report")
    done = home.hermes("budget", "pause", "morning", "report")
    assert (done.returncode, f"Morning Report ({job_id}) is paused." in done.stdout) == (0, True)
    job = home.cron_job(job_id)
    assert (job["enabled"], job["paused_reason"][:10]) == (False, "paused by ")
    home.cron_tick()
    assert home.provider_calls() == []

    (said,) = home.turns("/budget resume morning report")
    assert "is resumed" in " ".join(said.split())
    home.cron_tick()
    assert len(home.provider_calls()) == 2
