"""The ledger: each call once, charged to the right scopes, totals that equal their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from budget_plugin.policy.events import CostSource, Usage
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.verdicts import NOTHING_SPENT, Spend
from budget_plugin.policy.windows import Window
from budget_plugin.store.ledger import Ledger
from budget_plugin.store.totals import total_of_rows
from budget_plugin.testing import at
from tests.ledgers import (
    CENT,
    NOON,
    PATIENCE_S,
    a_call,
    a_run,
    assert_totals_equal_rows,
    delegate,
    open_ledger,
    record,
    rows,
    spent,
)

JOB = (Scope.CRON_JOB, "nightly")
SENDER = (Scope.SENDER, "telegram:1")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_ledger(tmp_path)
    yield opened
    opened.database.close()


# ---------------------------------------------------------------------- exactly once


@pytest.mark.case("T07")
def test_an_attempt_reported_three_times_is_one_row(ledger: Ledger) -> None:
    run = a_run("r")
    spent(ledger)
    for _ in range(3):
        record(ledger, a_call("a", run), run)
    assert rows(ledger) == [(1,)]
    assert spent(ledger).certain_nanos == CENT


@pytest.mark.case("A18")
def test_of_three_reports_of_a_stream_the_fullest_stands(ledger: Ledger) -> None:
    run = a_run("r")
    spent(ledger)
    first, last = 49_575_000, 55_530_000
    for output_tokens, nanos in ((3, first), (3, first), (400, last), (3, first)):
        usage = Usage(10, output_tokens, cache_read_tokens=15_000, cache_write_tokens=12_000)
        record(ledger, replace(a_call("a", run, nanos), usage=usage), run)
    assert rows(ledger, "output_tokens, cost_nanos") == [(400, 55_530_000)]
    assert spent(ledger) == Spend(certain_nanos=55_530_000, tokens=27_410, calls=1)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"estimated": True, "tokens": 500}, {"estimated": False, "tokens": 100}),
        ({"tokens": 500}, {"tokens": 100, "source": CostSource.PROVIDER}),
        ({"nanos": None, "tokens": 100}, {"tokens": 101}),
    ],
    ids=["a report beats a guess", "the provider's cost beats ours", "more tokens are later"],
)
def test_a_fuller_report_replaces_and_a_lesser_one_does_not(
    ledger: Ledger, known: dict[str, object], said: dict[str, object]
) -> None:
    run = a_run("r")
    spent(ledger)
    fuller = a_call("a", run, **{"nanos": 3 * CENT, **said})  # type: ignore[arg-type]
    lesser = a_call("a", run, **known)  # type: ignore[arg-type]
    for call in (lesser, fuller, lesser):
        record(ledger, call, run)
    assert rows(ledger, "cost_nanos") == [(3 * CENT,)]
    assert spent(ledger).nanos == 3 * CENT
    assert_totals_equal_rows(ledger)


def test_a_fuller_report_keeps_the_time_and_the_run_of_the_first(ledger: Ledger) -> None:
    first, other = a_run("first"), a_run("other")
    record(ledger, a_call("a", first, at_ms=NOON), first)
    tomorrow = NOON + 86_400_000
    record(ledger, a_call("a", other, 2 * CENT, tomorrow, tokens=900), other)
    assert rows(ledger, "run_id, at_ms, cost_nanos") == [("first", NOON, 2 * CENT)]


def test_a_recorded_call_gives_its_reservation_back(ledger: Ledger) -> None:
    run = a_run("r")
    with ledger.database.writing(PATIENCE_S) as connection:
        connection.execute(
            "INSERT INTO reservations (attempt_id, run_id, since_ms, nanos, tokens, owner_host, "
            "owner_pid, owner_started) VALUES ('a', 'r', 0, 1, 1, 'h', 1, '')"
        )
    record(ledger, a_call("a", run), run)
    assert rows(ledger, table="reservations") == [(0,)]


def test_a_name_that_is_no_text_costs_no_row(ledger: Ledger) -> None:
    run = a_run("r", sender_id="half a pair \ud83d")
    record(ledger, a_call("a", run, model="model \udc00"), run)
    assert rows(ledger, "model") == [("model ?",)]


# ---------------------------------------------------------------------- dates and windows


@pytest.mark.case("T01", "A39")
def test_spend_is_dated_by_the_call_not_by_the_session(ledger: Ledger) -> None:
    run = a_run("r")
    days = ("2026-11-29 23:50", "2026-11-30 00:05", "2026-11-30 00:10")
    for number, moment in enumerate(days):
        record(ledger, a_call(f"a{number}", run, 40 * CENT, at(moment)), run)
    assert spent(ledger, at_ms=at(days[0])).certain_nanos == 40 * CENT
    assert spent(ledger, at_ms=at(days[1])).certain_nanos == 80 * CENT
    assert spent(ledger, window=Window.MONTHLY).certain_nanos == 120 * CENT


@pytest.mark.case("A41", "T16")
def test_spend_is_there_after_a_restart(ledger: Ledger, tmp_path: Path) -> None:
    run = a_run("r")
    record(ledger, a_call("before", run, 427 * CENT), run)
    ledger.database.close()
    restarted = open_ledger(tmp_path)
    assert spent(restarted).certain_nanos == 427 * CENT
    record(restarted, a_call("after", run, 80 * CENT), run)
    assert spent(restarted).certain_nanos == 507 * CENT
    restarted.database.close()


# ---------------------------------------------------------------------- whose money


def test_a_call_is_charged_to_every_scope_of_its_run_and_to_its_model(ledger: Ledger) -> None:
    run = a_run("r", cron_job_id="nightly", sender_id="telegram:1", profile="p", platform="t")
    record(ledger, a_call("a", run), run)
    for scope in (
        (Scope.GLOBAL, ""),
        JOB,
        SENDER,
        (Scope.PROFILE, "p"),
        (Scope.PLATFORM, "t"),
        (Scope.MODEL, "a-model"),
    ):
        assert spent(ledger, scope).certain_nanos == CENT, scope
    assert spent(ledger, (Scope.SENDER, "telegram:2")) == NOTHING_SPENT


def test_nobodys_money_counts_for_global_alone(ledger: Ledger) -> None:
    run = a_run("r")
    spent(ledger, (Scope.SENDER, ""))
    record(ledger, a_call("a", run), run)
    assert spent(ledger).certain_nanos == CENT
    # The empty id is nobody: no total of it moves.
    assert spent(ledger, (Scope.SENDER, "")) == NOTHING_SPENT


def test_unknown_costs_are_counted_as_unknown_never_as_nothing(ledger: Ledger) -> None:
    run = a_run("r")
    spent(ledger)
    record(ledger, a_call("a", run, None, tokens=7), run)
    record(ledger, a_call("b", run, CENT, estimated=True, tokens=5), run)
    assert spent(ledger) == Spend(
        estimated_nanos=CENT, tokens=12, calls=2, unpriced_calls=1, estimated_calls=1
    )
    assert rows(ledger, "cost_nanos") == [(None,), (CENT,)]


# ---------------------------------------------------------------------- delegation


@pytest.mark.case("A45")
@pytest.mark.parametrize("when", ["totals first", "totals last"])
def test_the_spend_of_children_is_the_jobs(ledger: Ledger, when: str) -> None:
    job = a_run("cron", cron_job_id="nightly")
    child, grandchild = a_run("c", "c1"), a_run("g", "c2")
    if when == "totals first":
        assert spent(ledger, JOB) == spent(ledger) == NOTHING_SPENT
    delegate(ledger, job, "c1")
    record(ledger, a_call("1", job, 10 * CENT), job)
    record(ledger, a_call("2", child, 25 * CENT), child)
    delegate(ledger, child, "c2")
    record(ledger, a_call("3", grandchild, 5 * CENT), grandchild)
    assert spent(ledger, JOB).certain_nanos == 40 * CENT
    assert spent(ledger).certain_nanos == 40 * CENT
    assert_totals_equal_rows(ledger)


@pytest.mark.case("A46")
def test_a_child_that_failed_still_costs(ledger: Ledger) -> None:
    job, child = a_run("cron", cron_job_id="nightly"), a_run("c", "c1")
    delegate(ledger, job, "c1")
    for number, nanos in enumerate((5 * CENT, 15 * CENT, 5 * CENT)):
        record(ledger, a_call(f"a{number}", child, nanos), child)
    ledger.close_edge("c1", NOON, "error", PATIENCE_S)
    assert spent(ledger, JOB).certain_nanos == 25 * CENT
    assert rows(ledger, "status, stopped_ms", "subagent_edges") == [("error", NOON)]


def test_an_edge_that_arrives_late_moves_what_was_spent(ledger: Ledger) -> None:
    job = a_run("cron", cron_job_id="nightly", sender_id="telegram:1")
    child, grandchild = a_run("c", "c1", sender_id="telegram:2"), a_run("g", "c2")
    others = (Scope.SENDER, "telegram:2")
    for scope in (JOB, SENDER, others):
        spent(ledger, scope)
    record(ledger, a_call("1", child, 25 * CENT), child)
    record(ledger, a_call("2", grandchild, 5 * CENT), grandchild)
    assert spent(ledger, others).certain_nanos == 25 * CENT
    delegate(ledger, child, "c2")
    moved = delegate(ledger, job, "c1")
    assert {run.run_id: run.root_run_id for run in moved} == {"c": "cron", "g": "cron"}
    assert {run.cron_job_id for run in moved} == {"nightly"}
    assert spent(ledger, JOB).certain_nanos == 30 * CENT
    assert spent(ledger, SENDER).certain_nanos == 30 * CENT
    assert spent(ledger, others) == NOTHING_SPENT
    assert_totals_equal_rows(ledger)


def test_a_process_that_has_not_heard_of_the_edge_charges_by_it_all_the_same(
    ledger: Ledger, tmp_path: Path
) -> None:
    job, child = a_run("cron", cron_job_id="nightly"), a_run("c", "c1")
    spent(ledger, JOB)
    record(ledger, a_call("1", child), child)
    elsewhere = open_ledger(tmp_path)
    delegate(elsewhere, job, "c1")
    elsewhere.database.close()
    recorded = ledger.add_call(a_call("2", child), child, PATIENCE_S)
    assert recorded.run.cron_job_id == "nightly"
    assert recorded.totals[JOB]
    assert spent(ledger, JOB).certain_nanos == 2 * CENT
    assert_totals_equal_rows(ledger)


def test_a_later_run_of_a_delegated_session_is_charged_like_the_first(ledger: Ledger) -> None:
    job, first, second = a_run("cron", cron_job_id="nightly"), a_run("c", "c1"), a_run("d", "c1")
    spent(ledger, JOB)
    delegate(ledger, job, "c1")
    for run in (first, second):
        record(ledger, a_call(run.run_id, run), run)
    assert spent(ledger, JOB).certain_nanos == 2 * CENT
    assert_totals_equal_rows(ledger)


def test_a_review_counts_for_the_job_although_nobody_delegated_it(ledger: Ledger) -> None:
    job = a_run("cron", "s", cron_job_id="nightly")
    review = replace(a_run("review", "s", cron_job_id="nightly"), root_run_id="cron", kind="review")
    record(ledger, a_call("1", job), job)
    record(ledger, a_call("2", review), review)
    assert spent(ledger, JOB).certain_nanos == 2 * CENT  # built from the rows
    record(ledger, a_call("3", review), review)
    assert spent(ledger, JOB).certain_nanos == 3 * CENT
    assert_totals_equal_rows(ledger)


def test_a_child_keeps_its_first_parent(ledger: Ledger) -> None:
    first, second = a_run("1", sender_id="telegram:1"), a_run("2", sender_id="telegram:2")
    child = a_run("c", "c1")
    delegate(ledger, first, "c1")
    assert delegate(ledger, second, "c1") == ()
    record(ledger, a_call("a", child), child)
    assert spent(ledger, SENDER).certain_nanos == CENT
    parent = ledger.parent_of_session("c1")
    assert parent is not None
    assert parent.run_id == "1"


@pytest.mark.case("A47")
def test_circles_end_and_count_each_row_once(ledger: Ledger) -> None:
    a, b = a_run("a", "sa"), a_run("b", "sb")
    record(ledger, a_call("1", a, 10 * CENT), a)
    record(ledger, a_call("2", b, 20 * CENT), b)
    delegate(ledger, a, "sb")
    assert delegate(ledger, b, "sa") == ()
    assert delegate(ledger, a, "sa") == ()
    assert spent(ledger).certain_nanos == 30 * CENT
    # Without a job at their root, nothing is a job's.
    assert spent(ledger, JOB) == NOTHING_SPENT
    record(ledger, a_call("3", b, CENT), b)
    assert_totals_equal_rows(ledger)


def test_a_circle_through_a_job_leaves_the_job_its_own(ledger: Ledger) -> None:
    job, child = a_run("cron", "s0", cron_job_id="nightly"), a_run("c", "c1")
    stranger = a_run("stranger", "s0", sender_id="telegram:1")  # another turn of the same session
    spent(ledger, JOB)
    for run in (job, child, stranger):
        record(ledger, a_call(run.run_id, run), run)
    delegate(ledger, job, "c1")
    assert delegate(ledger, child, "s0") == ()
    assert spent(ledger, JOB).certain_nanos == 2 * CENT
    assert_totals_equal_rows(ledger)


@pytest.mark.case("A49")
def test_jobs_whose_ids_contain_one_another_are_apart(ledger: Ledger) -> None:
    ids = ("my_nightly_report", "my_nightly", "nightly", "c8d893b0a214")
    for number, job_id in enumerate(ids, 1):
        run = a_run(f"r{number}", f"cron_{job_id}_20260907_210243", cron_job_id=job_id)
        record(ledger, a_call(f"a{number}", run, number * CENT), run)
    for number, job_id in enumerate(ids, 1):
        assert spent(ledger, (Scope.CRON_JOB, job_id)).certain_nanos == number * CENT


# ---------------------------------------------------------------------- runs


def test_the_first_ending_of_a_run_stands(ledger: Ledger) -> None:
    ledger.add_run(a_run("r"), PATIENCE_S)
    ledger.end_run("r", NOON, "completed", PATIENCE_S)
    ledger.end_run("r", NOON + 1, "failed", PATIENCE_S)
    assert rows(ledger, "ended_ms, outcome", "runs") == [(NOON, "completed")]


def test_a_run_that_is_there_stays_as_it_is(ledger: Ledger) -> None:
    ledger.add_run(a_run("r", sender_id="telegram:1"), PATIENCE_S)
    ledger.add_run(a_run("r", sender_id="telegram:2"), PATIENCE_S)
    assert ledger.run("r") == a_run("r", sender_id="telegram:1")
    assert ledger.run("another") is None


# ---------------------------------------------------------------------- totals


def test_a_total_is_built_once_and_kept_by_increments(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run("r")
    built = []

    def counted(*args: object) -> Spend:
        built.append(args[1:])
        return total_of_rows(*args)  # type: ignore[arg-type]

    monkeypatch.setattr("budget_plugin.store.totals.total_of_rows", counted)
    record(ledger, a_call("a", run), run)
    for number in range(5):
        spent(ledger)
        record(ledger, a_call(f"a{number}", run), run)
    assert spent(ledger).certain_nanos == 6 * CENT
    assert len(built) == 1


def test_no_total_is_kept_that_nobody_asked_for(ledger: Ledger) -> None:
    run = a_run("r", sender_id="telegram:1")
    record(ledger, a_call("a", run), run)
    assert rows(ledger, table="spend_totals") == [(0,)]


def test_verify_names_the_total_that_does_not_equal_its_rows(ledger: Ledger) -> None:
    run = a_run("r", sender_id="telegram:1")
    record(ledger, a_call("a", run), run)
    spent(ledger)
    spent(ledger, SENDER)
    with ledger.database.writing(PATIENCE_S) as connection:
        connection.execute(
            "UPDATE spend_totals SET certain_nanos = certain_nanos - 1 WHERE scope = 'sender'"
        )
    compared, differences = ledger.verify(PATIENCE_S)
    assert compared == 2
    [difference] = differences
    assert difference.scope == SENDER
    assert difference.stored.certain_nanos == CENT - 1
    assert difference.rows.certain_nanos == CENT
