"""Core statements, compiled once and run as plain SQL on the driver's connection."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import Executable

_DIALECT: Final = sqlite.dialect()


class Statement:
    """A Core statement, compiled once and run as plain SQL on the driver's connection.

    SQLAlchemy's own `execute` costs about 90 µs a statement, the driver 3 to 8; the statements of
    a recorded call are run this way.
    """

    __slots__ = ("_literals", "_names", "sql")

    def __init__(self, clause: Executable, columns: list[str] | None = None) -> None:
        compiled = clause.compile(dialect=_DIALECT, column_keys=columns)  # type: ignore[attr-defined]
        self.sql: str = str(compiled)
        self._names: tuple[str, ...] = tuple(compiled.positiontup or ())
        # A name that the caller must give has no value yet.
        self._literals = {n: value for n, value in compiled.params.items() if value is not None}

    def run(self, connection: sqlite3.Connection, **values: object) -> sqlite3.Cursor:
        """Execute with these values by name."""
        if self._literals:
            values = {**self._literals, **values}
        return self.run_row(connection, [values[name] for name in self._names])

    def run_row(self, connection: sqlite3.Connection, values: Sequence[object]) -> sqlite3.Cursor:
        """Execute with all values in the statement's own order: naming 20 costs as much as SQL."""
        try:
            return connection.execute(self.sql, values)
        except UnicodeEncodeError:  # half a surrogate pair in a name must not cost a row
            return connection.execute(self.sql, [_writable(value) for value in values])


def _writable(value: object) -> object:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
