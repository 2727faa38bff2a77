"""`pause` and `resume`: whose pause it is, and what a reached limit says to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from budget_plugin.commands import chat, table
from budget_plugin.commands.asking import (
    OK,
    PROBLEM,
    USAGE,
    Answer,
    Caller,
    CronJob,
    Host,
    JobStoreError,
)
from budget_plugin.engine.engine import Engine
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.windows import END_OF_TIME_MS, Window
from budget_plugin.store.journal import Pause
from budget_plugin.testing import FakeClock, at, make_engine, spend

OWNER = Caller("owner", "command line")
ID = "3f2a91c0"
YAML = (
    "timezone: UTC\nbudgets:\n"
    "  per_cron_job: {default: {daily_usd: 1.00}}\n"
    "  per_platform: {default: {daily_usd: 5.00}}\n"
)
STAMP = "2026-11-30T11:00:00+00:00"


@dataclass
class Store:
    """The host's jobs; every pause gets a stamp of its own."""

    jobs: dict[str, CronJob] = field(default_factory=dict)
    broken: str = ""

    def find(self, job_id: str) -> CronJob | None:
        return self.jobs.get(job_id)

    def pause(self, job_id: str, why: str) -> None:
        self._change(job_id, paused=True, paused_at="a person's", paused_why=why)

    def resume(self, job_id: str) -> None:
        self._change(job_id, paused=False, paused_at="", paused_why="")

    def _change(self, job_id: str, **fields: object) -> None:
        if self.broken:
            raise JobStoreError(self.broken)
        self.jobs[job_id] = replace(self.jobs[job_id], **fields)  # type: ignore[arg-type]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    named = [{"id": ID, "name": "Nightly Report"}, {"id": "77aa0011", "name": "weekly report"}]
    (tmp_path / "cron").mkdir()
    (tmp_path / "cron" / "jobs.json").write_text(json.dumps({"jobs": named}))
    engine = make_engine(tmp_path, YAML, FakeClock(at("2026-11-30 12:00")))
    yield engine
    engine.close()


@pytest.fixture
def store() -> Store:
    return Store({ID: CronJob(ID), "77aa0011": CronJob("77aa0011")})


def say(engine: Engine, store: Store | None, text: str, caller: Caller = OWNER) -> Answer:
    name, args, _ = chat.parse(text, caller)
    return table.answer(lambda: engine, name, replace(args, host=Host(jobs=store)))


def paused_by_us(engine: Engine, store: Store, window: Window = Window.DAILY) -> None:
    """As after a breach: the host has our note, and the ledger its stamp."""
    why = "budget: The daily limit is reached."
    store.jobs[ID] = CronJob(ID, paused=True, paused_at=STAMP, paused_why=why)
    until_ms = END_OF_TIME_MS if window is Window.TOTAL else at("2026-12-01 00:00")
    pause = Pause(ID, 0, until_ms, why, Scope.CRON_JOB, ID, window, STAMP)
    engine.journal.note_pause(pause, 10.0)


def ours(engine: Engine) -> list[str]:
    assert engine.recorder.flush(60)
    return [pause.cron_job_id for pause in engine.journal.pauses()]


# ---------------------------------------------------------------------- pause


@pytest.mark.parametrize("called", [ID, "nightly report", '"Nightly Report"', f"--id {ID}"])
def test_a_person_pauses_by_id_or_name(engine: Engine, store: Store, called: str) -> None:
    answer = say(engine, store, f"pause {called}")
    assert answer.text == (
        f"Nightly Report ({ID}) is paused.\nTo let it go on: hermes budget resume {ID}"
    )
    assert store.jobs[ID].paused_why == "paused by owner (command line)"
    assert (answer.exit_code, ours(engine)) == (OK, [])
    assert answer.data == {
        "job": ID,
        "name": "Nightly Report",
        "paused": True,
        "changed": True,
        "held_by": None,
        "until_ms": None,
    }


def test_a_job_of_ours_becomes_a_persons(engine: Engine, store: Store) -> None:
    paused_by_us(engine, store)
    answer = say(engine, store, f"pause {ID}")
    assert "does not go on at the reset any more" in answer.text
    assert (store.jobs[ID].paused_at, ours(engine)) == ("a person's", [])


def test_a_persons_pause_keeps_its_note(engine: Engine, store: Store) -> None:
    store.jobs[ID] = CronJob(ID, paused=True, paused_at="x", paused_why="on holiday")
    answer = say(engine, store, f"pause {ID}")
    assert answer.text == f"Nightly Report ({ID}) is paused already: on holiday"
    assert answer.exit_code == OK
    assert store.jobs[ID].paused_why == "on holiday"


