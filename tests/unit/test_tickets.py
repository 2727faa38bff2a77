"""Tickets: runs that share one budget, in one process and in several."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.hermes.parts import Parts
from budget_plugin.policy.prices.usage import read_usage
from budget_plugin.policy.runs.run_limits import Cause
from budget_plugin.testing import FakeClock, hook_kwargs, make_engine, make_run
from tests.billing import NOON, PRICES, ask, bill, counts, opened, run_in
from tests.ledgers import Child


def runs(limits: str) -> str:
    return f"runs:\n  default: {{{limits}}}\n  ticket: {{env: HERMES_KANBAN_TASK}}\n"


def tools(engine: Engine, live: LiveRun, most: int = 100) -> int:
    """How many tool calls start before one is refused."""
    started = 0
    while started < most and engine.guard.try_tool(live, "terminal", {}) is None:
        started += 1
    return started


def dispatches(engine: Engine, live: LiveRun, most: int = 100) -> int:
    started = 0
    while started < most and engine.guard.try_tool(live, "delegate_task", {}, 1) is None:
        started += 1
    return started


@contextmanager
def two_processes(home: Path, yaml: str) -> Iterator[tuple[Engine, Engine]]:
    """Two engines on one ledger know nothing of each other, as two processes do."""
    with opened(home, yaml) as one:
        other = make_engine(home, "", FakeClock(NOON))
        try:
            yield one, other
            assert other.recorder.flush(60)
        finally:
            other.close()


# ------------------------------------------------------------------------- laundering


@pytest.mark.parametrize(
    ("limits", "start", "most"), [("tool_calls: 7", tools, 7), ("dispatches: 8", dispatches, 8)]
)
def test_a_ticket_split_into_five_runs_has_one_ceiling(
    tmp_path: Path, limits: str, start: object, most: int
) -> None:
    """Five runs of two each want 10; one after the other they get no more than one run would."""
    assert callable(start)
    with opened(tmp_path, runs(limits)) as engine:
        started = []
        for _ in range(5):
            live = run_in(engine, ticket_id="SUP-1")
            started.append(start(engine, live, 2))
            engine.end_run(live, "completed")
        assert (sum(started), started[:3]) == (most, [2, 2, 2])
        assert start(engine, run_in(engine, ticket_id="SUP-2")) == most  # another ticket


def test_a_ticket_split_into_five_processes_has_one_ceiling(tmp_path: Path) -> None:
    total = 0
    for number in range(5):
        with opened(tmp_path, runs("tool_calls: 7, dispatches: 4")) as engine:
            live = run_in(engine, run_id=f"run-of-{number}", ticket_id="SUP-1")
            total += tools(engine, live, 2)
            engine.end_run(live, "completed")
    assert total == 7


AT_ONCE = """
import sys
from pathlib import Path
from budget_plugin.engine.runs import tickets
from tests.billing import opened, run_in
from tests.unit.test_tickets import dispatches
home, number = sys.argv[1:]
tickets.PATIENCE_S = 30.0  # a busy machine is no failure
with opened(Path(home)) as engine:  # whoever wrote the file again might be read half-way
    live = run_in(engine, run_id=f"run-of-{number}", ticket_id="SUP-1")
    print("ready", flush=True)
    sys.stdin.readline()
    print(dispatches(engine, live), flush=True)
