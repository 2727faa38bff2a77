"""What can go wrong with the ledger; the driver's own errors stop here.

LedgerError                 the ledger did not do what was asked
├── LedgerBusy              somebody else holds the lock; trying again later is right
├── LedgerReplaced          the file is another one now; trying again at once is right
├── LedgerTooNew            the file was written by a newer version; never touched
└── WriteRefused            the database will never take this row; trying again is wrong
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError


class LedgerError(Exception):
    """The ledger did not do what was asked; `__cause__` is the driver's error."""


class LedgerBusy(LedgerError):
    """Another connection holds the write lock and did not let go in time."""


class LedgerInUse(LedgerBusy):
    """Another thread of this process is writing or opening; if that fails, it says so itself."""


class LedgerReplaced(LedgerError):
    """The file was removed, replaced or set aside as damaged; nothing was written to the new one.

    The next attempt opens the file that is there now, or begins a new one.
    """


class LedgerTooNew(LedgerError):
    """The schema was written by a newer version of the plugin."""


class WriteRefused(LedgerError):
    """The row itself is impossible (a constraint, a text of gigabytes): it can never succeed."""


@contextmanager
def driver_errors() -> Iterator[None]:
    """Turn what the driver, SQLAlchemy or the file system raise into `LedgerError`."""
    try:
        yield
    except (sqlite3.Error, SQLAlchemyError, OSError) as error:
        raise translated(error) from error


def translated(error: BaseException) -> LedgerError:
    """The ledger's word for an error of the driver."""
    return _kind(error)(str(error))


def is_busy(error: BaseException) -> bool:
    """Whether somebody else holds a lock."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_damaged(error: BaseException) -> bool:
    """Whether the file is not, or no longer, a sound database."""
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_passing(error: BaseException) -> bool:
    """Whether the file is as sound as before: somebody has the lock, or there is no room."""
    return is_busy(error) or _code(error) == sqlite3.SQLITE_FULL


def _kind(error: BaseException) -> type[LedgerError]:
    if is_busy(error):
        return LedgerBusy
    if _code(error) in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH):
        return WriteRefused
    return LedgerError


def _code(error: BaseException) -> int:
    """SQLite's primary result code, 0 where the error has none."""
    origin = getattr(error, "orig", None) or error
    return (getattr(origin, "sqlite_errorcode", None) or 0) & 0xFF
