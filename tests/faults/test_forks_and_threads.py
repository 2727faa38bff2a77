"""Forks, many threads, registering twice: no connection is shared, none is left open."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.hermes import plugin
from budget_plugin.policy.verdicts import Level
from tests.faults.engines import an_engine, begin, bill, level, recorded
from tests.ledgers import (
    CENT,
    Child,
    assert_totals_equal_rows,
    held_by_another_process,
    open_ledger,
    rows,
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = an_engine(tmp_path)
    yield made
    made.close()


# ---------------------------------------------------------------------- forks

FORK = """
import os, sys
from pathlib import Path
from tests.faults.engines import an_engine, begin, bill
from tests.ledgers import a_run
home = Path(sys.argv[1])
engine = an_engine(home)
bill(engine, begin(engine), 1, name="parent")
in_child, in_parent = os.pipe()
if os.fork() == 0:
    live = engine.open_run(a_run("child"))
    bill(engine, live, 1, name="child at once")
    assert engine.recorder.flush(10.0)
    print("child has written", flush=True)
    os.read(in_child, 1)
    bill(engine, live, 1, name="child later")
    assert engine.recorder.flush(10.0)
    print("child has written again", flush=True)
    os._exit(0)
sys.stdin.readline()
engine.close()
print("parent has closed", flush=True)
sys.stdin.readline()
os.write(in_parent, b"x")
os.wait()
"""


def test_a_forked_child_holds_locks_of_its_own(tmp_path: Path) -> None:
    """Beside an inherited connection it would hold none, and lose its last row here."""
    parent = Child(FORK, tmp_path)
    assert parent.says() == "child has written"
    parent.tell()
    assert parent.says() == "parent has closed"
    ledger = open_ledger(tmp_path)
    assert rows(ledger) == [(2,)]
    ledger.database.close()  # the last one who closes takes the journal away, if nobody holds it
    parent.tell()
    assert parent.says() == "child has written again"
    assert parent.end() == 0
    assert rows(ledger) == [(3,)]
    assert_totals_equal_rows(ledger)
    ledger.database.close()


FORK_WHILE_ROWS_WAIT = """
import os, sys
from pathlib import Path
from tests.faults.engines import an_engine, begin, bill
engine = an_engine(Path(sys.argv[1]))
live = begin(engine)
print("ready", flush=True)
sys.stdin.readline()
bill(engine, live, 3, name="parent")
child = os.fork()
if child == 0:
    waiting = engine.recorder.waiting_calls
    bill(engine, live, 1, name="child")
    print(waiting, engine.recorder.waiting_calls, flush=True)
    sys.stdin.readline()
    assert engine.recorder.flush(10.0)
    os._exit(0)
os.waitpid(child, 0)
assert engine.recorder.flush(10.0)
engine.close()
"""


def test_what_waits_is_the_parents_to_write(tmp_path: Path) -> None:
    parent = Child(FORK_WHILE_ROWS_WAIT, tmp_path)
    assert parent.says() == "ready"
    with held_by_another_process(tmp_path / "budget" / "ledger.db"):
        parent.tell()
        assert parent.says() == "0 1"
    parent.tell()
    assert parent.end() == 0
    ledger = open_ledger(tmp_path)
    assert sorted(rows(ledger, "attempt_id")) == [
        ("child 0",),
        ("parent 0",),
        ("parent 1",),
        ("parent 2",),
    ]
    ledger.database.close()


FORK_IN_A_WRITE = """
import os, sys, threading
from pathlib import Path
from budget_plugin.store.sql.database import LedgerError
from tests.faults.engines import an_engine, begin, bill
engine = an_engine(Path(sys.argv[1]))
live = begin(engine)
inside, leave = threading.Event(), threading.Event()
def write():
    with engine.database.writing(10.0) as connection:
        connection.execute("DELETE FROM cron_pauses")
        inside.set()
        leave.wait()
thread = threading.Thread(target=write)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    bill(engine, live, 1, name="child")
    print(engine.recorder.last_error, flush=True)
    engine.close()
    os._exit(0)
