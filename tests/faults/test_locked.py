"""Another process holds the ledger for as long as it likes: nobody waits, nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from budget_plugin.engine import judge, recorder, verdict_cache
from budget_plugin.engine.engine import Engine
from budget_plugin.hermes.parts import Parts
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.verdicts import Level
from budget_plugin.store.sql import connecting
from budget_plugin.store.sql.database import Database
from budget_plugin.testing import hook_kwargs
from tests.faults.engines import an_engine, begin, bill, level, recorded, warnings
from tests.ledgers import CENT, a_run, assert_totals_equal_rows, held_by_another_process

NOBODY_CAN_READ = ("PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE", "DELETE FROM cron_pauses")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = an_engine(tmp_path)
    yield made
    made.close()


@pytest.fixture
def waits(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How often the tool gate waited for the refresher, and how long it would have at most."""
    asked: list[float] = []
    refresher = engine.judge._refresher
    wait_for = refresher.wait_for

    def noted(scopes: list[tuple[object, str]], patience_s: float) -> bool:
        asked.append(patience_s)
        return wait_for(scopes, patience_s)  # type: ignore[arg-type]

    monkeypatch.setattr(refresher, "wait_for", noted)
    return asked


@pytest.mark.case("A56", "T32")
def test_the_tool_gate_goes_by_the_last_verdict_and_waits_once(
    engine: Engine, waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    live = begin(engine)
    engine.database.close()
    with held_by_another_process(engine.database.path, NOBODY_CAN_READ):
        engine.clock.advance(verdict_cache.TTL_S + 1)  # type: ignore[attr-defined]
        waits.clear()
        assert [level(engine, live) for _ in range(30)] == [Level.OK] * 30
        assert waits == [verdict_cache.PATIENCE_S]
        engine.clock.advance(judge.RETRY_S)  # type: ignore[attr-defined]
        assert level(engine, live) is Level.OK
        assert len(waits) == 2
    assert verdict_cache.PATIENCE_S <= 0.05
    assert warnings(caplog) == []


@pytest.mark.case("T33")
def test_a_gate_that_knows_nothing_yet_waits_no_longer_however_many_scopes(
    engine: Engine, waits: list[float], tmp_path: Path
) -> None:
    begin(engine)
    yaml = "timezone: UTC\nbudgets: {global: {daily_usd: 1}, per_sender: {default: {daily_usd: 1}}}"
    (tmp_path / "budget" / "budget.yaml").write_text(yaml)
    engine.reload_config()
    engine.database.close()
    with held_by_another_process(engine.database.path, NOBODY_CAN_READ):
        live = engine.runs.add(a_run("new", sender_id="telegram:1"))
        waits.clear()
        assert level(engine, live) is Level.OK  # `on_error: allow`
        assert waits == [verdict_cache.PATIENCE_S]


@pytest.mark.case("T33")
def test_the_patience_is_one_for_all_scopes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    refresher = verdict_cache.Refresher(lambda _scope: None)
    assert refresher.wait_for([(Scope.GLOBAL, "")], 10.0)  # its thread runs
    now_s, waited = [100.0], []

    class SlowEvent(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(round(timeout or 0.0, 3))
            now_s[0] += 0.030  # each answer takes so long
            return True

    monkeypatch.setattr(verdict_cache.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(verdict_cache.threading, "Event", SlowEvent)
    assert refresher.wait_for([(Scope.SENDER, f"{number}") for number in range(3)], 0.040)
    refresher.close()
    assert waited == [0.040, 0.010, 0.0]


@pytest.mark.case("T32", "A36")
def test_records_wait_count_in_the_verdict_and_are_not_lost(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    live = begin(engine)
    with held_by_another_process(engine.database.path):
        bill(engine, live, 4, 8 * CENT)
        assert engine.recorder.waiting_calls == 4
        assert level(engine, live) is Level.OK
        bill(engine, live, 9, 8 * CENT, "more")
        assert engine.recorder.waiting_calls == 13
        assert level(engine, live) is Level.HARD  # $1.04 of $1.00, none of it in the ledger yet
        assert recorded(engine) == (0, 0)
        assert engine.recorder.failing_since_ms is not None
        assert warnings(caplog) == [
            "the ledger does not answer (database is locked); rows wait in memory"
        ]
    assert engine.recorder.flush(10.0)
    assert recorded(engine) == (13, 104 * CENT)
    assert engine.recorder.failing_since_ms is None
    assert level(engine, live) is Level.HARD
    assert len(warnings(caplog)) == 1
    assert_totals_equal_rows(engine.ledger)


@pytest.mark.case("T32")
def test_the_agents_thread_asks_the_ledger_once_and_then_no_more(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = begin(engine)
    patiences: list[float] = []
    add_call = engine.ledger.add_call

    def noted(*args: object) -> object:
        patiences.append(args[2])  # type: ignore[arg-type]
        return add_call(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(engine.ledger, "add_call", noted)
    with held_by_another_process(engine.database.path):
        bill(engine, live, 30)
        assert patiences.count(recorder.PATIENCE_S) == 1
    assert engine.recorder.flush(10.0)
    assert recorded(engine)[0] == 30


@pytest.mark.case("A56")
def test_without_budgets_the_tool_gate_touches_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(tmp_path)
    hook = hook_kwargs()
    parts.hooks.pre_llm_call(**hook)
    engine = parts.runtime.engine()
    assert engine.recorder.flush(10.0)
    touched: list[object] = []
    monkeypatch.setattr(connecting, "connect", lambda *args: touched.append(args))
    monkeypatch.setattr(Database, "_current", lambda *args: touched.append(args))
    answers = [parts.tools.pre_tool_call(tool_name="terminal", args={}, **hook) for _ in range(30)]
    assert answers == [None] * 30
    assert touched == []
    monkeypatch.undo()
    engine.close()


@pytest.mark.case("A40")
def test_a_block_lifts_with_its_window_though_the_ledger_does_not_answer(engine: Engine) -> None:
    live = begin(engine)
    bill(engine, live, 11, 10 * CENT)
    assert level(engine, live) is Level.HARD
    assert engine.recorder.flush(10.0)
    engine.database.close()
    with held_by_another_process(engine.database.path, NOBODY_CAN_READ):
        engine.clock.advance(12 * 3600 + 1)  # type: ignore[attr-defined]
        assert level(engine, live) is Level.OK
