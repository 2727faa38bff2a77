"""The database's own promises: patience, one writer, kept readers, file modes, journal modes."""

from __future__ import annotations

import logging
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from budget_plugin.store.sql import connecting, file_systems
from budget_plugin.store.sql.database import Database, LedgerBusy, LedgerError, WriteRefused
from tests.ledgers import PATIENCE_S, held_by_another_process


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "budget" / "ledger.db")
    yield opened
    opened.close()


def note(database: Database, name: str) -> None:
    with database.writing(PATIENCE_S) as connection:
        connection.execute(
            "INSERT INTO runs (run_id, session_id, root_run_id, kind, started_ms) "
            "VALUES (?, '', '', '', 0)",
            [name],
        )


def names(database: Database) -> list[str]:
    with database.reading() as connection:
        return [row[0] for row in connection.execute("SELECT run_id FROM runs ORDER BY run_id")]


def test_nothing_is_opened_before_the_first_use(tmp_path: Path) -> None:
    Database(tmp_path / "budget" / "ledger.db")
    assert list(tmp_path.glob("budget/*")) == []


def test_only_the_owner_may_look(database: Database) -> None:
    note(database, "a")
    assert stat.S_IMODE(database.path.parent.stat().st_mode) == 0o700
    for file in database.path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_an_error_in_a_transaction_leaves_nothing(database: Database) -> None:
    note(database, "before")
    with pytest.raises(ZeroDivisionError), database.writing(PATIENCE_S) as connection:
        print(connection.execute("DELETE FROM runs").rowcount / 0)
    assert names(database) == ["before"]
    note(database, "after")
    assert names(database) == ["after", "before"]


def test_an_error_of_the_driver_is_a_ledger_error_with_its_cause(database: Database) -> None:
    with pytest.raises(LedgerError) as caught, database.writing(PATIENCE_S) as connection:
        connection.execute("INSERT INTO there_is_no_such_table VALUES (1)")
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    note(database, "after")


def test_an_impossible_row_is_told_from_one_that_cannot_be_written_now(database: Database) -> None:
    with pytest.raises(WriteRefused), database.writing(PATIENCE_S) as connection:
        connection.execute("INSERT INTO runs (run_id) VALUES ('without the rest')")


def test_a_lock_of_another_process_is_busy_and_its_end_is_seen(database: Database) -> None:
    note(database, "before")
    with (
        held_by_another_process(database.path),
        pytest.raises(LedgerBusy),
        database.writing(0.0),
    ):
        raise AssertionError
    note(database, "after")
    assert names(database) == ["after", "before"]


def test_readers_do_not_wait_for_a_writer(database: Database) -> None:
    note(database, "a")
    with held_by_another_process(database.path, ["BEGIN IMMEDIATE", "DELETE FROM runs"]):
        assert names(database) == ["a"]


def test_a_second_thread_does_not_wait_longer_than_its_patience(database: Database) -> None:
    note(database, "a")
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with database.writing(PATIENCE_S):
            inside.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    with pytest.raises(LedgerBusy, match="another thread"), database.writing(0.0):
        raise AssertionError
    leave.set()
    thread.join()


def test_one_reader_is_kept_and_used_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(database)
    opened = []
    monkeypatch.setattr(
        connecting, "connect", lambda *args: opened.append(args) or pytest.fail("opened again")
    )
    for _ in range(10):
        names(database)
    assert opened == []


# ---------------------------------------------------------------------- the journal mode


def test_wal_is_used_where_it_can_be(database: Database) -> None:
    assert database.journal == "wal"


@pytest.mark.case("A58")
@pytest.mark.parametrize("how", ["answers delete", "raises", "is remote"])
def test_without_wal_it_records_with_a_rollback_journal_and_says_so_once(
    database: Database,
    how: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if how == "is remote":
        monkeypatch.setattr(connecting, "is_remote", lambda _path: True)
    else:
        _refuse_wal(monkeypatch, answers=how == "answers delete")
    note(database, "a")
    assert database.journal == "delete"
    note(database, "b")
    database.close()
    note(database, "c")
    assert names(database) == ["a", "b", "c"]
    assert not list(database.path.parent.glob("*-wal"))
    [warning] = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert "rollback journal instead of WAL" in warning.message


def _refuse_wal(monkeypatch: pytest.MonkeyPatch, *, answers: bool) -> None:
    """A file system on which shared memory does not work, as SQLite reports it."""
    execute = sqlite3.Connection.execute

    class Refusing(connecting.Connection):
        def execute(self, sql: str, *args: object) -> sqlite3.Cursor:
            if sql != "PRAGMA journal_mode=WAL":
                return execute(self, sql, *args)  # type: ignore[arg-type]
            if answers:
                return execute(self, "SELECT 'delete'")
            raise _locking_protocol()

    monkeypatch.setattr(connecting, "Connection", Refusing)


def _locking_protocol() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("locking protocol")
    error.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL
    return error


@pytest.mark.case("A58")
def test_a_file_that_others_use_in_wal_is_not_taken_back_from_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(database, "a")
    database.close()
    with monkeypatch.context() as patched:
        _refuse_wal(patched, answers=False)
        with pytest.raises(LedgerError, match="locking protocol"):
            names(database)
    assert database.journal == "wal"


MOUNTS = """\
22 1 252:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /net rw - nfs4 server:/export rw
31 30 252:9 / /net/local rw - xfs /dev/vdb rw
32 22 0:41 / /with\\040space rw shared:1 - virtiofs host rw
33 22 0:42 / /mnt/c rw - 9p drvfs rw
34 22 0:43 / /home/me rw - fuse.sshfs me@there rw
"""


@pytest.mark.case("A58")
@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("/var/ledger.db", False),
        ("/net/ledger.db", True),
        ("/network/ledger.db", False),
        ("/net/local/ledger.db", False),
        ("/with space/ledger.db", True),
        ("/mnt/c/ledger.db", True),
        ("/home/me/.hermes/budget/ledger.db", True),
    ],
)
def test_network_and_bridge_file_systems_are_known(path: str, remote: bool, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert file_systems.is_remote(Path(path), mounts) is remote


def test_where_no_mounts_are_told_nothing_is_remote(tmp_path: Path) -> None:
    assert not file_systems.is_remote(Path("/net/x"), tmp_path / "missing")
