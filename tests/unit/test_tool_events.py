"""The log of tool calls: batches that no hook waits for, digests only, a bounded number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun, Origin
from budget_plugin.engine.tool_log import BATCH, WORTH_KEEPING_MS
from budget_plugin.hermes.parts import Parts
from budget_plugin.policy.loops import LoopPolicy, read_tool_event
from budget_plugin.policy.replay.recorded import RecordedTool
from budget_plugin.store.tool_events import KEPT_MS, THINNED, ToolEvents, tools_between
from budget_plugin.testing import FakeClock, at, hook_kwargs, make_engine, make_run

NOON = at("2026-11-30 12:00")
POLICY = LoopPolicy()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def engine(tmp_path: Path, clock: FakeClock) -> Iterator[Engine]:
    engine = make_engine(tmp_path, "", clock)
    yield engine
    engine.close()


def tools(engine: Engine, live: LiveRun, number: int) -> None:
    """So many calls of a tool, each with arguments of its own."""
    for _ in range(number):
        seq = engine.loops.next_number()
        event = read_tool_event(seq, "grep", {"n": seq}, "found", step=f"api:{seq}")
        engine.loops.tool_ended(live, POLICY, event)


def recorded(engine: Engine) -> list[RecordedTool]:
    """What stands in the ledger, once the recorder has nothing left to do."""
    assert engine.recorder.flush(10.0)
    with engine.database.reading() as connection:
        return list(tools_between(connection, 0, 2 * NOON))


# ---------------------------------------------------------------------- batches


def test_a_run_is_written_at_its_end(engine: Engine) -> None:
    live = engine.open_run(make_run(run_id="r"))
    tools(engine, live, 3)
    assert recorded(engine) == []
    engine.end_run(live, "completed")
    assert [(each.run_id, each.event.seq) for each in recorded(engine)] == [
        ("r", 1),
        ("r", 2),
        ("r", 3),
    ]


def test_a_full_batch_does_not_wait_for_the_end(engine: Engine) -> None:
    live = engine.open_run(make_run())
    tools(engine, live, BATCH - 1)
    assert recorded(engine) == []
    tools(engine, live, 2)
    assert len(recorded(engine)) == BATCH


def test_nothing_is_lost_on_the_way_out(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("budget_plugin.engine.engine.PATIENCE_S", 60.0)  # on a slow machine, too
    engine = make_engine(tmp_path, "", clock)
    tools(engine, engine.open_run(make_run()), BATCH + 5)
    engine.close()
    again = make_engine(tmp_path, "", clock)
    assert len(recorded(again)) == BATCH + 5
    again.close()


def test_a_locked_ledger_holds_up_no_tool_and_loses_nothing(engine: Engine) -> None:
    live = engine.open_run(make_run())
    assert engine.recorder.flush(10.0)
    with closing(sqlite3.connect(engine.database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        tools(engine, live, 2 * BATCH + 5)
        engine.end_run(live, "completed")
        assert other.execute("SELECT count(*) FROM tool_events").fetchone() == (0,)
        other.execute("ROLLBACK")
    assert len(recorded(engine)) == 2 * BATCH + 5


@pytest.mark.parametrize(("failing_ms", "kept"), [(WORTH_KEEPING_MS, 3), (4_000_000, 0)])
def test_a_ledger_that_is_gone_for_long_does_not_fill_the_memory(
    engine: Engine, clock: FakeClock, failing_ms: int, kept: int
) -> None:
    live = engine.open_run(make_run())
    assert engine.recorder.flush(10.0)
    engine.recorder.failing_since_ms = clock.now_ms() - failing_ms
    tools(engine, live, 3)
    engine.tool_log.flush()
    assert len(recorded(engine)) == kept
    engine.recorder.failing_since_ms = None  # it answers again
    tools(engine, live, 1)
    engine.tool_log.flush()
    assert len(recorded(engine)) == kept + 1


def test_a_forked_child_does_not_write_what_its_parent_writes(engine: Engine) -> None:
    tools(engine, engine.open_run(make_run()), 3)
    engine.tool_log.after_fork(in_child=False)
    assert len(engine.tool_log._rows) == 3
    engine.tool_log.after_fork(in_child=True)
    engine.tool_log.flush()
    assert recorded(engine) == []


# ---------------------------------------------------------------------- what is written


def test_what_is_read_is_what_was_seen(engine: Engine, clock: FakeClock) -> None:
    live = engine.open_run(make_run(run_id="r"))
    args = {"action": "wait", "path": "a.py"}
    event = read_tool_event(7, "x", args, "boom 12", status="error", at_s=3.0, step="api:1")
    engine.loops.tool_ended(live, POLICY, event)
    engine.end_run(live, "completed")
    (row,) = recorded(engine)
    names = ("seq", "tool", "args_digest", "target", "result_digest", "status", "error_digest")
    for name in (*names, "action", "waits"):
        assert getattr(row.event, name) == getattr(event, name), name
    assert (row.at_ms, row.run_id, row.event.at_s) == (NOON, "r", NOON / 1000)
    assert row.event.step
    assert row.event.step != event.step


def test_that_a_person_spoke_and_when_a_run_was_resumed_stand_beside_the_next_call(
    engine: Engine, clock: FakeClock
) -> None:
    live = engine.open_run(make_run(session_id="s"))
    tools(engine, live, 1)
    live = engine.open_run(make_run(session_id="s"))
    tools(engine, live, 2)
    live = engine.open_run(make_run(session_id="s"), origin=Origin.HOST)
    tools(engine, live, 1)
    clock.advance(5)
    engine.loops.resumed(live)
    clock.advance(1)
    tools(engine, live, 1)
    engine.end_run(live, "completed")
    assert [(each.after_person, each.resumed_ms) for each in recorded(engine)] == [
        (False, None),
        (True, None),
        (False, None),
        (False, None),  # the host went on by itself
        (False, NOON + 5_000),
    ]


def test_without_settings_each_call_that_ran_is_there_and_no_text_of_it(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    said = {**hook_kwargs(), "tool_name": "terminal"}
    parts.hooks.pre_llm_call(**said, user_message="go")
    for status in ("ok", "error", "blocked"):
        call = {**said, "args": {"command": "cat secret.txt"}, "tool_call_id": status}
        assert parts.tools.pre_tool_call(**call) is None
        parts.tools.post_tool_call(
            **call, result="the treasure", status=status, error_message="no such island"
        )
    engine = parts.runtime.engine()
    engine.close()
    with closing(sqlite3.connect(tmp_path / "budget" / "ledger.db")) as connection:
        rows = connection.execute("SELECT * FROM tool_events").fetchall()
    assert len(rows) == 2  # the blocked one never ran
    text = repr(rows)
    assert "terminal" in text
    for word in ("secret", "cat ", "treasure", "island"):
        assert word not in text


# ---------------------------------------------------------------------- a bounded number


def batch(first: int, number: int, at_ms: int) -> list[RecordedTool]:
    return [
        RecordedTool(at_ms, "r", read_tool_event(seq, "grep", {}, "found"))
        for seq in range(first, first + number)
    ]


def seqs(engine: Engine) -> list[int]:
    return [each.event.seq for each in recorded(engine)]


def test_a_batch_that_comes_twice_is_written_once(engine: Engine) -> None:
    book = ToolEvents(engine.database)
    for _ in range(2):
        book.add(batch(1, 3, NOON), NOON, 5.0)
    assert seqs(engine) == [1, 2, 3]


def test_after_a_month_calls_are_forgotten_with_the_next_that_come(engine: Engine) -> None:
    book = ToolEvents(engine.database)
    book.add(batch(1, 2, NOON), NOON, 5.0)
    book.add(batch(3, 1, NOON + 1), NOON + KEPT_MS, 5.0)
    assert seqs(engine) == [1, 2, 3]  # just a month
    book.add(batch(4, 1, NOON + KEPT_MS + 1), NOON + KEPT_MS + 1, 5.0)
    assert seqs(engine) == [3, 4]


def test_of_too_many_the_oldest_are_forgotten(engine: Engine) -> None:
    book = ToolEvents(engine.database, kept_rows=10)
    for first in range(1, 31, 3):
        book.add(batch(first, 3, NOON), NOON, 5.0)
    assert seqs(engine) == list(range(21, 31))


def test_one_write_takes_only_some_of_them_away(engine: Engine) -> None:
    number = 2 * THINNED + 1
    ToolEvents(engine.database).add(batch(1, number, NOON), NOON, 5.0)
    left = []
    for extra in range(3):
        later_ms = NOON + KEPT_MS + 1
        ToolEvents(engine.database).add(batch(number + 1 + extra, 1, later_ms), later_ms, 5.0)
        left.append(len(seqs(engine)))
    # 1,025 old ones; each write adds one and takes 512, 512, and the last
    assert left == [THINNED + 2, 3, 3]