def test_a_pause_whose_stamp_is_not_ours_is_a_persons(engine: Engine, store: Store) -> None:
    """Resumed and paused again by hand, with our very words."""
    paused_by_us(engine, store)
    store.jobs[ID] = replace(store.jobs[ID], paused_at="later")
    assert "is paused already" in say(engine, store, f"pause {ID}").text


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_a_job_that_is_over(engine: Engine, store: Store, command: str) -> None:
    store.jobs[ID] = CronJob(ID, ended=True)
    answer = say(engine, store, f"{command} {ID}")
    assert answer.text == f"Nightly Report ({ID}) has fired for the last time."
    assert (answer.exit_code, store.jobs[ID].paused) == (PROBLEM, False)


def test_a_pause_that_the_host_refuses_leaves_it_ours(engine: Engine, store: Store) -> None:
    paused_by_us(engine, store)
    store.broken = "the file is locked"
    answer = say(engine, store, f"pause {ID}")
    assert answer.text == f"Hermes did not change Nightly Report ({ID}): the file is locked"
    assert (answer.exit_code, ours(engine)) == (PROBLEM, [ID])


def test_a_job_is_paused_while_the_ledger_does_not_answer(engine: Engine, store: Store) -> None:
    engine.database.path.unlink(missing_ok=True)
    engine.database.path.mkdir()
    assert say(engine, store, f"pause {ID}").exit_code == OK
    assert store.jobs[ID].paused


# ---------------------------------------------------------------------- resume


def test_resume_lifts_a_persons_pause(engine: Engine, store: Store) -> None:
    store.jobs[ID] = CronJob(ID, paused=True, paused_at="x")
    answer = say(engine, store, "resume nightly report")
    assert answer.text == f"Nightly Report ({ID}) is resumed."
    assert (answer.exit_code, store.jobs[ID].paused) == (OK, False)


def test_resume_lifts_ours_and_its_row_goes_too(engine: Engine, store: Store) -> None:
    spend(engine, "1.05", cron_job_id=ID)
    paused_by_us(engine, store)
    say(engine, store, f"set cron_job {ID} daily 9")
    assert say(engine, store, f"resume {ID}").exit_code == OK
    assert (store.jobs[ID].paused, ours(engine)) == (False, [])


def test_a_reached_limit_holds_it(engine: Engine, store: Store) -> None:
    """$1.05 of $1.00: it would be stopped at its first call, and paused again."""
    spend(engine, "1.05", cron_job_id=ID)
    paused_by_us(engine, store)
    answer = say(engine, store, f"resume {ID}")
    assert answer.text.splitlines() == [
        f"Nightly Report ({ID}) stays paused: it would be stopped at its first call.",
        f'The daily limit of $1.00 for cron job "{ID}" is reached: $1.05 of $1.00 is used.',
        "It resets at 2026-12-01 00:00 UTC.",
        "The job goes on by itself then.",
        f"To go on before that: hermes budget set cron_job {ID} daily 1.58",  # 1.05 × 1.5
        f"And then: hermes budget resume {ID}",
    ]
    assert (answer.exit_code, store.jobs[ID].paused, ours(engine)) == (PROBLEM, True, [ID])
    assert isinstance(answer.data, dict)
    assert (answer.data["changed"], answer.data["held_by"]["scope"]) == (False, "cron_job")
    assert answer.data["until_ms"] == at("2026-12-01 00:00")

    # the commands that it names let it go on
    assert say(engine, store, f"set cron_job {ID} daily 1.58").exit_code == OK
    assert say(engine, store, f"resume {ID}").text.startswith(f"Nightly Report ({ID}) is resumed.")


TOTAL = "budgets: {per_cron_job: {default: {total_usd: 1.00}}}\n"
MANUAL = "budgets: {per_cron_job: {default: {daily_usd: 1.00}}}\ncron: {resume: manual}\n"


@pytest.mark.parametrize(
    ("yaml", "window"), [(TOTAL, Window.TOTAL), (MANUAL, Window.DAILY)], ids=["total", "manual"]
)
def test_where_no_reset_lifts_our_pause_none_is_promised(
    engine: Engine, store: Store, yaml: str, window: Window
) -> None:
    engine.budget_file.path.write_text(f"timezone: UTC\n{yaml}")
    engine.reload_config()
    spend(engine, "1.05", cron_job_id=ID)
    paused_by_us(engine, store, window)
    assert "by itself then" not in say(engine, store, f"resume {ID}").text
    raised = say(engine, store, f"set cron_job {ID} {window} 3").text
    assert f"Nightly Report ({ID}) stays paused. To let it go on now:" in raised


