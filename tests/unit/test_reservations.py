"""Money set aside: one atomic step for all processes, and nothing of the dead stays set aside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.leftovers import PAUSE_S
from budget_plugin.engine.permits import Request
from budget_plugin.policy import admission
from budget_plugin.policy.admission import Expected, Kind
from budget_plugin.policy.events import CostSource, Run
from budget_plugin.policy.limits import Limit, Measure, OnEstimated, Scope, Thresholds
from budget_plugin.policy.windows import Window, period
from budget_plugin.store import processes
from budget_plugin.store.processes import Owner, this_process
from budget_plugin.store.reservations import FOREIGN_OWNER_MS, Asked, Reservations
from budget_plugin.testing import FakeClock, make_engine, make_run
from tests.ledgers import (
    CENT,
    GLOBAL,
    NOON,
    PATIENCE_S,
    UTC,
    Child,
    a_call,
    open_ledger,
    rows,
    spent,
)

DAY = period(Window.DAILY, NOON, UTC)
ONE_DOLLAR = Limit(Scope.GLOBAL, "", Window.DAILY, Measure.USD, 100 * CENT)
FIVE_CENTS = Expected(prompt_tokens=10, input_nanos=5 * CENT)
BUDGET = "timezone: UTC\nbudgets: {global: {daily_usd: 1.00}}\n"
PRICES = "unit: usd_per_million_tokens\nmodels:\n  a-model: {input: 10, output: 10}\n"


def ask(reservations: Reservations, attempt_id: str, run: Run, owner: Owner) -> Kind:
    """Ask for one call of five cents under a dollar a day."""
    limits = {GLOBAL: [(ONE_DOLLAR, DAY)]}
    asked = Asked(attempt_id, run, "p", "a-model", NOON, limits, FIVE_CENTS)
    decide = partial(
        admission.admit,
        expected=FIVE_CENTS,
        last_answers=0,
        closing=False,
        thresholds=Thresholds(),
        on_estimated=OnEstimated.WARN_ONLY,
    )
    return reservations.admit(asked, decide, owner, PATIENCE_S)[0].kind


ONCE = """
import json
from budget_plugin.store.processes import this_process
owner = this_process()
print(json.dumps([owner.host, owner.pid, owner.started]))
"""


def a_dead_process() -> Owner:
    """A process that has been, and its number that nobody has now."""
    child = Child(ONCE)
    owner = Owner(*json.loads(child.says()))
    child.end()
    return owner


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "pricing.yaml").write_text(PRICES)
    made = make_engine(tmp_path, BUDGET, FakeClock(NOON))
    yield made
    made.close()


def leave(engine: Engine, owner: Owner, name: str = "left") -> Run:
    """A call of five cents was admitted for an owner and never settled."""
    run = make_run(sender_id="telegram:1")
    assert ask(engine.reservations, name, run, owner) is Kind.NORMAL
    return run


# ---------------------------------------------------------------------- who is gone


def test_a_living_process_keeps_what_it_set_aside(engine: Engine) -> None:
    leave(engine, this_process())
    assert engine.leftovers.sweep() == 0
    assert rows(engine.ledger, table="reservations") == [(1,)]


def test_the_reservation_of_a_dead_process_becomes_a_flagged_row(engine: Engine) -> None:
    run = leave(engine, a_dead_process())
    assert engine.leftovers.sweep() == 1
    assert rows(engine.ledger, table="reservations") == [(0,)]
    columns = "attempt_id, run_id, cost_nanos, estimated, flags, at_ms, model"
    assert rows(engine.ledger, columns) == [
        ("left", run.run_id, 5 * CENT, 1, "abandoned", NOON, "a-model")
    ]
    assert spent(engine.ledger).estimated_nanos == 5 * CENT
    assert engine.leftovers.sweep() == 0


def test_a_process_number_that_is_used_again_is_another_process(engine: Engine) -> None:
    leave(engine, replace(this_process(), started="another boot 17"))
    assert engine.leftovers.sweep() == 1


def test_a_zombie_settles_nothing_any_more() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert processes.is_gone(replace(this_process(), pid=child.pid, started="x 1"))


def test_another_hosts_reservation_expires_by_time_alone(engine: Engine) -> None:
    leave(engine, Owner("elsewhere", 1, "1"))
    clock = engine.clock
    assert isinstance(clock, FakeClock)
    clock.advance(FOREIGN_OWNER_MS / 1000)
    assert engine.leftovers.sweep() == 0
    clock.advance(0.001)
    assert engine.leftovers.sweep() == 1


def test_where_the_system_tells_no_start_time_alone_expires_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = replace(this_process(), pid=os.getppid(), started="")
    monkeypatch.setattr(processes, "_started", lambda _pid: "")
    leave(engine, owner)
    assert engine.leftovers.sweep() == 0
    engine.clock.advance(FOREIGN_OWNER_MS / 1000 + 1)  # type: ignore[attr-defined]
    assert engine.leftovers.sweep() == 1


def test_the_true_row_of_one_thought_dead_replaces_the_flagged_one(engine: Engine) -> None:
    run = leave(engine, a_dead_process())
    engine.leftovers.sweep()
    late = a_call("left", run, 2 * CENT, source=CostSource.PROVIDER)
    engine.ledger.add_call(late, run, PATIENCE_S)
    assert rows(engine.ledger, "cost_nanos, estimated, flags") == [(2 * CENT, 0, "")]


# ---------------------------------------------------------------------- when it is looked


def test_the_first_admission_of_a_process_takes_up_what_the_dead_left(engine: Engine) -> None:
    leave(engine, a_dead_process())
    live = engine.open_run(make_run())
    engine.admit(live, Request("p", "a-model", "", 100, 100))
    assert engine.recorder.flush(10.0)
    assert rows(engine.ledger, "flags") == [("abandoned",)]


def test_before_refusing_it_is_looked_whether_the_dead_hold_the_room(engine: Engine) -> None:
    engine._took_up = True  # the look at the start was before they died
    dead = a_dead_process()
    for number in range(20):
        leave(engine, dead, f"left {number}")
    live = engine.open_run(make_run())
    permit = engine.admit(live, Request("p", "a-model", "", 100, 100))
    assert permit.kind is Kind.NORMAL
    assert rows(engine.ledger, "count(*), sum(cost_nanos)") == [(20, 100 * CENT)]


def test_while_calls_are_refused_it_is_looked_once_a_minute(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine._took_up = True
    looks = []
    abandoned = engine.reservations.abandoned
    monkeypatch.setattr(
        engine.reservations, "abandoned", lambda now_ms: looks.append(now_ms) or abandoned(now_ms)
    )
    for number in range(20):
        leave(engine, this_process(), f"in flight {number}")
    live = engine.open_run(make_run())
    request = Request("p", "a-model", "", 100, 100)
    assert [engine.admit(live, request).refused for _ in range(5)] == [True] * 5
    assert len(looks) == 1
    engine.clock.advance(PAUSE_S)  # type: ignore[attr-defined]
    assert engine.admit(live, request).refused
    assert len(looks) == 2


# ---------------------------------------------------------------------- one atomic step

ASKER = """
import sys
from pathlib import Path
from budget_plugin.policy.admission import Kind
from budget_plugin.store.processes import this_process
from budget_plugin.store.reservations import Reservations
from budget_plugin.testing import make_run
from tests.ledgers import open_ledger
from tests.unit.test_reservations import ask
name, folder = sys.argv[1:]
ledger = open_ledger(Path(folder))
reservations = Reservations(ledger.database)
run = make_run(run_id=name)
print("ready", flush=True)
sys.stdin.readline()
kinds = [ask(reservations, f"{name} {n}", run, this_process()) for n in range(15)]
print(sum(kind is not Kind.REFUSED for kind in kinds), flush=True)
sys.stdin.readline()
"""


@pytest.mark.case("T15")
def test_four_processes_set_aside_what_the_limit_holds_and_not_a_cent_more(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    spent(ledger)
    askers = [Child(ASKER, f"asker-{number}", tmp_path) for number in range(4)]
    assert [asker.says() for asker in askers] == ["ready"] * 4
    for asker in askers:
        asker.tell()
    admitted = [int(asker.says()) for asker in askers]
    assert [asker.end() for asker in askers] == [0] * 4
    assert sum(admitted) == 20
    found = rows(ledger, "count(*), sum(nanos)", "reservations")
    ledger.database.close()
    assert found == [(20, 100 * CENT)]


def test_a_refused_call_sets_nothing_aside_and_names_the_limit(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    reservations, run = Reservations(ledger.database), make_run()
    kinds = [ask(reservations, f"a{n}", run, this_process()) for n in range(21)]
    assert kinds == [Kind.NORMAL] * 20 + [Kind.REFUSED]
    reservations.release("a3", PATIENCE_S)
    assert ask(reservations, "again", run, this_process()) is Kind.NORMAL
    ledger.database.close()
