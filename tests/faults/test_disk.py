"""Full, read-only, failing, damaged and vanished: each fault made for real, no row lost."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import FileIO
from pathlib import Path
from typing import ClassVar

import pytest

from budget_plugin.engine.engine import Engine
from budget_plugin.engine.recorder import Write
from budget_plugin.policy.events import Call, Run
from budget_plugin.policy.verdicts import Level
from budget_plugin.store.ledger import Ledger
from budget_plugin.store.sql import connecting
from budget_plugin.store.sql.database import LedgerReplaced
from tests.faults.engines import an_engine, begin, bill, level, recorded, warnings
from tests.faults.places import MAY_MOUNT, mounted, read_only, writable_files_end_at
from tests.ledgers import (
    CENT,
    NOON,
    PATIENCE_S,
    Child,
    a_call,
    a_run,
    assert_totals_equal_rows,
    open_ledger,
    record,
    rows,
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = an_engine(tmp_path)
    yield made
    made.close()


# ---------------------------------------------------------------------- full


@contextmanager
def no_room(engine: Engine, how: str) -> Iterator[None]:
    """The ledger cannot grow any more."""
    folder = engine.folder
    if how == "files end":
        journal = folder / "ledger.db-wal"
        with writable_files_end_at(journal.stat().st_size + 4096):
            yield
        return
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        _write_on(file)
    yield
    filler.unlink()


def _write_on(file: FileIO) -> None:
    while True:
        file.write(bytes(4096))


@pytest.mark.case("T34")
@pytest.mark.parametrize("how", ["files end", *(["small file system"] if MAY_MOUNT else [])])
def test_four_hundred_calls_without_room_are_four_hundred_rows_once_there_is(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    if how == "files end":
        _fill(tmp_path, how, caplog)
    else:
        with mounted(tmp_path / "small", "32m") as home:
            _fill(home, how, caplog)


def _fill(home: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    engine = an_engine(home, "timezone: UTC\nbudgets: {global: {daily_calls: 300}}")
    live = begin(engine)
    with no_room(engine, how):
        bill(engine, live, 400)
        assert engine.recorder.waiting_calls >= 390
        assert level(engine, live) is Level.HARD
        assert len(warnings(caplog)) == 1
    assert engine.recorder.flush(30.0)
    assert recorded(engine) == (400, 400 * CENT)
    assert_totals_equal_rows(engine.ledger)
    engine.close()


# ---------------------------------------------------------------------- read-only


def test_in_a_home_that_cannot_be_written_nothing_raises_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    if MAY_MOUNT:
        with mounted(home, "4m"):
            _read_only(home, caplog)
    else:
        home.mkdir()
        _read_only(home, caplog)


def _read_only(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = an_engine(home)
    with read_only(home):
        live = engine.open_run(a_run("r"))
        bill(engine, live, 5)
        assert engine.recorder.waiting_calls == 5
        assert engine.recorder.last_error
        # Hard by what waits, were it more; allowed by `on_error` where nobody knows.
        assert level(engine, live) is Level.OK
        assert len(warnings(caplog)) == 1
    assert engine.recorder.flush(30.0)
    assert recorded(engine) == (5, 5 * CENT)
    engine.close()


# ---------------------------------------------------------------------- errors of the disk


class Flaky(connecting.Connection):
    """A connection whose inserts of calls meet the errors of a failing disk."""

    errors: ClassVar[list[str]] = []

    def execute(self, sql: str, *args: object) -> sqlite3.Cursor:
        if self.errors and sql.startswith("INSERT INTO calls"):
            error = sqlite3.OperationalError(self.errors.pop())
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        return super().execute(sql, *args)  # type: ignore[arg-type]


@pytest.mark.case("A57")
def test_io_errors_lose_nothing_double_nothing_and_status_counts_what_waits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connecting, "Connection", Flaky)
    live = begin(engine)
    monkeypatch.setattr(Flaky, "errors", ["disk I/O error"] * 10_000)
    bill(engine, live, 3, 4_500_000)
    assert engine.recorder.waiting_calls == 3
    assert engine.recorder.last_error == "disk I/O error"
    monkeypatch.setattr(Flaky, "errors", ["disk I/O error"])
    bill(engine, live, 2, 4_500_000, "more")
    assert engine.recorder.flush(30.0)
    assert recorded(engine) == (5, 22_500_000)
    assert_totals_equal_rows(engine.ledger)
    assert warnings(caplog) == ["the ledger does not answer (disk I/O error); rows wait in memory"]


# ---------------------------------------------------------------------- removed, replaced


@pytest.mark.parametrize("what", ["the file", "file and journal", "the folder"])
def test_rows_go_to_a_new_file_when_the_ledger_is_removed_under_us(
    engine: Engine, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    live = begin(engine)
    bill(engine, live, 3)
    path = engine.database.path
    for file in sorted(path.parent.glob("ledger.db*")):
        if what != "the file" or file == path:
            file.unlink()
    if what == "the folder":
        for file in path.parent.iterdir():
            file.unlink()
        path.parent.rmdir()
    bill(engine, live, 2, name="after")
    assert engine.recorder.waiting_calls == 0
    assert recorded(engine) == (2, 2 * CENT)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM calls").fetchone() == (2,)
    assert_totals_equal_rows(engine.ledger)
    assert warnings(caplog) == [
        f"the ledger {path} was removed or replaced; rows go to the new one"
    ]


def test_a_row_that_was_written_into_a_vanishing_file_is_written_again(engine: Engine) -> None:
    live = begin(engine)
    call = a_call("a", live.run)
    vanish = [engine.database.path]

    def apply(patience_s: float) -> None:
        with engine.database.writing(patience_s) as connection:
            connection.execute("DELETE FROM cron_pauses")
            if vanish:
                vanish.pop().unlink()
        engine.ledger.add_call(call, live.run, patience_s)

    with pytest.raises(LedgerReplaced):
        apply(PATIENCE_S)
    vanish.append(engine.database.path)
    assert engine.recorder.now(Write(apply, call, live.run), NOON)
    assert recorded(engine) == (1, CENT)


OLD = """
import sys
from pathlib import Path
from tests.ledgers import a_call, a_run, open_ledger, record
ledger = open_ledger(Path(sys.argv[1]))
run = a_run("old")
record(ledger, a_call("old", run), run)
print("recorded", flush=True)
sys.stdin.readline()
ledger.database.close()
"""


def test_a_process_that_still_has_the_removed_file_does_no_harm_by_closing_it(
    tmp_path: Path,
) -> None:
    other = Child(OLD, tmp_path)
    assert other.says() == "recorded"
    for file in (tmp_path / "budget").glob("ledger.db*"):
        file.unlink()
    ledger, run = open_ledger(tmp_path), a_run("r")
    record(ledger, a_call("before", run), run)
    other.tell()
    assert other.end() == 0
    record(ledger, a_call("after", run), run)
    again = open_ledger(tmp_path)
    assert sorted(rows(again, "attempt_id")) == [("after",), ("before",)]
    again.database.close()
    ledger.database.close()


# ---------------------------------------------------------------------- damaged


def damage_header(path: Path) -> None:
    """The file begins with something else."""
    with path.open("r+b") as file:
        file.write(b"this is no database at all" * 40)


def damage_calls(path: Path) -> None:
    """The page where the table of calls begins holds garbage: opening does not notice."""
    with closing(sqlite3.connect(path)) as connection:
        [page] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'calls'")
        [size] = connection.execute("PRAGMA page_size")
    with path.open("r+b") as file:
        file.seek((page[0] - 1) * size[0])
        file.write(b"\xa5" * size[0])


def cut(path: Path) -> None:
    """The second half of the file is missing."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 8192 * 4096)