def test_a_persons_pause_does_not_end_by_itself(engine: Engine, store: Store) -> None:
    spend(engine, "1.05", cron_job_id=ID)
    store.jobs[ID] = CronJob(ID, paused=True, paused_at="x")
    said = say(engine, store, f"resume {ID}").text
    assert "stays paused" in said
    assert "by itself" not in said


def test_a_limit_of_the_platform_holds_it_too(engine: Engine, store: Store) -> None:
    spend(engine, "5.00", platform="cron")
    store.jobs[ID] = CronJob(ID, paused=True, paused_at="x")
    assert 'platform "cron" is reached' in say(engine, store, f"resume {ID}").text


def test_what_will_likely_be_stopped_is_said(engine: Engine, store: Store) -> None:
    """$0.60 a run, and $0.40 is left: nothing is reached yet, so the job goes on."""
    spend(engine, "0.60", cron_job_id=ID)
    store.jobs[ID] = CronJob(ID, paused=True, paused_at="x")
    answer = say(engine, store, f"resume {ID}")
    assert answer.exit_code == OK
    assert "The next run will likely be stopped" in answer.text
    assert f"unless you raise that: hermes budget set cron_job {ID} daily" in answer.text


def test_a_job_that_is_not_paused(engine: Engine, store: Store) -> None:
    answer = say(engine, store, f"resume {ID}")
    assert (answer.text, answer.exit_code) == (f"Nightly Report ({ID}) is not paused.", OK)


# ---------------------------------------------------------------------- both


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize(
    ("called", "said"),
    [
        ("nigthly reprot", f"Did you mean Nightly Report ({ID})"),
        ("77aa0012", "Did you mean weekly report (77aa0011)"),
        ("something else", "hermes cron list --all shows them"),
        ("", "hermes budget {command} <job>"),
    ],
)
def test_a_name_that_no_job_has(
    engine: Engine, store: Store, command: str, called: str, said: str
) -> None:
    answer = say(engine, store, f"{command} {called}")
    assert answer.exit_code == USAGE
    assert said.format(command=command) in answer.text


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_outside_of_hermes(engine: Engine, command: str) -> None:
    answer = say(engine, None, f"{command} nightly report")
    assert answer.exit_code == PROBLEM
    assert f'hermes budget {command} "nightly report"' in answer.text


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_who_may_not_change_anything_may_not_do_it(
    engine: Engine, store: Store, command: str
) -> None:
    nobody = Caller("telegram:1", "chat", "/budget", may_change=False, sender_id="telegram:1")
    store.jobs[ID] = CronJob(ID, paused=command == "resume")
    assert say(engine, store, f"{command} {ID}", nobody).exit_code == PROBLEM
    assert store.jobs[ID].paused is (command == "resume")
    assert chat.changes_something(f"{command} {ID}")  # nor while the agent is busy


def test_a_persons_pause_stands_in_the_list_of_jobs(engine: Engine, store: Store) -> None:
    spend(engine, "0.60", cron_job_id=ID)
    say(engine, store, f"pause {ID}")
    answer = say(engine, store, "cron")
    assert answer.text.endswith("\n  paused: paused by owner (command line)")
    assert isinstance(answer.data, list)
    row = answer.data[0]
    assert (row["paused_why"], row["paused_until_ms"]) == ("paused by owner (command line)", None)


# ---------------------------------------------------------------------- raising the limit


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"set cron_job {ID} daily 3", True),
        ("set cron_job daily 3", True),  # the default that holds for it
        (f"set cron_job {ID} daily none", True),
        (f"set cron_job {ID} daily 0.50", False),  # lower
        (f"set cron_job {ID} weekly 3", False),  # another limit
        ("set cron_job other daily 3", False),
        ("set platform daily 9", False),
    ],
)
def test_who_raises_a_limit_hears_of_the_jobs_that_it_paused(
    engine: Engine, store: Store, command: str, said: bool
) -> None:
    paused_by_us(engine, store)
    text = say(engine, store, command).text
    told = (
        f"Nightly Report ({ID}) stays paused until the reset. "
        f"To let it go on now: hermes budget resume {ID}"
    )
    assert (told in text) is said
