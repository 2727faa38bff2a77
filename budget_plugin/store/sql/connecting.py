"""Driver connections: pragmas, the journal mode that the file system bears, patience with locks."""

import logging
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from weakref import WeakSet

from .errors import is_busy, is_damaged
from .file_systems import is_remote

log = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.0002
_LONGEST_PAUSE_S: Final = 0.005

_told_without_wal: Final[set[Path]] = set()


class Connection(sqlite3.Connection):
    """A driver connection that is found again at a fork: a member of `users` until it is closed."""

    users: "WeakSet[Connection] | None" = None

    def close(self) -> None:
        """Close it."""
        super().close()
        if self.users is not None:
            self.users.discard(self)


def connect(path: Path, deadline: float) -> Connection:
    """Open the file; `deadline` (monotonic seconds) bounds the waiting for others who open it."""
    connection = sqlite3.connect(
        path, timeout=0, isolation_level=None, check_same_thread=False, factory=Connection
    )
    try:
        wal = _set_journal(connection, path, deadline) == "wal"
        # Without WAL only FULL keeps the file sound through a power cut.
        connection.execute(f"PRAGMA synchronous={'NORMAL' if wal else 'FULL'}")
    except BaseException:
        connection.close()
        raise
    return connection


def patiently(connection: sqlite3.Connection, sql: str, deadline: float) -> sqlite3.Cursor:
    """Execute a statement that may find a lock taken, in short jittered pauses until `deadline`.

    SQLite's own back-off sleeps up to 100 ms a time: with four writers its slowest commit took
    330 to 430 ms, against 62 to 81 ms this way.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return connection.execute(sql)
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() + pause_s >= deadline:
                raise
        time.sleep(pause_s * random.uniform(0.5, 1.5))
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


@contextmanager
def synced(connection: Connection) -> Iterator[None]:
    """What is committed inside is on the disk; WAL alone leaves the last moments to the system."""
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    connection.execute("PRAGMA synchronous=FULL")
    try:
        yield
    finally:
        with suppress(sqlite3.Error):  # closed meanwhile: the next one begins as usual
            connection.execute(f"PRAGMA synchronous={level}")


def _set_journal(connection: sqlite3.Connection, path: Path, deadline: float) -> str:
    """The journal mode that is now in force: `wal`, or `delete` where that cannot be."""
    if is_remote(path):
        return _without_wal(connection, path, "it is on a network file system", deadline)
    try:
        # The switch needs the file alone for a moment: under concurrent opens it may be busy.
        mode = _mode(patiently(connection, "PRAGMA journal_mode=WAL", deadline))
    except sqlite3.OperationalError as error:
        if is_busy(error) or is_damaged(error) or _mode_now(connection) == "wal":
            raise  # the file is in WAL and others use it so: never take it back under them
        return _without_wal(connection, path, str(error), deadline)
    return mode if mode == "wal" else _without_wal(connection, path, "it was refused", deadline)


def _without_wal(connection: sqlite3.Connection, path: Path, why: str, deadline: float) -> str:
    mode = _mode(patiently(connection, "PRAGMA journal_mode=DELETE", deadline))
    if path not in _told_without_wal:
        _told_without_wal.add(path)
        log.warning("the ledger %s uses a rollback journal instead of WAL: %s", path, why)
    return mode


def _mode_now(connection: sqlite3.Connection) -> str:
    return _mode(connection.execute("PRAGMA journal_mode"))


def _mode(answer: sqlite3.Cursor) -> str:
    return str(answer.fetchone()[0]).lower()
