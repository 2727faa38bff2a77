"""Who was active: the ids behind the sections of `/budget status`."""

from typing import Final

from sqlalchemy import ColumnElement, bindparam, select

from ..policy.limits import Scope
from .database import Database, Statement, driver_errors
from .schema import calls, runs

_COLUMNS: Final = {
    Scope.CRON_JOB: runs.c.cron_job_id,
    Scope.SENDER: runs.c.sender_id,
    Scope.PROFILE: runs.c.profile,
    Scope.PLATFORM: runs.c.platform,
}


def _active(column: ColumnElement[str], at: ColumnElement[int]) -> Statement:
    return Statement(
        select(column).distinct().where(at >= bindparam("since"), column != "").order_by(column)
    )


_ACTIVE: Final = {
    **{scope: _active(column, runs.c.started_ms) for scope, column in _COLUMNS.items()},
    Scope.MODEL: _active(calls.c.model, calls.c.at_ms),
}


def active_ids(database: Database, scope: Scope, since_ms: int) -> list[str]:
    """The ids of a scope with a run (a call, for models) since then, sorted.

    Raises:
        LedgerError: the ledger does not answer.
    """
    connection = database.connect()
    try:
        with driver_errors():
            return [row[0] for row in _ACTIVE[scope].run(connection, since=since_ms).fetchall()]
    finally:
        connection.close()