@pytest.mark.case("T34")
@pytest.mark.parametrize("damage", [damage_header, damage_calls, cut])
@pytest.mark.parametrize("when", ["at the start", "in mid-work"])
def test_a_damaged_file_is_set_aside_said_once_and_a_new_one_begun(
    tmp_path: Path, damage: object, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(damage)
    engine = an_engine(tmp_path)
    live = begin(engine)
    bill(engine, live, 100)
    path = engine.database.path
    if when == "at the start":
        engine.close()
        damage(path)
        engine = an_engine(tmp_path)
        live = engine.open_run(a_run("next"))
    else:
        engine.database.close()  # the journal is in the file; the engine goes on
        damage(path)
    bill(engine, live, 5, name="after")
    assert engine.recorder.flush(10.0)
    assert recorded(engine) == (5, 5 * CENT)
    assert_totals_equal_rows(engine.ledger)
    aside = engine.database.set_aside
    assert aside is not None
    assert re.fullmatch(r"ledger\.db\.damaged-\d{8}T\d{6}Z", aside.name)
    assert [p for p in path.parent.glob("*damaged*") if not p.name.endswith(("-wal", "-shm"))] == [
        aside
    ]
    [warning] = [text for text in warnings(caplog) if "does not answer" not in text]
    assert "damaged" in warning
    assert str(aside) in warning
    engine.close()


def test_two_who_find_the_damage_set_it_aside_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, run = open_ledger(tmp_path), open_ledger(tmp_path), a_run("r")
    record(first, a_call("a", run), run)
    second.add_run(run, PATIENCE_S)
    for ledger in (first, second):
        ledger.database.close()
    path = first.database.path
    damage_calls(path)
    with pytest.raises(LedgerReplaced):
        _meet_the_damage_after(lambda: record_twice(first, a_call("b", run), run), second)
    record(second, a_call("c", run), run)
    assert sorted(rows(first, "attempt_id")) == [("b",), ("c",)]
    assert len(list(path.parent.glob("ledger.db.damaged-*Z"))) == 1
    for ledger in (first, second):
        ledger.database.close()


def _meet_the_damage_after(what: Callable[[], None], ledger: Ledger) -> None:
    with ledger.reading() as connection:
        what()
        connection.execute("SELECT count(*) FROM calls NOT INDEXED").fetchall()


def record_twice(ledger: Ledger, call: Call, run: Run) -> None:
    """Write a call down; the first attempt finds out that the file is damaged."""
    with pytest.raises(LedgerReplaced):
        record(ledger, call, run)
    record(ledger, call, run)