"""


def test_five_processes_at_once_start_exactly_the_dispatches_of_one(tmp_path: Path) -> None:
    with opened(tmp_path, runs("dispatches: 8")):
        pass  # the file is there
    children = [Child(AT_ONCE, tmp_path, str(number)) for number in range(5)]
    for child in children:
        assert child.says() == "ready"
    for child in children:
        child.tell()
    started = [int(child.says()) for child in children]
    for child in children:
        child.end()
    assert sum(started) == 8


def test_five_runs_at_the_same_time_share_the_tools_to_the_call(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 7")) as engine:
        five = [run_in(engine, ticket_id="SUP-1") for _ in range(5)]
        started = [tools(engine, live, 2) for live in (*five, *five)]
        assert sum(started) == 7


def test_dollars_are_shared_and_a_new_run_of_a_spent_ticket_costs_nothing(tmp_path: Path) -> None:
    """A call costs 1,000 * 3,000 + 400 * 15,000 nano-dollars: 0.009."""
    with opened(tmp_path, runs("usd: 0.05")) as engine:
        made = 0
        for _ in range(8):
            live = run_in(engine, ticket_id="SUP-1")
            for _ in range(2):
                permit, request = ask(engine, live, max_tokens=400)
                if not permit.refused:
                    report = read_usage(counts(1_000, 400), approx_input_tokens=1_000)
                    engine.record(live, permit, request, report)
                    made += 1
            engine.end_run(live, "completed")
        assert made == 5  # the sixth would make it 0.054


def test_a_spent_ticket_gives_a_new_run_no_last_answer(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tokens: 3000")) as engine:
        first = run_in(engine, ticket_id="SUP-1")
        bill(engine, first, counts(2_000, 800), prompt_tokens=1_000, max_tokens=100)
        engine.end_run(first, "completed")
        second = run_in(engine, ticket_id="SUP-1")
        permit, _ = ask(engine, second)
        assert (permit.refused, permit.stop and permit.stop.cause) == (True, Cause.TOKENS)
        engine.end_run(second, "completed")
        assert engine.recorder.flush(60)
        ended = engine.run_records.named(second.run.run_id)
        assert ended is not None
        assert ended.receipt.ending.state == "NO_ANSWER_SAFE_FALLBACK"
        assert ended.receipt.ending.cause == Cause.TOKENS


def test_a_refusal_names_the_ceiling_that_the_ticket_has_reached(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 7")) as engine:
        first = run_in(engine, ticket_id="SUP-1")
        assert tools(engine, first, 5) == 5
        engine.end_run(first, "completed")
        second = run_in(engine, ticket_id="SUP-1")
        assert tools(engine, second) == 2
        assert engine.recorder.flush(60)
        (reason,) = engine.run_records.reasons(second.run.run_id)
        assert (reason.used, reason.amount) == (7, 7)
        assert reason.detail == "The tool-call budget of 7 is reached. Escalate, do not spin."


def test_the_account_says_that_the_ticket_is_spent(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 7")) as engine:
        first = run_in(engine, ticket_id="SUP-1")
        tools(engine, first, 5)
        engine.end_run(first, "completed")
        parts = Parts(tmp_path)
        parts.runtime._engine = engine
        kwargs = hook_kwargs()
        engine.open_run(
            make_run(run_id=kwargs["turn_id"], session_id=kwargs["session_id"], ticket_id="SUP-1")
        )
        for _ in range(3):
            parts.tools.pre_tool_call(**kwargs, tool_name="terminal", args={})
        text = parts.hooks.transform_llm_output(**kwargs, response_text="Two of them.")
        assert text is not None
        assert "partial, tool-call budget of ticket SUP-1, with its other runs; " in text
        assert "tool calls: 2 of 7" in text


# ------------------------------------------------------------------------- across processes


def test_what_one_process_used_the_other_has_less(tmp_path: Path) -> None:
    with two_processes(tmp_path, runs("tool_calls: 7, dispatches: 4")) as (one, other):
        a = run_in(one, run_id="a", ticket_id="SUP-1")
        b = run_in(other, run_id="b", ticket_id="SUP-1")
        assert (tools(one, a, 3), dispatches(one, a, 1)) == (3, 1)
        one.guard.tool_ended(a, "terminal", {}, failed=False)  # told off the hot path
        assert one.recorder.flush(60)
        # A dispatch is a tool call, too: 4 are used, and 3 of each are left.
        assert dispatches(other, b) == 3
        assert tools(other, b) == 0


def test_calls_under_way_elsewhere_count(tmp_path: Path) -> None:
    """Each call holds 1,000 + 1,000 tokens; of 9,000 * 90 % = 8,100 no five are under way."""
    with two_processes(tmp_path, runs("tokens: 9000")) as (one, other):
        a = run_in(one, run_id="a", ticket_id="SUP-1")
        b = run_in(other, run_id="b", ticket_id="SUP-1")
        permits = [ask(engine, live)[0] for engine, live in ((one, a), (other, b)) * 3]
        held = [p for p in permits if not p.refused]
        expected = sum(p.expected.held.tokens for p in held)
        assert expected <= 9_000
        assert any(p.refused or p.kind == "last" for p in permits)


def test_a_call_that_was_not_billed_is_given_back_to_all(tmp_path: Path) -> None:
    with two_processes(tmp_path, runs("tokens: 9000")) as (one, other):
        a = run_in(one, run_id="a", ticket_id="SUP-1")
        permit, _ = ask(one, a)
        one.release(permit)
        bill(one, a, counts(100, 20), prompt_tokens=100, max_tokens=100)
        assert one.recorder.flush(60)
        b = run_in(other, run_id="b", ticket_id="SUP-1")
        assert b.guarded is not None
        assert b.guarded.ticket is not None
        assert b.guarded.ticket.shared.budget.state.used.tokens == 120


def test_what_a_dead_process_had_under_way_stays_used(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tokens: 9000")) as engine:
        permit, _ = ask(engine, run_in(engine, ticket_id="SUP-1"))
        held = permit.expected.held.tokens
    with opened(tmp_path, runs("tokens: 9000")) as engine:
        live = run_in(engine, ticket_id="SUP-1")
        assert live.guarded is not None
        assert live.guarded.budget.states[1].used.tokens == held > 0


def test_the_time_of_a_ticket_is_that_of_its_runs(tmp_path: Path) -> None:
    """60 s, a night in between, 100 s: of 180 s there are 20 left."""
    clock = FakeClock(NOON)
    engine = make_engine(tmp_path, runs("wall_clock_s: 180"), clock)
    (engine.folder / "pricing.yaml").write_text(PRICES, encoding="utf-8")
    first = run_in(engine, ticket_id="SUP-1")
    clock.advance(60)
    engine.end_run(first, "completed")
    clock.advance(36_000)
    second = run_in(engine, ticket_id="SUP-1")
    assert second.guarded is not None
    clock.advance(100)
    assert second.guarded.budget.seconds_left(clock.monotonic()) == pytest.approx(20)
    engine.end_run(second, "completed")
    engine.close()
    again = make_engine(tmp_path, "", clock)
    third = run_in(again, ticket_id="SUP-1")
    assert third.guarded is not None
    assert third.guarded.budget.seconds_left(clock.monotonic()) == pytest.approx(20)
    clock.advance(20)
    assert third.guarded.budget.exhausted(clock.monotonic()) is Cause.DEADLINE
    again.close()


def test_a_ledger_that_does_not_answer_refuses_nothing_and_loses_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, runs("dispatches: 8")) as engine:
        live = run_in(engine, ticket_id="SUP-1")
        assert dispatches(engine, live, 1) == 1
        locker = sqlite3.connect(engine.database.path, isolation_level=None)
        locker.execute("BEGIN IMMEDIATE")
        assert dispatches(engine, live, 2) == 2  # by what is known here
        locker.execute("ROLLBACK")
        locker.close()
        engine.end_run(live, "completed")
        assert engine.recorder.flush(60)
    with opened(tmp_path, runs("dispatches: 8")) as engine:
        assert dispatches(engine, run_in(engine, ticket_id="SUP-1")) == 5


# ------------------------------------------------------------------------- whose ceilings


def test_the_strictest_of_the_open_runs_holds_and_a_raised_one_counts_for_new_runs(
    tmp_path: Path,
) -> None:
    yaml = "runs:\n  default: {tool_calls: 9}\n  cron: {tool_calls: 4}\n  ticket: {env: T}\n"
    with opened(tmp_path, yaml) as engine:
        chat = run_in(engine, ticket_id="SUP-1")
        assert tools(engine, chat, 3) == 3
        job = run_in(engine, kind="cron", ticket_id="SUP-1")
        assert tools(engine, job) == 1  # 3 of the 4 are used
        engine.end_run(job, "completed")
        assert tools(engine, chat) == 5
        engine.end_run(chat, "completed")
        path = engine.folder / "budget.yaml"
        path.write_text(yaml.replace("9", "12"), encoding="utf-8")
        engine.reload_config()
        assert tools(engine, run_in(engine, ticket_id="SUP-1")) == 3


def test_children_draw_on_the_ticket_through_their_parent(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 5")) as engine:
        for number in range(2):
            parent = run_in(engine, ticket_id="SUP-1")
            engine.delegated(parent, f"child-{number}", "")
            child = run_in(engine, session_id=f"child-{number}", kind="child")
            assert child.run.ticket_id == "SUP-1"
            assert tools(engine, child) == (5, 0)[number]


def test_without_ceilings_a_ticket_asks_no_ledger(tmp_path: Path) -> None:
    with opened(tmp_path, "runs: {ticket: {env: T}}") as engine:
        live = run_in(engine, ticket_id="SUP-1")
        assert live.guarded is not None
        assert live.guarded.ticket is None
        with engine.database.reading() as connection:
            assert connection.execute("SELECT count(*) FROM ticket_usage").fetchone() == (0,)


# ------------------------------------------------------------------------- nobody's


def test_what_happens_outside_of_any_turn_shares_a_day(tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    engine = make_engine(tmp_path, "runs: {default: {tool_calls: 3, wall_clock_s: 9}}", clock)
    started = [
        tools(engine, run_in(engine, run_id=f"s{number}:session", session_id=f"s{number}"), 2)
        for number in range(3)
    ]
    assert started == [2, 1, 0]
    clock.advance(13 * 3600)  # the next day, UTC; no deadline either, since nobody began
    assert tools(engine, run_in(engine, run_id="s9:session", session_id="s9"), 2) == 2
    assert tools(engine, engine.open_run(make_run(run_id="s0:session", session_id="s0"))) == 1
    assert engine.recorder.flush(60)
    assert engine.run_records.latest(9) == []
    engine.close()
