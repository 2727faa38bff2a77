"""Runs that are sent on: how often, until when, and what stands on the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.live_runs import LiveRun
from budget_plugin.engine.permits import Request
from budget_plugin.hermes.parts import Parts
from budget_plugin.policy.continuation import NUDGE
from budget_plugin.policy.events import Usage
from budget_plugin.policy.prices.usage import UsageReport
from budget_plugin.testing import FakeClock, at, hook_kwargs, make_engine, make_run

SENT_ON = "runs: {default: {tokens: 100000}, continuation: true}\n"


def an_engine(home: Path, yaml: str = SENT_ON) -> Engine:
    return make_engine(home, yaml, FakeClock(at("2026-11-30 12:00")))


def bill(engine: Engine, live: LiveRun, prompt: int, written: int) -> None:
    permit = engine.unasked(f"{live.run.run_id} {prompt} {written} {len(said(engine, live))}")
    report = UsageReport(Usage(prompt, written))
    engine.record(live, permit, Request("p", "m", "", 4_000, None), report)


def said(engine: Engine, live: LiveRun) -> list[tuple[str, str]]:
    engine.recorder.flush(10.0)
    return [
        (reason.action, reason.detail)
        for reason in engine.run_records.reasons(live.run.run_id)
        if reason.measure == "continuation"
    ]


def test_a_loop_ends_when_little_comes_of_it(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    live = engine.open_run(make_run())
    for written in (900, 700, 499):
        bill(engine, live, 5_000, written)
        assert engine.continuing.look(live) == NUDGE
    bill(engine, live, 5_000, 499)
    assert engine.continuing.look(live) == ""
    assert said(engine, live) == [
        ("sent on", "continuation 1, 900 new tokens"),
        ("sent on", "continuation 2, 700 new tokens"),
        ("sent on", "continuation 3, 499 new tokens"),
        ("ended", "diminishing returns after 3 continuations, 499 new tokens"),
    ]
    engine.end_run(live, "completed")
    assert len(said(engine, live)) == 4
    engine.close()


def test_what_children_write_is_new_as_well(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    live = engine.open_run(make_run())
    engine.delegated(live, "child", "leaf")
    child = engine.open_run(make_run(session_id="child", kind="child"))
    for _ in range(4):
        bill(engine, live, 1_000, 10)
        bill(engine, child, 1_000, 600)
        assert engine.continuing.look(live) == NUDGE
    assert engine.continuing.look(child) == ""
    engine.close()


@pytest.mark.parametrize(
    ("yaml", "tokens"),
    [
        (SENT_ON, 90_000),  # 90 % of the tokens: the run has to finish
        ("runs: {default: {tokens: 100000}}\n", 1_000),
        ("runs: {default: {tool_calls: 9}, continuation: true}\n", 1_000),
        ("runs: {default: {tokens: 100000, usd: 0}, continuation: true}\n", 1_000),
    ],
)
def test_who_is_not_sent_on(tmp_path: Path, yaml: str, tokens: int) -> None:
    engine = an_engine(tmp_path, yaml)
    live = engine.open_run(make_run())
    bill(engine, live, tokens, 0)
    assert engine.continuing.look(live) == ""
    assert said(engine, live) == []
    engine.close()


def test_a_run_that_is_sent_on_is_not_told_to_hurry(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    live = engine.open_run(make_run())
    bill(engine, live, 80_000, 0)
    assert engine.telling.note(live) is None
    assert engine.continuing.look(live) == NUDGE
    engine.close()


def test_the_end_of_a_loop_that_nobody_asked_about_is_written_down(tmp_path: Path) -> None:
    engine = an_engine(tmp_path)
    live = engine.open_run(make_run())
    bill(engine, live, 1_000, 900)
    engine.continuing.look(live)
    engine.end_run(live, "completed")
    assert said(engine, live)[-1] == ("ended", "nobody asked after 1 continuation")
    engine.close()


def test_the_hook_answers_in_the_hosts_words(tmp_path: Path) -> None:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "budget.yaml").write_text(SENT_ON)
    hooks = Parts(tmp_path).hooks
    said_by_host = {"attempt": 0, "final_response": "done", "changed_paths": ["a"]}
    kwargs = hook_kwargs()
    assert hooks.pre_verify(session_id=kwargs["session_id"], **said_by_host) is None
    hooks.pre_llm_call(**kwargs, user_message="go")
    answer = hooks.pre_verify(session_id=kwargs["session_id"], **said_by_host)
    assert answer == {"action": "continue", "message": NUDGE}
