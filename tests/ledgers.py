"""Ledgers to test with: rows of our own making, and another process that holds the lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from zoneinfo import ZoneInfo

from budget_plugin.policy.charges import ScopeId
from budget_plugin.policy.events import Call, Cost, CostSource, Edge, Run, Usage
from budget_plugin.policy.limits import Scope
from budget_plugin.policy.verdicts import Spend
from budget_plugin.policy.windows import Window, period
from budget_plugin.store.ledger import Ledger
from budget_plugin.store.sql.database import Database
from budget_plugin.testing import at

NOON = at("2026-11-30 12:00")
UTC = ZoneInfo("UTC")
GLOBAL: ScopeId = (Scope.GLOBAL, "")
CENT = 10_000_000
PATIENCE_S = 10.0


def open_ledger(folder: Path) -> Ledger:
    """A ledger in a folder of a test."""
    return Ledger(Database(folder / "budget" / "ledger.db"))


def a_run(run_id: str, session_id: str = "", **scopes: str) -> Run:
    """A root run; its session is named after it where no other is given."""
    return Run(run_id, session_id or f"session of {run_id}", run_id, "chat", NOON, **scopes)


def a_call(
    attempt_id: str,
    run: Run,
    nanos: int | None = CENT,
    at_ms: int = NOON,
    *,
    tokens: int = 100,
    estimated: bool = False,
    source: CostSource = CostSource.PRICING,
    model: str = "a-model",
) -> Call:
    """A billed call of a run."""
    source = CostSource.UNPRICED if nanos is None else source
    return Call(
        attempt_id,
        run.run_id,
        at_ms,
        "a-provider",
        model,
        "",
        Usage(input_tokens=tokens),
        Cost(nanos, source, estimated=estimated),
    )


def record(ledger: Ledger, call: Call, run: Run) -> None:
    """Write a call down."""
    ledger.add_call(call, run, PATIENCE_S)


def delegate(ledger: Ledger, parent: Run, child_session_id: str) -> tuple[Run, ...]:
    """Write down that a run has started a session."""
    edge = Edge(child_session_id, parent.run_id, "", NOON)
    return ledger.add_edge(edge, parent, PATIENCE_S)


def spent(
    ledger: Ledger, scope: ScopeId = GLOBAL, window: Window = Window.DAILY, at_ms: int = NOON
) -> Spend:
    """What a scope has spent in a window, from its running total; built if it is missing."""
    asked = period(window, at_ms, UTC)
    with ledger.reading() as connection:
        return ledger.spends(connection, scope, [asked], at_ms, PATIENCE_S)[asked]


def rows(
    ledger: Ledger, columns: str = "count(*)", table: str = "calls"
) -> list[tuple[object, ...]]:
    """What stands in a table."""
    with ledger.reading() as connection:
        return connection.execute(f"SELECT {columns} FROM {table}").fetchall()


def assert_totals_equal_rows(ledger: Ledger) -> None:
    """Every stored total is the sum of its rows."""
    _, differences = ledger.verify(PATIENCE_S)
    assert differences == []


ROOT = Path(__file__).parents[1]


class Child:
    """Another process that runs a script; the two speak in lines."""

    def __init__(self, script: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def says(self) -> str:
        """The next line that it prints; "" when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, line: str = "") -> None:
        """Send it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Close its input, wait for its end; its exit code."""
        self.process.communicate()
        return self.process.returncode


_HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=10, isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def held_by_another_process(
    path: Path, statements: Sequence[str] = ("BEGIN IMMEDIATE",)
) -> Iterator[None]:
    """Another process has executed these statements, and keeps what they locked until the end."""
    holder = Child(_HOLD, path, *statements)
    assert holder.says() == "held"
    try:
        yield
    finally:
        holder.end()
