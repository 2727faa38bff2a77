"""The ledger's database: one SQLite file that is opened on first use and watched from then on.

Everything goes through `writing` and `reading`. They see when the file is another one than before
(removed, replaced, set aside as damaged by any process) and go on with the one that is there.
Errors of the driver stop here: everything above sees `LedgerError` (`store.sql.errors`).
"""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from weakref import WeakSet

from sqlalchemy import Connection as CoreConnection
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from . import connecting, forks
from .connecting import Connection, patiently, synced
from .errors import (
    LedgerBusy,
    LedgerError,
    LedgerInUse,
    LedgerReplaced,
    LedgerTooNew,
    WriteRefused,
    driver_errors,
    is_damaged,
    is_passing,
    translated,
)
from .folder_lock import folder_lock
from .migrating import bring_up_to_date
from .statements import Statement

__all__ = [
    "Database",
    "LedgerBusy",
    "LedgerError",
    "LedgerInUse",
    "LedgerReplaced",
    "LedgerTooNew",
    "Statement",
    "WriteRefused",
    "driver_errors",
]

log = logging.getLogger(__name__)

OPEN_PATIENCE_S: Final = 0.25
"""How long opening waits for others who open or migrate, where the caller names no patience."""

OPENING_S: Final = 1.0
"""How long a thread waits, at least, for another that opens: it would take as long by itself."""

FORK_PATIENCE_S: Final = 0.05
"""How long a fork waits for a transaction of another thread to end."""

_READER_WAIT_MS: Final = 50
"""Readers wait in a rollback journal alone, while a writer commits."""

_FileId = tuple[int, int]


@dataclass(frozen=True, eq=False, slots=True)
class _Opened:
    """One file, opened and at the current schema."""

    engine: Engine
    file: _FileId


