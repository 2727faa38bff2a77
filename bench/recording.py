"""How fast calls are recorded and admitted, beside the same statements through plain `sqlite3`."""

import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from budget_plugin.engine.engine import Engine
from budget_plugin.policy import admission
from budget_plugin.policy.admission import Expected
from budget_plugin.policy.charges import call_scopes
from budget_plugin.policy.events import Call, Run
from budget_plugin.policy.limits import OnEstimated, Thresholds
from budget_plugin.store.processes import this_process
from budget_plugin.store.reservations import Asked
from budget_plugin.store.sql.database import Database

from .at_once import at_once, wait_for_start
from .homes import ALL_SCOPES, MODEL, PROVIDER, a_call, a_run, make_home, with_totals
from .timing import Row, cpu_us, cpu_us_in_turns, each_us

WRITERS = 4
PATIENCE_S = 5.0


def rows(folder: Path, calls: int) -> list[Row]:
    """Recording one call, admission and settlement, and four processes at once."""
    engine = Engine(make_home(folder / "recording", ALL_SCOPES))
    run = a_run(engine.clock.now_ms())
    with_totals(engine, run)
    result = [_record(engine, run, calls), _admission(engine, run, calls)]
    engine.close()
    return [*result, _many_writers(make_home(folder / "writers", ALL_SCOPES), calls)]


def _record(engine: Engine, run: Run, calls: int) -> Row:
    now_ms = engine.clock.now_ms()
    ready = [a_call(run, now_ms) for _ in range(calls + 100)]
    record = partial(_next_recorded, engine, run, iter(ready))
    for _ in range(50):
        record()
    with closing(sqlite3.connect(engine.database.path, isolation_level=None)) as plain:
        plain.execute("PRAGMA synchronous=NORMAL")
        statements = _statements_of(engine, run, now_ms)
        plainly = partial(_plainly, plain, statements)
        ours, theirs = cpu_us_in_turns(record, plainly, calls=50, batches=calls // 50)
    return Row(
        "recording one call (row and 8 totals, committed)",
        "≤ 50 µs, ≤ 1.5 × plain sqlite3",
        f"{ours:.0f} µs, {ours / theirs:.2f} × (plain {theirs:.0f} µs)",
        ours <= 50 and ours <= 1.5 * theirs,
    )


def _next_recorded(engine: Engine, run: Run, ready: Any) -> None:
    engine.ledger.add_call(next(ready), run, PATIENCE_S)


class _Listening:
    """A connection that notes what it is asked to execute."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.heard: list[tuple[str, tuple[Any, ...]]] = []

    def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        self.heard.append((sql, tuple(values)))
        return self._connection.execute(sql, values)


def _statements_of(engine: Engine, run: Run, now_ms: int) -> list[tuple[str, tuple[Any, ...]]]:
    """What recording a call sends to SQLite, listened to and taken as it is."""
    database = engine.database
    with database.writing(PATIENCE_S) as connection:
        listening = _Listening(connection)

    @contextmanager
    def overheard(patience_s: float) -> Iterator[_Listening]:
        with Database.writing(database, patience_s):
            yield listening

    with patch.object(database, "writing", overheard):
        engine.ledger.add_call(a_call(run, now_ms), run, PATIENCE_S)
        listening.heard.clear()  # the run's own row is written with its first call only
        engine.ledger.add_call(a_call(run, now_ms), run, PATIENCE_S)
    return listening.heard


_plain_ids = iter(range(10**9))


def _plainly(plain: sqlite3.Connection, statements: list[tuple[str, tuple[Any, ...]]]) -> None:
    plain.execute("BEGIN IMMEDIATE")
    for sql, values in statements:
        is_call = sql.startswith("INSERT INTO calls")
        bound = (f"plain-{next(_plain_ids)}", *values[1:]) if is_call else values
        plain.execute(sql, bound).fetchall()
    plain.execute("COMMIT")


def _admission(engine: Engine, run: Run, calls: int) -> Row:
    both = _admit_and_settle(engine, run)
    for _ in range(50):
        both()
    taken = cpu_us(both, calls=50, batches=calls // 50)
    return Row("admission and settlement of one call", "≤ 100 µs", f"{taken:.0f} µs", taken <= 100)


def _admit_and_settle(engine: Engine, run: Run) -> Callable[[], None]:
    rules, now_ms, owner = engine.rules(), engine.clock.now_ms(), this_process()
    limits = {
        scope: rules.limits_now(scope, now_ms)
        for scope in call_scopes(run, MODEL)
        if rules.limits(scope)
    }
    expected = Expected(12_000, 36_000_000, 933, 15_000, 65_536)
    decide = partial(
        admission.admit,
        expected=expected,
        last_answers=1,
        closing=False,
        thresholds=Thresholds(),
        on_estimated=OnEstimated.WARN_ONLY,
    )

    def both() -> None:
        call = a_call(run, now_ms)
        asked = Asked(call.attempt_id, run, PROVIDER, MODEL, now_ms, limits, expected)
        engine.reservations.admit(asked, decide, owner, PATIENCE_S)
        engine.ledger.add_call(call, run, PATIENCE_S)

    return both


# ---------------------------------------------------------------------- many processes


def _many_writers(home: Path, calls: int) -> Row:
    engine = Engine(home)
    with_totals(engine, a_run(engine.clock.now_ms()))
    command = [sys.executable, "-m", "bench.recording", str(home), str(calls)]
    told = at_once([[*command, str(number)] for number in range(WRITERS)])
    seconds = max(t["ended"] for t in told) - min(t["begun"] for t in told)
    slowest_ms = max(t["slowest_ms"] for t in told)
    lost = WRITERS * calls - _rows_in(engine)
    _, differences = engine.ledger.verify()
    engine.close()
    rate = WRITERS * calls / seconds
    return Row(
        f"{WRITERS} processes recording at once",
        "≥ 10,000 rows/s together, slowest ≤ 100 ms, none lost",
        f"{rate:,.0f} rows/s, slowest {slowest_ms:.0f} ms, {lost} lost, "
        f"{len(differences)} totals wrong",
        rate >= 10_000 and slowest_ms <= 100 and lost == 0 and not differences,
    )


def _rows_in(engine: Engine) -> int:
    with closing(engine.database.connect()) as connection:
        found: int = connection.execute("SELECT count(*) FROM calls").fetchone()[0]
        return found


def write_many(home: Path, calls: int, number: int) -> None:
    """One of the writing processes: waits for its start, records, tells how long it took."""
    engine = Engine(home)
    now_ms = engine.clock.now_ms()
    run = a_run(now_ms)
    ready: list[Call] = [a_call(run, now_ms) for _ in range(calls)]
    named = [_renamed(call, number) for call in ready]
    with engine.database.writing(PATIENCE_S):
        pass  # the connection is there
    wait_for_start()
    begun = time.time()
    slowest_us = max(each_us(partial(_next_recorded, engine, run, iter(named)), calls))
    told = {"begun": begun, "ended": time.time(), "slowest_ms": slowest_us / 1000}
    print(json.dumps(told), flush=True)


def _renamed(call: Call, number: int) -> Call:
    return replace(call, attempt_id=f"{number}-{call.attempt_id}")


if __name__ == "__main__":
    write_many(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
