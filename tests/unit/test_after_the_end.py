"""Endings are absorbing; new work is a new run; turns of the host's own belong to their cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun, Origin
from budget_plugin.messages.run_reports import receipt_text, run_data
from budget_plugin.policy.prices.usage import read_usage
from budget_plugin.policy.runs.run_limits import Cause
from budget_plugin.store.run_records import EndedRun
from budget_plugin.testing import make_run
from tests.billing import ask, bill, counts, opened, run_in


def tool(engine: Engine, live: LiveRun) -> bool:
    return engine.guard.try_tool(live, "terminal", {}) is None


def runs(limits: str) -> str:
    return f"runs:\n  default: {{{limits}}}\n"


def ended(engine: Engine, live: LiveRun) -> EndedRun:
    assert engine.recorder.flush(60)
    found = engine.run_records.named(live.run.run_id)
    assert found is not None
    return found


def stopped_run(engine: Engine, session_id: str = "s") -> LiveRun:
    """A run that ended by its only tool call, without having used its last answer."""
    live = run_in(engine, session_id=session_id)
    assert [tool(engine, live) for _ in range(2)] == [True, False]
    engine.end_run(live, "completed")
    return live


def turn_of_the_host(engine: Engine, session_id: str = "s") -> LiveRun:
    return engine.open_run(make_run(session_id=session_id), origin=Origin.HOST)


# ------------------------------------------------------------------------- absorbing


@pytest.mark.case("A54")
def test_after_a_breach_everything_more_of_the_run_is_refused_and_says_so(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        live = stopped_run(engine)
        before = ended(engine, live)
        permit, _ = ask(engine, live)
        assert (permit.refused, permit.stop and permit.stop.cause) == (True, Cause.ENDED)
        for children in (None, 1):
            refused = engine.guard.try_tool(live, "delegate_task", {}, children)
            assert refused is not None
            assert "This run has ended. New work is a new run." in str(refused)
        engine.end_run(live, "completed")
        engine.end_run(live, "failed")
        assert ended(engine, live) == before
        assert len(engine.run_records.latest(9)) == 1


def test_a_child_of_a_stopped_run_is_refused_without_a_last_answer(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        parent = run_in(engine, session_id="s")
        engine.delegated(parent, "c", "")
        child = run_in(engine, session_id="c", kind="child")
        assert [tool(engine, parent) for _ in range(2)] == [True, False]
        engine.end_run(parent, "completed")
        assert ask(engine, child)[0].refused


# ------------------------------------------------------------------------- new work


def test_new_work_is_a_new_run_linked_to_the_one_that_was_stopped(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        old = stopped_run(engine)
        new = run_in(engine, session_id="s", run_id="the-new-run")
        assert tool(engine, new)
        engine.end_run(new, "completed")
        shown = ended(engine, new)
        assert run_data(shown)["linked_run_id"] == old.run.run_id
        assert f"goes on from {old.run.run_id[-8:]}" in receipt_text(shown, engine.rules().zone)
        third = run_in(engine, session_id="s")  # the second was not stopped
        engine.end_run(third, "completed")
        assert ended(engine, third).linked_run_id == ""


def test_the_link_is_found_by_the_next_process(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        old = stopped_run(engine)
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        new = run_in(engine, session_id="s")
        engine.end_run(new, "completed")
        assert ended(engine, new).linked_run_id == old.run.run_id


# ------------------------------------------------------------------------- the host's own turns


def test_a_report_belongs_to_the_run_that_delegated_though_a_person_spoke_since(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, runs("tool_calls: 3")) as engine:
        first = run_in(engine, session_id="s")
        assert tool(engine, first)
        engine.delegated(first, "c", "")
        engine.end_run(first, "completed")
        between = run_in(engine, session_id="s")
        assert [tool(engine, between) for _ in range(3)] == [True] * 3
        engine.end_run(between, "completed")
        report = engine.open_run(make_run(session_id="s"), origin=Origin.DELEGATION)
        assert [tool(engine, report) for _ in range(3)] == [True, True, False]
        engine.end_run(report, "completed")
        assert ended(engine, report).linked_run_id == first.run.run_id


def test_continuations_spend_the_budget_of_the_run_that_they_continue(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 5")) as engine:
        first = run_in(engine, session_id="s")
        assert tool(engine, first)
        engine.end_run(first, "completed")
        started = 0
        for _ in range(10):
            again = turn_of_the_host(engine)
            started += sum(tool(engine, again) for _ in range(2))
            engine.end_run(again, "completed")
            assert again.guarded is not None
            assert len(list(again.guarded.chain)) == 2  # however often
        assert started == 4


def test_all_continuations_together_have_one_last_answer(tmp_path: Path) -> None:
    """Each call uses 1,400 tokens; of 6,000 the run stops at 5,400."""
    with opened(tmp_path, runs("tokens: 6000")) as engine:
        first = run_in(engine, session_id="s")
        bill(engine, first, counts(1_000, 400), max_tokens=400)
        engine.end_run(first, "completed")
        kinds = []
        for _ in range(8):
            again = turn_of_the_host(engine)
            permit, request = ask(engine, again, max_tokens=400)
            kinds.append(permit.kind)
            if not permit.refused:
                report = read_usage(counts(1_000, 400), approx_input_tokens=1_000)
                engine.record(again, permit, request, report)
            engine.end_run(again, "completed")
        assert kinds == ["normal", "last", *["refused"] * 6]


def test_a_turn_of_the_host_after_a_breach_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 1")) as engine:
        stopped_run(engine)
        again = turn_of_the_host(engine)
        permit, _ = ask(engine, again)
        assert (permit.refused, permit.stop and permit.stop.cause) == (True, Cause.ENDED)
        assert not tool(engine, again)


def test_a_turn_of_the_host_without_a_cause_is_a_run_of_its_own(tmp_path: Path) -> None:
    with opened(tmp_path, runs("tool_calls: 2")) as engine:
        alone = turn_of_the_host(engine, "new")
        assert [tool(engine, alone) for _ in range(3)] == [True, True, False]
