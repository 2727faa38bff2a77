"""Limits of cron jobs go by id; people and reports call the jobs by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budget_plugin.commands import chat, table
from budget_plugin.commands.asking import PROBLEM, USAGE, Answer, Args, Caller
from budget_plugin.engine.engine import Engine
from budget_plugin.policy.limits import Scope
from budget_plugin.store.host_jobs import HostJobs
from budget_plugin.testing import spend
from tests.billing import opened

ME = Caller("me", "chat", "/budget")
JOBS = [
    {"id": "3f2a91c0", "name": "Nightly Report"},
    {"id": "77aa0011", "name": "twin"},
    {"id": "88bb0022", "name": "twin"},
    {"id": "nameless"},
]


def write_jobs(home: Path, jobs: Any = JOBS) -> None:
    (home / "cron").mkdir(exist_ok=True)
    (home / "cron" / "jobs.json").write_text(json.dumps({"jobs": jobs}))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    write_jobs(tmp_path)
    with opened(tmp_path) as engine:
        yield engine


def say(engine: Engine, text: str) -> Answer:
    name, args, _ = chat.parse(text, ME)
    return table.answer(lambda: engine, name, args)


@pytest.mark.parametrize(
    ("reference", "ids"),
    [
        ("3f2a91c0", ["3f2a91c0"]),
        ("Nightly Report", ["3f2a91c0"]),
        ("nightly report", ["3f2a91c0"]),
        ("twin", ["77aa0011", "88bb0022"]),
        ("nightly", []),
        ("", []),
    ],
)
def test_an_id_goes_before_a_name(engine: Engine, reference: str, ids: list[str]) -> None:
    assert engine.jobs.ids_of(reference) == ids


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"jobs": 3}', '{"jobs": [1]}', "\x00", None])
def test_a_file_that_is_not_as_expected_names_nothing(tmp_path: Path, content: str | None) -> None:
    jobs = HostJobs(tmp_path)
    if content is not None:
        write_jobs(tmp_path)
        (tmp_path / "cron" / "jobs.json").write_text(content)
    assert dict(jobs.names()) == {}


def test_a_name_is_written_as_the_id(engine: Engine) -> None:
    answer = say(engine, 'set cron_job "nightly report" daily 3')
    assert answer.text == (
        'Daily limit for cron job "3f2a91c0": was no limit, is $3.00. $0.00 used today, '
        'resets 2026-12-01 00:00 UTC. ("nightly report" is the job 3f2a91c0.)'
    )
    limits = engine.budget_file.current().limits_for
    assert [limit.amount for limit in limits(Scope.CRON_JOB, "3f2a91c0")] == [3 * 10**9]
    assert say(engine, 'unset cron_job "nightly report" daily').exit_code == 0
    assert not engine.budget_file.current().has_limits


def test_two_jobs_of_one_name_must_be_told_apart(engine: Engine) -> None:
    answer = say(engine, "set cron_job twin daily 3")
    assert answer.exit_code == USAGE
    assert answer.text == 'Several cron jobs are called "twin". Use the id: 77aa0011, 88bb0022.'


def test_reports_call_a_job_by_its_name(engine: Engine) -> None:
    spend(engine, "0.60", cron_job_id="3f2a91c0")
    say(engine, "set cron_job 3f2a91c0 daily 1")
    for report in ("status", "cron", 'cron "Nightly Report"', "forecast cron_job 3f2a91c0"):
        assert "Nightly Report (3f2a91c0)" in say(engine, report).text
    data: Any = table.answer(lambda: engine, "status", Args(ME)).data
    assert data["sections"]["cron_job"][0]["name"] == "Nightly Report"
    assert "No activity" not in say(engine, "set cron_job 3f2a91c0 daily 2").text


def test_a_name_in_the_file_is_a_mistake_that_is_said(engine: Engine) -> None:
    engine.folder.mkdir(exist_ok=True)
    yaml = "budgets: {per_cron_job: {overrides: {Nightly Report: {daily_usd: 3}, gone: {}}}}"
    engine.budget_file.path.write_text(yaml)
    checked = say(engine, "check")
    assert checked.exit_code == PROBLEM
    assert (
        "budgets.per_cron_job.overrides.Nightly Report: no cron job has this id, so this limits "
        'nothing; the job of that name is "3f2a91c0"'
    ) in checked.text
    assert "gone" not in checked.text
    assert "no cron job has this id" in " ".join(say(engine, "status").text.split())


def test_a_job_that_a_model_renames_keeps_its_limit(engine: Engine, tmp_path: Path) -> None:
    say(engine, 'set cron_job "nightly report" daily 3')
    write_jobs(tmp_path, [{"id": "3f2a91c0", "name": "innocent"}])
    spend(engine, "3.10", cron_job_id="3f2a91c0")
    (verdict,) = engine.judge.read_now((Scope.CRON_JOB, "3f2a91c0"))
    assert verdict.blocks
