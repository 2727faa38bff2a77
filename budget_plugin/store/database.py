"""The ledger's database: opening, pragmas, migrations, transactions, statements compiled once.

Errors of the driver stop here: everything above sees `LedgerError` with its cause.

    LedgerError                 the ledger did not do what was asked
    ├── LedgerBusy              another process holds the lock; trying again later is right
    └── LedgerTooNew            the file was written by a newer version; never touched
"""

import logging
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlalchemy.sql import Executable

from . import schema
from .resources import resource

log = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.0002
_LONGEST_PAUSE_S: Final = 0.005


class LedgerError(Exception):
    """The ledger did not do what was asked; `__cause__` is the driver's error."""


class LedgerBusy(LedgerError):
    """Another connection holds the write lock and did not let go in time."""


class LedgerTooNew(LedgerError):
    """The schema was written by a newer version of the plugin."""


class Statement:
    """A Core statement, compiled once and run as plain SQL on the driver's connection.

    SQLAlchemy's own `execute` costs about 90 µs a statement, the driver 3 to 8; the statements of
    a recorded call are run this way.
    """

    __slots__ = ("_defaults", "_names", "sql")

    def __init__(self, clause: Executable, columns: list[str] | None = None) -> None:
        compiled = clause.compile(dialect=_DIALECT, column_keys=columns)  # type: ignore[attr-defined]
        self.sql: str = str(compiled)
        self._names: tuple[str, ...] = tuple(compiled.positiontup or ())
        self._defaults: dict[str, Any] = dict(compiled.params)

    def run(self, connection: sqlite3.Connection, **values: object) -> sqlite3.Cursor:
        """Execute with these values; names that are left out keep the statement's literals."""
        merged = {**self._defaults, **values}
        return connection.execute(self.sql, [merged[name] for name in self._names])


_DIALECT: Final = sqlite.dialect()


class Database:
    """One SQLite file, opened on first use and brought to the current schema.

    Args:
        path: the file; its folder is made (0700) and the file too (0600).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = ""
        """The journal mode in force: `wal`, or `delete` where the file system refuses WAL."""
        self.set_aside: Path | None = None
        """Where a damaged file was moved to, if that happened."""
        self._engine: Engine | None = None
        self._opening = threading.Lock()
        self._writing = threading.Lock()
        self._writer: sqlite3.Connection | None = None

    def engine(self) -> Engine:
        """The SQLAlchemy engine, for reports; opens and migrates the file first.

        Raises:
            LedgerError: the file cannot be opened or brought to the current schema.
        """
        with self._opening:
            if self._engine is None:
                self._engine = self._open()
            return self._engine

    def connect(self) -> sqlite3.Connection:
        """A new driver connection of the caller's own, for hot statements."""
        self.engine()
        with driver_errors():
            return self._connect()

    @contextmanager
    def writing(self, patience_s: float) -> Iterator[sqlite3.Connection]:
        """A write transaction on the process's one writing connection.

        Takes the lock at once (`BEGIN IMMEDIATE`), trying again for `patience_s` seconds; commits
        at the end, rolls back on any error.

        Raises:
            LedgerBusy: the lock was not free in time.
            LedgerError: anything else the driver said.
        """
        deadline = time.monotonic() + patience_s
        if not self._writing.acquire(timeout=patience_s):
            raise LedgerBusy("another thread is writing")
        try:
            with driver_errors():
                connection = self._writer = self._writer or self.connect()
                begin_immediate(connection, deadline)
                try:
                    yield connection
                    connection.commit()
                except BaseException:
                    connection.rollback()
                    raise
        finally:
            self._writing.release()

    def close(self) -> None:
        """Close the writing connection and the pool."""
        with self._writing:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
        with self._opening:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def _open(self) -> Engine:
        with driver_errors():
            try:
                return self._open_file()
            except (sqlite3.DatabaseError, SQLAlchemyError) as error:
                if not _is_damaged(error):
                    raise
                self.set_aside = self._move_aside()
                log.warning("the ledger was damaged; it was moved to %s", self.set_aside)
                return self._open_file()

    def _open_file(self) -> Engine:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        engine = create_engine(f"sqlite:///{self.path}", creator=self._connect, poolclass=NullPool)
        event.listen(engine, "begin", _begin_immediate_for_sqlalchemy)
        with engine.connect() as connection:
            version = _version(connection)
        if version != schema.REVISION:
            _migrate(engine)
        return engine

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=0, isolation_level=None, check_same_thread=False
        )
        self.journal = _set_journal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    def _move_aside(self) -> Path:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        target = self.path.with_name(f"{self.path.name}.damaged-{stamp}")
        self.path.rename(target)
        for suffix in ("-wal", "-shm"):
            side = self.path.with_name(self.path.name + suffix)
            if side.exists():
                side.rename(target.with_name(target.name + suffix))
        return target


@contextmanager
def driver_errors() -> Iterator[None]:
    """Turn what the driver, SQLAlchemy or the file system raise into `LedgerError`."""
    try:
        yield
    except (sqlite3.Error, SQLAlchemyError, OSError) as error:
        kind = LedgerBusy if _is_busy(error) else LedgerError
        raise kind(str(error)) from error


def begin_immediate(connection: sqlite3.Connection, deadline: float) -> None:
    """Take the write lock, in short jittered pauses until `deadline` (monotonic seconds).

    SQLite's own back-off sleeps up to 100 ms a time: with four writers its slowest commit took
    330 to 430 ms, against 62 to 81 ms this way.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() + pause_s >= deadline:
                raise
        time.sleep(pause_s * random.uniform(0.5, 1.5))
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _begin_immediate_for_sqlalchemy(connection: Connection) -> None:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    if connection.get_execution_options().get("writes"):
        begin_immediate(driver, time.monotonic() + 10)
    else:
        driver.execute("BEGIN")


def _set_journal(connection: sqlite3.Connection) -> str:
    # The switch to WAL needs the file alone for a moment: under concurrent opens it may be busy.
    for _ in range(50):
        try:
            mode: str = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
                break
            time.sleep(random.uniform(0.001, 0.01))
    else:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return mode.lower()


def _version(connection: Connection) -> str | None:
    found = connection.execute(
        text("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'")
    ).first()
    if found is None:
        return None
    row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    return row[0] if row else None


def _migrate(engine: Engine) -> None:
    """Bring the file to `schema.REVISION` in one transaction under the write lock."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(resource("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        version = _version(connection)
        if version == schema.REVISION:  # another process was first
            return
        try:
            if version is not None:
                ScriptDirectory.from_config(config).get_revision(version)
        except CommandError:
            raise LedgerTooNew(
                f"the ledger has schema {version}, this version knows {schema.REVISION}: "
                "update hermes-budget"
            ) from None
        config.attributes.update(connection=connection, metadata=schema.metadata)
        command.upgrade(config, "head")
        if _version(connection) != schema.REVISION:
            raise LedgerError(f"the ledger could not be brought to schema {schema.REVISION}")


def _code(error: BaseException) -> int:
    origin = getattr(error, "orig", None) or error
    return (getattr(origin, "sqlite_errorcode", None) or 0) & 0xFF


def _is_busy(error: BaseException) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _is_damaged(error: BaseException) -> bool:
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
