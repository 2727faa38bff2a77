"""Core statements, compiled once and run as plain SQL on the driver's connection."""

import sqlite3
from typing import Any, Final

from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import Executable

_DIALECT: Final = sqlite.dialect()


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
        bound = [merged[name] for name in self._names]
        try:
            return connection.execute(self.sql, bound)
        except UnicodeEncodeError:  # half a surrogate pair in a name must not cost a row
            return connection.execute(self.sql, [_writable(value) for value in bound])


def _writable(value: object) -> object:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