os.waitpid(child, 0)
leave.set()
thread.join()
bill(engine, live, 1, name="parent")
engine.close()
"""


def test_a_child_forked_in_the_middle_of_a_write_leaves_the_ledger_alone(tmp_path: Path) -> None:
    parent = Child(FORK_IN_A_WRITE, tmp_path)
    assert parent.says() == "this process was forked in the middle of a look at the ledger"
    assert parent.end() == 0
    engine = an_engine(tmp_path)
    assert rows(engine.ledger, "attempt_id") == [("parent 0",)]
    assert engine.leftovers.take_up(10.0) == 1  # the child's row came in a file
    assert sorted(rows(engine.ledger, "attempt_id")) == [("child 0",), ("parent 0",)]
    engine.close()


# ---------------------------------------------------------------------- the end of a process

ENDS = """
import sys
from pathlib import Path
from tests.faults.engines import an_engine, begin, bill
engine = an_engine(Path(sys.argv[1]))
live = begin(engine)
print("ready", flush=True)
sys.stdin.readline()
bill(engine, live, 3, name="late")
print(engine.recorder.waiting_calls, flush=True)
"""


@pytest.mark.case("A57", "T32")
def test_rows_that_wait_when_the_process_ends_are_there_after_the_next_start(
    tmp_path: Path,
) -> None:
    process = Child(ENDS, tmp_path)
    assert process.says() == "ready"
    with held_by_another_process(tmp_path / "budget" / "ledger.db"):
        process.tell()
        assert process.says() == "3"
        assert process.end() == 0  # it did not wait for the lock for ever
        assert len(list((tmp_path / "budget").glob("waiting-*.jsonl"))) == 1
    engine = an_engine(tmp_path)
    for _ in range(2):
        engine.leftovers.take_up(10.0)
    assert recorded(engine) == (3, 3 * CENT)
    assert list((tmp_path / "budget").glob("waiting-*")) == []
    engine.close()


# ---------------------------------------------------------------------- threads


def open_files() -> int:
    """How many files this process has open."""
    return len(list(Path("/dev/fd").iterdir()))


def run_threads(work: Callable[[int], None], numbers: range, *, at_once: int) -> None:
    """Run so many threads, `at_once` of them side by side."""
    for first in range(numbers.start, numbers.stop, at_once):
        threads = [
            threading.Thread(target=work, args=[first + number]) for number in range(at_once)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


OF_OUR_THREADS = 4
"""Recorder and refresher may be looking at the moment: a connection each, two files each."""


@pytest.mark.case("T35", "T33")
def test_file_handles_stay_flat_over_six_hundred_threads(engine: Engine) -> None:
    live = begin(engine)
    failed: list[object] = []

    def work(number: int) -> None:
        bill(engine, live, 1, 1, f"by thread {number}")
        if level(engine, live) is not Level.OK or engine.ledger.run(live.run.run_id) is None:
            failed.append(number)

    work(-1)
    flat = open_files() + OF_OUR_THREADS
    run_threads(work, range(600), at_once=1)
    assert open_files() <= flat
    run_threads(work, range(600, 700), at_once=50)
    assert engine.recorder.flush(30.0)
    assert open_files() <= flat
    assert failed == []
    assert recorded(engine) == (701, 701)
    assert_totals_equal_rows(engine.ledger)


def test_closing_an_engine_closes_every_file_and_thread(tmp_path: Path) -> None:
    before, threads = open_files(), set(threading.enumerate())
    for _ in range(5):
        engine = an_engine(tmp_path)
        bill(engine, begin(engine), 1)
        engine.close()
    for thread in set(threading.enumerate()) - threads:
        thread.join()
    assert open_files() <= before
    with closing(sqlite3.connect(tmp_path / "budget" / "ledger.db")) as connection:
        assert connection.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)


# ---------------------------------------------------------------------- registering twice


class Context:
    """The host's plugin context, as far as registering needs it."""

    profile_name = "default"

    def __init__(self) -> None:
        self._manager = SimpleNamespace(_hooks={}, _middleware={})
        self.commands: list[str] = []

    def register_hook(self, name: str, callback: Any) -> None:
        self._manager._hooks.setdefault(name, []).append(callback)

    def register_middleware(self, name: str, callback: Any) -> None:
        self._manager._middleware.setdefault(name, []).append(callback)

    def register_command(self, name: str, *_: Any, **__: Any) -> None:
        self.commands.append(name)

    def register_cli_command(self, name: str, *_: Any, **__: Any) -> None:
        self.commands.append(name)

    def __getattr__(self, name: str) -> Any:
        """Whatever else may be registered."""
        return lambda *_args, **_kwargs: None


@pytest.mark.case("T36")
def test_registering_twice_doubles_nothing(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugin, "host_home", lambda: hermes_home)
    context = Context()
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            plugin.register(context)
        lines = [record.message for record in caplog.records]
    callbacks = {**context._manager._hooks, **context._manager._middleware}
    assert {"pre_tool_call", "llm_execution"} <= set(callbacks)
    assert {name: len(found) for name, found in callbacks.items() if len(found) != 1} == {}
    assert len(lines) == len(set(lines))
    assert list(hermes_home.iterdir()) == []
