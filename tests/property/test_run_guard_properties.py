"""The engine's guard in any order of events: open, tool, call, delegate, return, finish, crash.

Never two endings of a run, never none once everything is over, and after a run was stopped nothing
of it starts any more.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun, Origin
from budget_plugin.policy.prices.usage import read_usage
from budget_plugin.policy.runs.endings import Status
from budget_plugin.policy.runs.lifecycle import UNDO_CALLS
from budget_plugin.policy.runs.receipts import Receipt
from budget_plugin.testing import FakeClock, make_engine, make_run
from tests.billing import NOON, PRICES, ask, counts

TOOLS, DISPATCHES, TOKENS = 4, 2, 6_000

SETTINGS = f"""\
timezone: UTC
runs:
  default: {{tool_calls: {TOOLS}, dispatches: {DISPATCHES}, tokens: {TOKENS}, wall_clock_s: 100}}
  commands:
    asks: {{on_exhausted: ask}}
    aborts: {{on_exhausted: abort}}
    reports: {{on_exhausted: report}}
  ticket: {{env: HERMES_KANBAN_TASK}}
"""


class GuardedRuns(RuleBasedStateMachine):
    """Two conversations, their children, and whoever crashes or decides in between."""

    runs: Bundle[LiveRun] = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name)
        self.clock = FakeClock(NOON)
        self.engine = self._engine()
        self.opened: list[LiveRun] = []
        self.gone: set[str] = set()  # runs of processes that are no more
        self.children: list[str] = []  # sessions that have not come back
        self.said: set[str] = set()  # runs of which the host has said that their turn is over
        self.endings: dict[str, Receipt] = {}

    def _engine(self) -> Engine:
        engine = make_engine(self.home, SETTINGS, self.clock)
        (engine.folder / "pricing.yaml").write_text(PRICES, encoding="utf-8")
        return engine

    def _lives(self, live: LiveRun) -> bool:
        return live.run.run_id not in self.gone

    def _was_stopped(self, live: LiveRun) -> bool:
        ended = self.endings.get(live.run.run_id)
        return ended is not None and ended.ending.is_breach

    # ------------------------------------------------------------------ a run begins

    @initialize(target=runs)
    def a_first_turn(self) -> LiveRun:
        return self._opened("s", Origin.PERSON, "asks", "")

    @precondition(lambda self: len(self.opened) < 12)
    @rule(
        target=runs,
        session=st.sampled_from(["s", "t"]),
        origin=st.sampled_from(Origin),
        command=st.sampled_from(["asks", "aborts", "reports", ""]),
        ticket=st.sampled_from(["", "SUP-1"]),
    )
    def a_turn(self, session: str, origin: Origin, command: str, ticket: str) -> LiveRun:
        return self._opened(session, origin, command, ticket)

    def _opened(self, session: str, origin: Origin, command: str, ticket: str) -> LiveRun:
        run = make_run(session_id=session, ticket_id=ticket)
        run = replace(run, started_ms=self.clock.now_ms())
        live = self.engine.open_run(run, command=command, origin=origin)
        self.opened.append(live)
        return live

    # ------------------------------------------------------------------ what it does

    @rule(live=runs, failed=st.booleans(), path=st.sampled_from("ab"))
    def a_tool(self, live: LiveRun, failed: bool, path: str) -> None:
        if not self._lives(live):
            return
        args = {"path": path}
        if self.engine.guard.try_tool(live, "write_file", args) is None:
            assert not self._was_stopped(live)
            self.engine.guard.tool_ended(live, "write_file", args, failed=failed)

    @rule(live=runs, end=st.sampled_from(["billed", "not billed"]))
    def a_call(self, live: LiveRun, end: str) -> None:
        if not self._lives(live):
            return
        permit, request = ask(self.engine, live, prompt_tokens=500, max_tokens=200)
        if permit.refused:
            assert permit.stop is not None
            return
        assert not self._was_stopped(live)
        if end == "not billed":
            self.engine.release(permit)
            return
        report = read_usage(counts(500, 200), approx_input_tokens=500)
        self.engine.record(live, permit, request, report)

    @precondition(lambda self: len(self.opened) < 12)
    @rule(target=runs, live=runs, count=st.integers(1, 3), waits=st.booleans())
    def it_delegates(self, live: LiveRun, count: int, waits: bool) -> object:
        """Children start; in the background if the turn does not wait for them."""
        if not self._lives(live):
            return multiple()
        if self.engine.guard.try_tool(live, "delegate_task", {}, count) is not None:
            return multiple()
        assert not self._was_stopped(live)
        started = []
        for _ in range(count):
            child = make_run(kind="child")
            self.engine.delegated(live, child.session_id, "")
            run = replace(child, started_ms=self.clock.now_ms())
            started.append(self.engine.open_run(run))
            self.children.append(child.session_id)
        self.opened += started
        if not waits:
            self._ends(live)
        return multiple(*started)

    @precondition(lambda self: self.children)
    @rule(data=st.data())
    def a_child_returns(self, data: st.DataObject) -> None:
        session = self.children.pop(data.draw(st.integers(0, len(self.children) - 1)))
        self._returns(session)

    def _returns(self, session: str) -> None:
        self.engine.child_stopped(session, "completed")
        child = self.engine.runs.find("", session)
        if child is not None:
            self._ends(child)

    # ------------------------------------------------------------------ how it ends

    def _ends(self, live: LiveRun, how: str = "completed") -> None:
        self.said.add(live.run.run_id)
        self.engine.end_run(live, how)

    @rule(live=runs, how=st.sampled_from(["completed", "interrupted", "failed"]))
    def a_turn_ends(self, live: LiveRun, how: str) -> None:
        if self._lives(live):
            self._ends(live, how)

    @rule(live=runs)
    def the_conversation_is_put_away(self, live: LiveRun) -> None:
        if self._lives(live):
            self.engine.guard.release(live)

    @rule(seconds=st.sampled_from([1, 40, 120]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(yes=st.booleans(), amount=st.integers(1, 3))
    def a_person_decides(self, yes: bool, amount: int) -> None:
        assert self.engine.recorder.flush(60)
        for request in self.engine.extensions.requests.still_open():
            if yes:
                assert self.engine.extensions.grant(request, amount, "me", "command line")
            else:
                assert self.engine.extensions.deny(request, "me", "command line")
            assert not self.engine.extensions.deny(request, "me", "command line")

    @rule()
    def the_process_crashes_and_another_begins(self) -> None:
        assert self.engine.recorder.flush(60)
        before = self._read()
        with self.engine.database.writing(1.0) as connection:
            connection.execute("UPDATE runs SET owner_started = 'long ago'")
        self.engine.close()
        self.engine = self._engine()
        open_runs = {live.run.run_id for live in self.opened} - set(before)
        assert self.engine.guard.close_crashed(10.0) == len(open_runs)
        assert self.engine.guard.close_crashed(10.0) == 0
        for run_id in open_runs:
            assert self._read()[run_id].ending.cause == "crashed"
        self.gone |= {live.run.run_id for live in self.opened}
        self.children = []

    # ------------------------------------------------------------------ what always holds

    def _read(self) -> dict[str, Receipt]:
        assert self.engine.recorder.flush(60)
        rows = self.engine.run_records.latest(1_000)
        found = {row.run_id: row.receipt for row in rows}
        assert len(found) == len(rows)
        return found

    @invariant()
    def an_ending_stays_what_it_was(self) -> None:
        now = self._read()
        for run_id, receipt in self.endings.items():
            assert now[run_id] == receipt
        for receipt in now.values():
            if receipt.ending.is_exhausted:
                assert receipt.ending.status is Status.PARTIAL
        self.endings = now

    @invariant()
    def nobody_passes_a_ceiling(self) -> None:
        for live in self.opened:
            run = live.guarded
            if run is None or not self._lives(live):
                continue
            for budget, state in zip(run.chain, run.budget.states, strict=True):
                limits, used = state.limits, state.used
                assert limits.tool_calls is not None
                assert limits.dispatches is not None
                assert limits.tokens is not None
                undone = UNDO_CALLS * len(self.opened) if _aborts(self.opened) else 0
                assert used.tool_calls <= limits.tool_calls + undone, budget.budget.run_id
                assert used.dispatches <= limits.dispatches
                assert used.tokens <= limits.tokens

    def teardown(self) -> None:
        """Everything is let go of: then every run has one ending."""
        for session in self.children:
            self._returns(session)
        for live in self.opened:
            if self._lives(live):
                if live.run.run_id not in self.said:
                    self._ends(live)
                self.engine.guard.release(live)
        assert set(self._read()) == {live.run.run_id for live in self.opened}
        self.an_ending_stays_what_it_was()
        self.engine.close()
        self.folder.cleanup()


def _aborts(opened: list[LiveRun]) -> bool:
    return any(live.guarded is not None and live.guarded.effects is not None for live in opened)


TestGuardedRuns = pytest.mark.case("A54")(GuardedRuns.TestCase)
TestGuardedRuns.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