class Database:
    """One SQLite file, opened on first use and brought to the current schema.

    Args:
        path: the file; its folder is made (0700) and the file too (0600).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set_aside: Path | None = None
        """Where a damaged file was moved to, if that happened."""
        self._opened: _Opened | None = None
        self._writer: tuple[Connection, _Opened] | None = None
        self._idle: tuple[Connection, _Opened] | None = None
        self._users: WeakSet[Connection] = WeakSet()
        """Connections that a thread may be inside of; the idle ones are not among them."""
        self._entering = 0
        """Threads that are opening a connection."""
        self._make_locks()
        forks.watch(self)

    def _make_locks(self) -> None:
        self._opening = threading.Lock()
        self._writing = threading.Lock()
        self._keeping = threading.Lock()

    # ------------------------------------------------------------------ what others call

    def engine(self) -> Engine:
        """The SQLAlchemy engine, for reports; opens and migrates the file first.

        Raises:
            LedgerError: the file cannot be opened or brought to the current schema.
        """
        with driver_errors():
            return self._current(_in(OPEN_PATIENCE_S)).engine

    @property
    def journal(self) -> str:
        """The journal mode in force: `wal`, or `delete` where the file system does not bear it."""
        with self.reading() as connection:
            return str(connection.execute("PRAGMA journal_mode").fetchone()[0])

    def connect(self) -> sqlite3.Connection:
        """A new driver connection of the caller's own, to be closed soon; prefer `reading`."""
        with driver_errors():
            return self._connect(_in(OPEN_PATIENCE_S))[0]

    @contextmanager
    def writing(self, patience_s: float, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """A write transaction on the process's one writing connection.

        Takes the lock at once (`BEGIN IMMEDIATE`), trying again for `patience_s` seconds; commits
        at the end, rolls back on any error.

        Args:
            durable: on the disk before this returns, so that not even a power cut takes it back.

        Raises:
            LedgerBusy: the lock was not free in time (`LedgerInUse`: nor was this process's).
            LedgerReplaced: the file is another one now; trying again at once is right.
            LedgerError: anything else the driver said.
        """
        deadline = _in(patience_s)
        if not self._writing.acquire(timeout=max(0.0, patience_s)):
            raise LedgerInUse("another thread is writing")
        try:
            connection, opened = self._ready_writer(deadline)
            with synced(connection) if durable else nullcontext():
                try:
                    patiently(connection, "BEGIN IMMEDIATE", deadline)
                    yield connection
                    patiently(connection, "COMMIT", deadline)
                except BaseException as error:
                    self._roll_back(connection, error)
                    raise
            # Looked at after the commit: a row in a file that is gone is written again.
            self._must_still_be_there(opened)
        except (sqlite3.Error, SQLAlchemyError, OSError) as error:
            raise self._answer_to(error) from error
        finally:
            self._writing.release()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for a look at the ledger; kept for the next one where that is possible.

        Raises:
            LedgerReplaced: the file is another one now; trying again at once is right.
            LedgerError: anything else the driver said.
        """
        try:
            connection, opened = self._take_reader()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._keep_reader(connection, opened)
        except (sqlite3.Error, SQLAlchemyError, OSError) as error:
            raise self._answer_to(error) from error

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._writing:
            if self._writer is not None:
                self._writer[0].close()
                self._writer = None
        with self._keeping:
            if self._idle is not None:
                self._idle[0].close()
                self._idle = None
        with self._opening:
            self._opened = None

    # ------------------------------------------------------------------ connections

    def _ready_writer(self, deadline: float) -> tuple[Connection, _Opened]:
        opened = self._opened
        if opened is None:
            opened = self._current(deadline)
        if self._writer is not None:
            if self._writer[1] is opened:
                return self._writer
            self._writer[0].close()
            self._writer = None
        self._writer = self._connect(deadline)
        self._users.discard(self._writer[0])  # whether it is in use, its lock tells
        return self._writer

    def _roll_back(self, connection: Connection, error: BaseException) -> None:
        with suppress(sqlite3.Error):
            connection.rollback()
        doubtful = isinstance(error, sqlite3.Error) and not is_passing(error)
        if doubtful or connection.in_transaction:
            connection.close()
            self._writer = None

    def _take_reader(self) -> tuple[Connection, _Opened]:
        deadline = _in(OPEN_PATIENCE_S)
        opened = self._current(deadline)
        with self._keeping:
            kept, self._idle = self._idle, None
            if kept is not None:
                self._users.add(kept[0])
        if kept is not None:
            if kept[1] is opened:
                return kept
            kept[0].close()
        fresh = self._connect(deadline)
        fresh[0].execute(f"PRAGMA busy_timeout={_READER_WAIT_MS}")
        return fresh

    def _keep_reader(self, connection: Connection, opened: _Opened) -> None:
        with self._keeping:
            if self._idle is None and opened is self._opened and not connection.in_transaction:
                self._idle = connection, opened
                self._users.discard(connection)
                return
        connection.close()

    def _connect(self, deadline: float) -> tuple[Connection, _Opened]:
        opened = self._current(deadline)
        connection = self._new(deadline)
        try:
            self._must_still_be_there(opened)
        except LedgerReplaced:
            connection.close()
            raise
        return connection, opened

    def _new(self, deadline: float) -> Connection:
        with self._keeping:
            self._entering += 1
        try:
            connection = connecting.connect(self.path, deadline)
            connection.users = self._users
            self._users.add(connection)
            return connection
        finally:
            with self._keeping:
                self._entering -= 1

    # ------------------------------------------------------------------ the file

    def _current(self, deadline: float) -> _Opened:
        """What is open, if it still is the file at our path; else opens that one."""
        opened = self._opened
        if opened is not None and not self._is_elsewhere(opened.file):
            return opened
        if not self._opening.acquire(timeout=max(OPENING_S, deadline - time.monotonic())):
            raise LedgerInUse("another thread is opening the ledger")
        try:
            now = self._opened
            if now is not None and now is opened:
                self._forget()
                now = None
            if now is None:
                now = self._opened = self._open(deadline)
            return now
        finally:
            self._opening.release()

    def _open(self, deadline: float) -> _Opened:
        close_inherited(self.path)
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with folder_lock(self.path.parent, deadline):
            try:
                return self._open_file(deadline)
            except (sqlite3.DatabaseError, SQLAlchemyError) as error:
                if not is_damaged(error):
                    raise
                self._move_aside()
                return self._open_file(deadline)

    def _open_file(self, deadline: float) -> _Opened:
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        file = _file_id(self.path)
        engine = create_engine(
            f"sqlite:///{self.path}",
            creator=lambda: self._new(max(deadline, _in(OPEN_PATIENCE_S))),
            poolclass=NullPool,
        )
        event.listen(engine, "begin", _begin)
        bring_up_to_date(engine)
        return _Opened(engine, file)

    def _must_still_be_there(self, opened: _Opened) -> None:
        if self._is_elsewhere(opened.file):
            with self._opening:
                if self._opened is opened:
                    self._forget()
            raise LedgerReplaced("the ledger file was removed or replaced")

    def _forget(self) -> None:
        log.warning("the ledger %s was removed or replaced; rows go to the new one", self.path)
        self._opened = None

    def _is_elsewhere(self, file: _FileId) -> bool:
        try:
            return _file_id(self.path) != file
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:  # nobody can tell: an answer will come from the next statement
            return False

    def _answer_to(self, error: BaseException) -> LedgerError:
        """The error to raise; a damaged file is set aside first, so that the next try is right."""
        if is_damaged(error):
            self._set_aside_once()
            return LedgerReplaced(str(error))
        answer = translated(error)
        if type(answer) is LedgerError and not is_passing(error):
            self._opened = None  # looked at afresh next time: tables may be gone, too
        return answer

    def _set_aside_once(self) -> None:
        with self._opening:
            opened, self._opened = self._opened, None
            if opened is None:
                return
            with driver_errors(), folder_lock(self.path.parent, _in(OPEN_PATIENCE_S)):
                if not self._is_elsewhere(opened.file):  # else another process has done it
                    self._move_aside()

    def _move_aside(self) -> None:
        target = _free_name(self.path)
        # The file itself goes last: until then nobody begins a new one beside the old journal.
        for suffix in ("-wal", "-shm", "-journal", ""):
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + suffix).rename(
                    target.with_name(target.name + suffix)
                )
        self.set_aside = target
        log.warning("the ledger was damaged; it was moved to %s and a new one is begun", target)

    # ------------------------------------------------------------------ forks

    def before_fork(self) -> None:
        """Wait a moment until no thread is inside SQLite, and keep them out."""
        deadline = _in(FORK_PATIENCE_S)
        self._held = [
            lock
            for lock in (self._opening, self._writing)
            if lock.acquire(timeout=max(0.0, deadline - time.monotonic()))
        ]
        self._at_rest = len(self._held) == 2 and self._keep_out(deadline)

    def _keep_out(self, deadline: float) -> bool:
        """Take the last lock at a moment when no thread is inside SQLite; whether there was one."""
        while True:
            self._keeping.acquire()
            if not self._entering and not len(self._users):
                self._held.append(self._keeping)
                return True
            self._keeping.release()
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.001)

    def after_fork(self, *, in_child: bool) -> None:
        """Go on in the parent; in the child forget what belongs to the parent."""
        if not in_child:
            for lock in self._held:
                lock.release()
            return
        kept = [pair[0] for pair in (self._writer, self._idle) if pair is not None]
        _inherited.extend([*kept, *self._users])
        if not self._at_rest:
            _restless.add(self.path)
        self._opened = self._writer = self._idle = None
        self._users = WeakSet()
        self._entering = 0
        self._make_locks()


_inherited: Final[list[Connection]] = []
"""Connections of the process that forked this one; also kept from being closed by chance."""

_restless: Final[set[Path]] = set()
"""Ledgers that another thread was inside of when this process was forked."""


def close_inherited(path: Path) -> None:
    """In a forked process: let go of the parent's connections before the first one of our own.

    Beside them SQLite takes no lock for us. They are at rest, so that closing them neither writes
    nor waits. Those that were not at rest cannot be closed: such a process leaves the ledger alone,
    and its rows go into a file when it ends.

    Raises:
        LedgerError: the fork came in the middle of a transaction.
    """
    if path in _restless:
        raise LedgerError("this process was forked in the middle of a look at the ledger")
    while _inherited:
        with suppress(sqlite3.Error):
            _inherited.pop().close()


def _in(seconds: float) -> float:
    return time.monotonic() + seconds


def _file_id(path: Path) -> _FileId:
    found = os.stat(path)  # noqa: PTH116  (Path.stat costs as much again; twice in every write)
    return found.st_dev, found.st_ino


def _free_name(path: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    names = (f"{path.name}.damaged-{stamp}{f'-{n}' if n else ''}" for n in range(1_000))
    return next(target for name in names if not (target := path.with_name(name)).exists())


def _begin(connection: CoreConnection) -> None:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    if connection.get_execution_options().get("writes"):
        patiently(driver, "BEGIN IMMEDIATE", _in(OPEN_PATIENCE_S))
    else:
        driver.execute("BEGIN")
