"""Who was active: the ids behind the sections of `/budget status`."""

from typing import Final

from sqlalchemy import ColumnElement, bindparam, case, func, select

from ..policy.job_costs import JobRun
from ..policy.limits import Scope
from .sql.database import Database, Statement, driver_errors
from .sql.schema import calls, runs

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


_JOB_RUNS: Final = Statement(
    select(
        func.min(runs.c.started_ms),
        func.coalesce(func.sum(calls.c.cost_nanos), 0),
        func.count(calls.c.id),
        func.coalesce(func.sum(case((calls.c.cost_nanos.is_(None), 1), else_=0)), 0),
        func.max(runs.c.profile),  # all of a tree have their root's
    )
    .select_from(runs)
    .join(calls, calls.c.run_id == runs.c.run_id)
    .where(runs.c.cron_job_id == bindparam("job"), runs.c.started_ms >= bindparam("since"))
    .group_by(runs.c.root_run_id)
    .order_by(func.min(runs.c.started_ms))
)


def job_runs(database: Database, cron_job_id: str, since_ms: int) -> list[JobRun]:
    """The billed runs of a cron job since then, each with all that it delegated, oldest first.

    Raises:
        LedgerError: the ledger does not answer.
    """
    connection = database.connect()
    try:
        with driver_errors():
            rows = _JOB_RUNS.run(connection, job=cron_job_id, since=since_ms).fetchall()
            return [JobRun(*row) for row in rows]
    finally:
        connection.close()
