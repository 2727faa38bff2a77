"""Calls that bypass every hook: from the host's database into the ledger, each once, exactly."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_plugin.engine.auxiliary import Auxiliary, shares
from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.policy.events import Run
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.verdicts import Spend
from budget_plugin.store.auxiliary import BASELINE, alone
from budget_plugin.store.host_state import Counts, HostState
from budget_plugin.store.sql.database import LedgerBusy
from budget_plugin.testing import FakeClock
from tests.billing import NOON, SONNET, opened, rows, run_in, spent, usd
from tests.unit.test_host_state import Host

PATIENCE_S = 10.0
NOON_S = NOON / 1000
TITLE = 300 * 3_000 + 6 * 15_000  # nano-dollars of a title of 300 tokens in and 6 out


class Process:
    """One process of the host, with its view of the same home."""

    def __init__(self, engine: Engine, home: Path) -> None:
        self.engine = engine
        self.auxiliary = Auxiliary(engine, HostState(home / "state.db"), run_of_session)

    def look(self) -> int:
        assert self.engine.recorder.flush(60)
        return self.auxiliary.look(PATIENCE_S)


def run_of_session(session_id: str, at_ms: int) -> Run:
    job = "nightly" if session_id.startswith("cron_nightly") else ""
    return Run("ignored", session_id, "ignored", "chat", at_ms, cron_job_id=job, profile="default")


@contextmanager
def process(home: Path, yaml: str = "") -> Iterator[Process]:
    with opened(home, yaml) as engine:
        yield Process(engine, home)


@pytest.fixture
def state(tmp_path: Path) -> Host:
    return Host(tmp_path / "state.db")


@pytest.fixture
def one(tmp_path: Path, state: Host) -> Iterator[Process]:
    """A process that has begun a run and seen that there is nothing yet."""
    with process(tmp_path) as made:
        run_in(made.engine, session_id="s1", sender_id="telegram:1", profile="default")
        assert made.look() == 0
        yield made


def title(state: Host, calls: int = 1, **changes: object) -> None:
    state.row(
        **{
            "model": SONNET, "api_call_count": calls, "input_tokens": 300 * calls,
            "output_tokens": 6 * calls, "last_seen": NOON_S, **changes,
        }
    )  # fmt: skip


# ------------------------------------------------------------------------- what becomes of them


def test_a_title_is_one_row_marked_dated_and_priced_by_us(one: Process, state: Host) -> None:
    title(state, estimated_cost_usd=7.0, cost_status="estimated", last_seen=NOON_S + 5)
    assert one.look() == 1
    (row,) = rows(one.engine)
    assert row["auxiliary_task"] == "title_generation"
    assert (row["input_tokens"], row["output_tokens"]) == (300, 6)
    assert row["at_ms"] == NOON + 5_000
    assert (row["cost_nanos"], row["cost_source"]) == (TITLE, "pricing")
    assert row["estimated"] == 0


def test_it_is_the_money_of_the_sessions_person(one: Process, state: Host) -> None:
    title(state)
    one.look()
    assert spent(one.engine, (Scope.SENDER, "telegram:1")).certain_nanos == TITLE
    assert spent(one.engine).calls == 1


def test_looking_again_finds_nothing_new(one: Process, state: Host) -> None:
    title(state)
    assert [one.look() for _ in range(3)] == [1, 0, 0]


def test_what_is_added_later_is_a_row_of_its_own(one: Process, state: Host) -> None:
    for calls in (1, 2, 5):
        title(state, calls)
        one.look()
    assert [row["cost_nanos"] for row in rows(one.engine)] == [TITLE] * 5
    numbers = [row["attempt_id"].rpartition(":")[2] for row in rows(one.engine)]
    assert numbers == ["1", "2", "3", "4", "5"]


def test_calls_of_which_only_the_sum_is_known_add_up_exactly(one: Process, state: Host) -> None:
    title(state, 3, input_tokens=1_000, output_tokens=20, cache_read_tokens=50)
    assert one.look() == 3
    found = rows(one.engine)
    assert [row["input_tokens"] for row in found] == [334, 333, 333]
    assert [row["output_tokens"] for row in found] == [7, 7, 6]
    assert [row["cache_read_tokens"] for row in found] == [17, 17, 16]
    assert spent(one.engine).certain_nanos == 1_000 * 3_000 + 20 * 15_000 + 50 * 300


def test_each_task_and_route_counts_for_itself(one: Process, state: Host) -> None:
    title(state)
    title(state, task="compression", input_tokens=9_000)
    title(state, model="gpt-5-mini", task="vision")
    assert one.look() == 3
    assert spent(one.engine).certain_nanos == (
        TITLE + (9_000 * 3_000 + 6 * 15_000) + (300 * 250 + 6 * 2_000)
    )


def test_an_actual_cost_of_the_provider_is_believed(one: Process, state: Host) -> None:
    for calls, stated in ((2, 0.05), (3, 0.08)):
        title(state, calls, actual_cost_usd=stated, cost_status="actual")
        one.look()
    charged = [(row["cost_nanos"], row["cost_source"]) for row in rows(one.engine)]
    assert charged == [(usd("0.025"), "provider")] * 2 + [(usd("0.03"), "provider")]


def test_reasoning_beside_the_output_is_billed_and_counted_once(one: Process, state: Host) -> None:
    """The host keeps it apart; we add it to the output, and must not take it for something new."""
    title(state, output_tokens=10, reasoning_tokens=500)
    assert [one.look(), one.look()] == [1, 0]
    with_more = {"input_tokens": 600, "output_tokens": 20, "reasoning_tokens": 1_000}
    title(state, 2, **with_more)
    assert one.look() == 1
    assert spent(one.engine).certain_nanos == 600 * 3_000 + (20 + 1_000) * 15_000


@pytest.mark.case("A10")
def test_a_model_without_a_price_is_unpriced_and_said_once(
    one: Process, state: Host, caplog: pytest.LogCaptureFixture
) -> None:
    title(state, 3, model="acme-lab-7b")
    one.look()
    assert spent(one.engine) == Spend(tokens=918, calls=3, unpriced_calls=3)
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len([line for line in said if "acme-lab-7b" in line]) == 1


def test_it_counts_against_limits_and_pauses_like_any_other(tmp_path: Path, state: Host) -> None:
    yaml = "budgets: {per_cron_job: {default: {daily_usd: 0.0005}}}"
    with process(tmp_path, yaml) as made:
        told: list[str] = []
        made.engine.on_hard = lambda run, verdict: told.append(run.cron_job_id)
        live = run_in(made.engine, session_id="s1", cron_job_id="nightly")
        made.look()
        assert not blocked(made.engine, live)
        title(state)
        made.look()
        assert made.engine.recorder.flush(60)
        assert blocked(made.engine, live)
        assert told[0] == "nightly"


def blocked(engine: Engine, live: LiveRun) -> bool:
    verdict = engine.tool_verdict(live)
    return verdict is not None and verdict.blocks


# ------------------------------------------------------------------------- whose run


def test_it_belongs_to_the_run_during_which_it_was_made(one: Process, state: Host) -> None:
    """A title is written after its turn, and seen when the next one has begun."""
    title(state, last_seen=NOON_S + 10)
    clock = one.engine.clock
    assert isinstance(clock, FakeClock)
    clock.advance(60)
    first = one.engine.runs.find("", "s1")
    run = Run("later", "s1", "later", "chat", clock.now_ms())
    one.engine.open_run(run)
    one.look()
    assert first is not None
    assert [row["run_id"] for row in rows(one.engine)] == [first.run.run_id]


def test_a_session_without_a_run_gets_one_for_it(one: Process, state: Host) -> None:
    title(state, session_id="cron_nightly_20261130_120000")
    one.look()
    (row,) = rows(one.engine)
    run = one.engine.ledger.run(row["run_id"])
    assert run is not None
    assert (run.kind, run.cron_job_id, run.root_run_id) == ("auxiliary", "nightly", run.run_id)
    assert spent(one.engine, (Scope.CRON_JOB, "nightly")).certain_nanos == TITLE
    with one.engine.ledger.reading() as connection:
        sql = "SELECT ended_ms, outcome FROM runs WHERE kind = 'auxiliary'"
        assert connection.execute(sql).fetchall() == [(NOON, "completed")]


def test_a_childs_auxiliary_calls_are_its_roots(one: Process, state: Host) -> None:
    root = one.engine.runs.find("", "s1")
    assert root is not None
    one.engine.delegated(root, "child", "leaf")
    run_in(one.engine, session_id="child", kind="child")
    title(state, session_id="child")
    one.look()
    assert spent(one.engine, (Scope.SENDER, "telegram:1")).certain_nanos == TITLE


# ------------------------------------------------------------------------- once, whoever looks


def test_a_restart_neither_forgets_nor_repeats(tmp_path: Path, state: Host) -> None:
    for calls, new in ((0, 0), (2, 2), (2, 0), (3, 1)):
        title(state, calls) if calls else None
        with process(tmp_path) as made:
            run_in(made.engine, session_id="s1")
            assert made.look() == new
    with process(tmp_path) as made:
        assert [row["cost_nanos"] for row in rows(made.engine)] == [TITLE] * 3


def test_two_processes_write_each_call_once(tmp_path: Path, state: Host, one: Process) -> None:
    with process(tmp_path) as other:
        for calls in range(1, 9):
            title(state, calls, input_tokens=100 * calls * calls, output_tokens=0)
            (one if calls % 3 else other).look()
        one.look()
        other.look()
        found = rows(other.engine)
    assert len(found) == 8
    assert sum(row["input_tokens"] for row in found) == 6_400


def test_while_another_process_looks_this_one_does_not(
    tmp_path: Path, state: Host, one: Process
) -> None:
    title(state)
    with alone(tmp_path / "budget") as mine:
        assert mine
        assert one.look() == 0
    assert one.look() == 1


def test_a_look_that_ends_half_way_is_finished_by_the_next(
    one: Process, state: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    title(state, 3, input_tokens=1_000, output_tokens=20)
    add, left = one.engine.ledger.add_call, [1]

    def fails_later(*args: Any) -> Any:
        if not left:
            raise LedgerBusy("locked")
        left.pop()
        return add(*args)

    monkeypatch.setattr(one.engine.ledger, "add_call", fails_later)
    with pytest.raises(LedgerBusy):
        one.auxiliary.look(PATIENCE_S)
    monkeypatch.undo()
    assert one.look() == 2
    assert spent(one.engine).certain_nanos == 1_000 * 3_000 + 20 * 15_000


# ------------------------------------------------------------------------- what was before


def test_what_was_spent_before_the_ledger_began_is_not_charged(tmp_path: Path, state: Host) -> None:
    """A conversation of months, into which the plugin is installed."""
    title(state, 200, input_tokens=20_000_000, output_tokens=400_000)
    with process(tmp_path) as made:
        run_in(made.engine, session_id="s1")
        assert made.look() == 0
    title(state, 201, input_tokens=20_000_300, output_tokens=400_006)
    with process(tmp_path) as made:
        assert made.look() == 1
        assert [row["cost_nanos"] for row in rows(made.engine)] == [TITLE]


def test_a_new_ledger_begins_anew(tmp_path: Path, state: Host, one: Process) -> None:
    title(state, 5)
    one.look()
    one.engine.close()
    for file in (tmp_path / "budget").glob("ledger.db*"):
        file.unlink()
    clock = FakeClock(NOON + 60_000)
    with process(tmp_path) as made:
        made.engine.clock = clock
        live = run_in(made.engine, session_id="s1")
        made.engine.recorder.flush(60)
        with made.engine.database.writing(10) as connection:
            connection.execute("UPDATE runs SET started_ms = ?", (clock.now_ms(),))
        assert live is not None
        assert made.look() == 0
        title(state, 6)
        assert made.look() == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"taken_ms": 1, "rows": {"k": [1, "x"]}}'])
def test_a_baseline_that_cannot_be_read_is_taken_anew(
    tmp_path: Path, state: Host, content: str
) -> None:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / BASELINE).write_text(content)
    title(state)
    with process(tmp_path) as made:
        run_in(made.engine, session_id="s1")
        assert made.look() == 0
        title(state, 2)
        assert made.look() == 1
    assert json.loads((tmp_path / "budget" / BASELINE).read_text())["rows"]


def test_an_empty_ledger_takes_no_baseline(tmp_path: Path, state: Host) -> None:
    title(state)
    with process(tmp_path) as made:
        assert made.look() == 0
    assert not (tmp_path / "budget" / BASELINE).exists()


# ------------------------------------------------------------------------- off the agent's thread


def test_asking_twice_looks_once(one: Process, state: Host) -> None:
    title(state)
    waiting: list[Any] = []
    later: Callable[[Any], None] = waiting.append
    one.engine.recorder.later = later  # type: ignore[method-assign]
    try:
        for _ in range(3):
            one.auxiliary.look_soon()
        assert len(waiting) == 1
        waiting.pop().apply(PATIENCE_S)
        one.auxiliary.look_soon()
        assert len(waiting) == 1
    finally:
        del one.engine.recorder.later  # type: ignore[method-assign]
    assert len(rows(one.engine)) == 1


def test_the_recorders_thread_looks(one: Process, state: Host) -> None:
    title(state)
    one.auxiliary.look_soon()
    assert [row["cost_nanos"] for row in rows(one.engine)] == [TITLE]


def test_the_hosts_database_stays_as_it_was(one: Process, state: Host) -> None:
    title(state)
    with closing(sqlite3.connect(state.path)) as connection:
        before = connection.execute("SELECT * FROM session_model_usage").fetchall()
        one.look()
        assert connection.execute("SELECT * FROM session_model_usage").fetchall() == before


# ------------------------------------------------------------------------- splitting


@given(st.builds(Counts, st.integers(0, 50), *(st.integers(0, 10**9) for _ in range(6))))
def test_shares_add_up_and_differ_by_one_token_at_most(new: Counts) -> None:
    parts = list(shares(new))
    assert len(parts) == max(new.calls, 1)
    for name in Counts._fields[1:]:
        values = [getattr(part, name) for part in parts]
        assert sum(values) == getattr(new, name)
        assert max(values) - min(values) <= 1
